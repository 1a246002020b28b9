package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// eventSlice is how long one side of BenchEvents runs before it is the other's turn.
	eventSlice = 250 * time.Millisecond
	// stepsOfRun is the number of steps of the runs of BenchEvents.
	stepsOfRun = 10
)

// Meter measures the cost of steps.
type Meter interface {
	// Add measures do, which returns the number of its steps.
	Add(do func() (steps int))
	// Report reports the cost of a step. The names of the figures begin with name.
	Report(b *testing.B, name string)
}

// BenchEvents compares two ways to write the events of steps to the log of a store that is a [driver.LogProvider]: in
// the commit, or in appends of their own. A step has a first flush of 2 events, 5 further events, the commit of two
// messages with a checkpoint, and 2 events that follow from the commit; every tenth step ends its run. With appends the
// further events are flushed before the commit, and the marks that follow from it travel with the next step's first
// flush, or after the end of a run by themselves. In the commit everything but the first flush is part of it.
//
// An iteration is a round in which each way has its turn for a quarter of a second. The figures are medians of the
// rounds: x is how many times as many steps there are with events in the commit, x-p10 and x-p90 are percentiles. If
// meter is not nil, it makes a meter for each of the two ways.
func BenchEvents(b *testing.B, open OpenStore, meter func() Meter) {
	for _, sessions := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchEvents(b, open, meter, sessions, false) })
	}
	b.Run("children=8", func(b *testing.B) { benchEvents(b, open, meter, 8, true) })
}

func benchEvents(outer *testing.B, open OpenStore, meter func() Meter, sessions int, oneTree bool) {
	b := &bench{B: outer, ctx: context.Background(), st: open(outer)}
	p, ok := b.st.(driver.LogProvider)
	if !ok {
		b.Fatal("the store has no log")
	}
	log, ok := p.EventLog().(driver.Fencer)
	if !ok {
		b.Fatal("the store's log is not a Fencer")
	}
	sides := [2][]*eventStepper{b.steppers(log, sessions, oneTree, false), b.steppers(log, sessions, oneTree, true)}
	var meters [2]Meter
	if meter != nil {
		meters = [2]Meter{meter(), meter()}
	}
	var rates [2][]float64
	var ratios []float64
	for round := 0; b.Loop(); round++ {
		for i := range sides {
			side := (i + round) % 2
			rates[side] = append(rates[side], b.stepAll(sides[side], meters[side]))
		}
		ratios = append(ratios, rates[1][round]/rates[0][round])
	}
	for i, name := range [...]string{"appends", "commit"} {
		b.checkEvents(p.EventLog(), sides[i])
		b.ReportMetric(percentile(rates[i], 50), name+"-steps/s")
		if meters[i] != nil {
			meters[i].Report(outer, name)
		}
	}
	b.ReportMetric(percentile(ratios, 50), "x")
	b.ReportMetric(percentile(ratios, 10), "x-p10")
	b.ReportMetric(percentile(ratios, 90), "x-p90")
	b.ReportMetric(0, "ns/op")
}

// steppers makes sessions, of one tree or each of its own.
func (b *bench) steppers(log driver.Fencer, sessions int, oneTree, inCommit bool) (list []*eventStepper) {
	var root *cairn.Session
	for i := range sessions {
		create := &cairn.Session{Agent: agentName}
		if oneTree && root != nil {
			create.ParentID, create.RootID, create.Incarnation = root.ID, root.ID, root.Incarnation
		}
		row, err := b.st.Commit(b.ctx, fmt.Sprintf("%t-%d", inCommit, i), &driver.Commit{Guard: driver.Guard{New: true}, Create: create})
		b.must(err)
		if root == nil {
			root = row
		}
		list = append(list, &eventStepper{st: b.st, log: log, inCommit: inCommit, row: row})
	}
	return list
}

// percentile returns a percentile of a list, which it sorts.
func percentile(list []float64, percent int) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)*percent/100]
}

// stepAll has all sessions make steps at once for a slice of time. It returns how many steps they made per second.
func (b *bench) stepAll(list []*eventStepper, meter Meter) (rate float64) {
	steps := func() int {
		started := time.Now()
		made := make([]int, len(list))
		errs := make([]error, len(list))
		var group sync.WaitGroup
		for i, s := range list {
			group.Go(func() {
				for time.Since(started) < eventSlice && errs[i] == nil {
					errs[i] = s.step(b.ctx)
					made[i]++
				}
			})
		}
		group.Wait()
		b.must(errors.Join(errs...))
		n := 0
		for _, m := range made {
			n += m
		}
		rate = float64(n) / time.Since(started).Seconds()
		return n
	}
	if meter == nil {
		steps()
	} else {
		meter.Add(steps)
	}
	return rate
}

// checkEvents checks that the logs of sessions have the events of every step, in order and without gaps.
func (b *bench) checkEvents(log driver.Log, list []*eventStepper) {
	logs := map[string]bool{}
	owners := map[string]*eventStepper{}
	for _, s := range list {
		b.must(s.flush(b.ctx, s.marks...))
		logs[s.row.Log()], owners[s.row.ID] = true, s
	}
	seen := map[string]int{}
	for name := range logs {
		for last := int64(0); ; {
			page, err := log.Read(b.ctx, name, last, 1000)
			b.must(err)
			if len(page) == 0 {
				break
			}
			for i := range page {
				ev := &page[i]
				if last++; ev.Sequence != last {
					b.Fatalf("the event after %d has the sequence %d", last-1, ev.Sequence)
				}
				if n := seen[ev.SessionID]; ev.Step != n/eventsOfStep+1 || ev.Type != eventTypes[n%eventsOfStep] {
					b.Fatalf("event %d of session %q is %s of step %d", n+1, ev.SessionID, ev.Type, ev.Step)
				}
				seen[ev.SessionID]++
			}
		}
	}
	for id, s := range owners {
		if seen[id] != s.steps*eventsOfStep {
			b.Fatalf("session %q has %d events of %d steps", id, seen[id], s.steps)
		}
	}
}

// eventTypes are the events of a step: the first flush, the further events, and what follows from the commit.
var eventTypes = [...]cairn.EventType{cairn.EventStepStart, cairn.EventTextDelta,
	cairn.EventTextDelta, cairn.EventTextDelta, cairn.EventTextDelta, cairn.EventToolStart, cairn.EventToolEnd,
	cairn.EventStepCommitted, cairn.EventCheckpoint}

const (
	eventsOfStep = len(eventTypes)
	firstFlush   = 2 // events before the first flush
	beforeMarks  = 7 // events before those that follow from the commit
)

// eventStepper makes steps of one session, as an engine does, with their events.
type eventStepper struct {
	st       driver.Store
	log      driver.Fencer
	inCommit bool // the events are in the commit

	row   *cairn.Session
	steps int
	batch int64
	marks []cairn.Event // of the last step, if they are not on the log
}

// events returns some of the events of the next step.
func (s *eventStepper) events(from, to int) (list []cairn.Event) {
	for _, kind := range eventTypes[from:to] {
		ev := cairn.Event{Type: kind, SessionID: s.row.ID, RunID: s.run(), Agent: agentName, Step: s.steps + 1, Time: time.Now()}
		switch kind {
		case cairn.EventTextDelta:
			ev.Text = "some words of an answer"
		case cairn.EventToolStart, cairn.EventToolEnd:
			ev.CallID, ev.Tool, ev.Data = fmt.Sprint("call-", s.steps), "refund", []byte(`{"order":42,"reason":"arrived broken"}`)
		}
		list = append(list, ev)
	}
	return list
}

func (s *eventStepper) run() string { return fmt.Sprintf("run-%d-of-%s", s.steps/stepsOfRun, s.row.ID) }

// flush appends events under the session's lease.
func (s *eventStepper) flush(ctx context.Context, list ...cairn.Event) error {
	s.batch++
	w := driver.Writer{Session: s.row.ID, Token: s.row.Lease.Token, ID: "writer", Batch: s.batch}
	_, err := s.log.AppendFenced(ctx, s.row.Log(), driver.AnySequence, w, list...)
	return err
}

// step makes one step.
func (s *eventStepper) step(ctx context.Context) error {
	c := s.commit()
	if err := s.flush(ctx, append(s.marks, s.events(0, firstFlush)...)...); err != nil {
		return err
	}
	if s.inCommit {
		c.Events = s.events(firstFlush, eventsOfStep)
	} else {
		if err := s.flush(ctx, s.events(firstFlush, beforeMarks)...); err != nil {
			return err
		}
		s.marks = s.events(beforeMarks, eventsOfStep)
	}
	row, err := s.st.Commit(ctx, s.row.ID, c)
	if err != nil {
		return err
	}
	s.row = row
	s.steps++
	if c.EndRun != nil && !s.inCommit {
		err, s.marks = s.flush(ctx, s.marks...), nil
	}
	return err
}

// commit returns the commit of the next step, without events. The first one of a run begins it, and the last one ends
// it.
func (s *eventStepper) commit() *driver.Commit {
	own := *s.row
	own.RunID, own.Step = s.run(), s.steps%stepsOfRun
	c := typicalStep(&own)
	switch own.Step {
	case 0:
		begin := beginCommit(own.RunID, "worker", time.Hour)
		c.Guard, c.StartRun, c.Status, c.Lease = begin.Guard, begin.StartRun, begin.Status, begin.Lease
	case stepsOfRun - 1:
		end := endCommit(&own)
		c.EndRun, c.Status, c.Lease = end.EndRun, end.Status, end.Lease
	}
	return c
}
