package pgstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// BenchmarkOneWrite alternates between steps whose events are in their commits and steps that append them in writes of
// their own. Each step first appends two events of its stream, and then has five more, the commit of two messages and a
// checkpoint, and two events that follow from the commit. The seven are in the commit; or the five are appended before
// it, and the two with the first of the next step, or after the commit that ends a run. It reports the rates, the median
// of their ratios, and the processor time of a step.
func BenchmarkOneWrite(b *testing.B) {
	for _, c := range []struct {
		name    string
		writers int
		tree    bool
	}{{"sessions=1", 1, false}, {"sessions=16", 16, false}, {"sessions=64", 64, false}, {"children=8", 8, true}} {
		b.Run(c.name, func(b *testing.B) {
			server := testenv.NewPostgres(b)
			var sides [2]*streams
			for i := range sides {
				sides[i] = newStreams(b, openOn(b, server.URL(), c.writers), c.writers, c.tree)
				sides[i].separate = i == 1
				warmUp(b, sides[i])
			}
			var ratios []float64
			var rates [2]float64
			var spent [2]testenv.Spent
			for b.Loop() {
				var now [2]float64
				for i := range sides {
					spent[i].Add(b, server.Server, func() (steps int) {
						now[i], steps = driveCounted(b, sides[i], slice)
						return steps
					})
					rates[i] += now[i]
				}
				ratios = append(ratios, now[0]/now[1])
			}
			n := len(ratios)
			slices.Sort(ratios)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rates[0]/float64(n), "steps/s")
			b.ReportMetric(rates[1]/float64(n), "separate/s")
			b.ReportMetric(ratios[n/2], "ratio")
			b.ReportMetric(ratios[n/10], "ratio-p10")
			b.ReportMetric(ratios[n-1-n/10], "ratio-p90")
			spent[0].Report(b, "step")
			spent[1].Report(b, "separate")
			for _, side := range sides {
				side.check(b)
			}
		})
	}
}

// streams are writers that commit steps with their events.
type streams struct {
	b        *testing.B
	separate bool
	list     []*stream
}

type stream struct {
	*stepper
	log     *Log
	batch   int64
	pending []cairn.Event // that follow from the last commit
}

func newStreams(b *testing.B, s *Store, writers int, tree bool) *streams {
	b.Helper()
	out := &streams{b: b}
	var root *cairn.Session
	if tree {
		root = newStepper(b, s, "root", nil).row
	}
	for i := range writers {
		out.list = append(out.list, &stream{stepper: newChild(b, s, fmt.Sprint("session-", i), root), log: s.log})
	}
	return out
}

func (s *streams) writers() int { return len(s.list) }

func (s *streams) step(writer int) error {
	st := s.list[writer]
	if st.row.Lease.Token == 0 { // no step holds the lease yet
		return st.step()
	}
	if err := st.append(append(st.pending, st.say(2)...)); err != nil {
		return err
	}
	st.pending = nil
	rest, marks := st.say(5), st.marks()
	if !s.separate {
		st.events = append(rest, marks...)
		return st.step()
	}
	if err := st.append(rest); err != nil {
		return err
	}
	if err := st.step(); err != nil {
		return err
	}
	st.pending = marks
	if st.n%stepsPerRun > 0 {
		return nil
	}
	st.pending = nil
	return st.append(marks)
}

// append flushes a batch of a stream.
func (st *stream) append(list []cairn.Event) error {
	st.batch++
	w := driver.Writer{Session: st.row.ID, Token: st.row.Lease.Token, ID: "writer", Batch: st.batch}
	_, err := st.log.AppendFenced(st.tb.Context(), st.row.Log(), driver.AnySequence, w, list...)
	return err
}

// say returns events of the step under way.
func (st *stream) say(n int) []cairn.Event {
	return slices.Repeat([]cairn.Event{{Type: cairn.EventTextDelta, SessionID: st.row.ID, RunID: st.row.RunID, Agent: "support",
		Step: st.n + 1, Time: st.row.UpdatedAt, Text: "a few words of it"}}, n)
}

// marks returns what follows from the commit of the step under way.
func (st *stream) marks() []cairn.Event {
	ev := cairn.Event{SessionID: st.row.ID, RunID: st.row.RunID, Agent: "support", Step: st.n + 1, Time: st.row.UpdatedAt}
	list := []cairn.Event{ev, ev}
	list[0].Type, list[1].Type, list[1].CheckpointID = cairn.EventStepCommitted, cairn.EventCheckpoint, fmt.Sprint("cp-", st.n+1)
	return list
}

// check looks whether the logs have each step once, with all of its events in their order.
func (s *streams) check(b *testing.B) {
	b.Helper()
	last := map[string]int{}
	seen := map[string]bool{}
	for _, st := range s.list {
		if st.pending != nil {
			if err := st.append(st.pending); err != nil {
				b.Fatal(err)
			}
			st.pending = nil
		}
	}
	for _, st := range s.list {
		if seen[st.row.Log()] {
			continue
		}
		seen[st.row.Log()] = true
		for after := int64(0); ; {
			list, err := st.log.Read(b.Context(), st.row.Log(), after, 1000)
			if err != nil {
				b.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			after += int64(len(list))
			for _, ev := range list {
				if ev.Type != cairn.EventStepCommitted {
					continue
				}
				if before := last[ev.SessionID]; before != 0 && ev.Step != before+1 {
					b.Fatalf("step %d of session %s comes after step %d", ev.Step, ev.SessionID, before)
				}
				last[ev.SessionID] = ev.Step
			}
		}
	}
	for _, st := range s.list {
		if last[st.row.ID] != st.n {
			b.Fatalf("the last step of session %s on the log is %d, want %d", st.row.ID, last[st.row.ID], st.n)
		}
	}
}
