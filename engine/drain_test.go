package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// works is the tool of an agent that counts calls by their argument and takes a minute for each.
type works struct {
	mu    sync.Mutex
	times map[string]int
	atOne chan string // gets the argument of each call that begins
}

func newWorks() *works { return &works{times: map[string]int{}, atOne: make(chan string, 100)} }

func (w *works) tool() cairn.Tool {
	return tool("work", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		w.mu.Lock()
		w.times[in.Text]++
		w.mu.Unlock()
		w.atOne <- in.Text
		testclock.Deaf(time.Minute)
		return "done " + in.Text, call.Append([]string{"done"}, in.Text)
	})
}

// rounds is a model that has the tool called n times before it answers, with two calls at once.
func rounds(n int) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		round := len(req.Messages) / 2
		if round == n {
			return scripted.Text("all done")
		}
		return scripted.Reply(scripted.Text(fmt.Sprintf("round %d ", round)),
			scripted.Call("work", in{fmt.Sprintf("%d a", round)}), scripted.Call("work", in{fmt.Sprintf("%d b", round)}))
	})
}

// kindsOf returns the kinds of events that a turn must have wherever it was driven, sorted, without the discards of
// takeovers. It fails if a sequence is missing or comes twice.
func kindsOf(t *testing.T, events []cairn.Event) (list []string) {
	t.Helper()
	for i, ev := range events {
		if ev.Sequence != int64(i+1) {
			t.Errorf("event %d has the sequence %d", i+1, ev.Sequence)
		}
		// These depend on the durability and the tool.
		if ev.Type != cairn.EventCheckpoint && ev.Type != cairn.EventStatePatch && ev.Type != cairn.EventStepDiscarded {
			list = append(list, fmt.Sprintf("%s %s %d", ev.Agent, ev.Type, ev.Step))
		}
	}
	slices.Sort(list)
	return list
}

// A run of an engine that is drained finishes its step. Another worker continues it within a poll and repeats nothing,
// and the log is that of a run that was never moved, whatever the agent's durability.
func TestDrainMovesRunsBehindTheirStep(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, w := tapOn(nil), newWorks()
				agent := bot(rounds(3), w.tool())
				agent.Durability = d
				one := open(t, st, agent)
				run := start(t, one, "s", "go")
				for range 3 { // into the second step
					<-w.atOne
				}
				began := time.Now()
				if err := one.Drain(context.Background()); err != nil {
					t.Errorf("drain: %v", err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("the step took a minute, the drain %s", took)
				}
				_, err := run.Wait(t.Context())
				wantError(t, err, cairn.ErrClosed)
				if row := load(t, st, "s"); row.Step != 2 || row.Lease.Owner != "" {
					t.Errorf("released at step %d with the lease %+v", row.Step, row.Lease)
				}
				drained := time.Now()
				two := open(t, tapOn(st.Store), agent, named("b"))
				go two.Work(t.Context())
				wait(t, attach(t, two, "s"))
				if took := time.Since(drained); took > time.Minute+2*time.Second { // the third step, and a poll
					t.Errorf("the rest took %s", took)
				}
				for call, n := range w.times {
					if n != 1 {
						t.Errorf("the tool ran %d times for %q", n, call)
					}
				}
				if row := load(t, st, "s"); len(w.times) != 6 || row.Status != cairn.SessionCompleted || row.Usage.ModelCalls != 4 {
					t.Errorf("calls %v, session %+v", w.times, row)
				}
				wantSound(t, st.Store, "s")
				uncut := tapOn(nil)
				agent.Tools[0] = echo("work")
				turn(t, open(t, uncut, agent), "s", "go")
				if got, want := kindsOf(t, history(t, st, "s")), kindsOf(t, history(t, uncut, "s")); !slices.Equal(got, want) {
					t.Errorf("log\n%v\nwant\n%v", got, want)
				}
			})
		})
	}
}

// A sub-agent's run is released behind its own step if its parent's step is staged tool by tool. Otherwise it runs to
// its end, since the parent's step would be lost.
func TestDrainAndSubAgents(t *testing.T) {
	t.Parallel()
	for _, d := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, w := tapOn(nil), newWorks()
				helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: rounds(3), Tools: []cairn.Tool{w.tool()}}
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					if len(req.Messages) == 1 {
						return scripted.Reply(scripted.Call("work", in{"beside"}), scripted.Call("helper", map[string]string{"input": "help"}))
					}
					return scripted.Text("all done")
				}), w.tool(), cairn.SubAgent(helper))
				agent.Durability = d
				one := open(t, st, agent)
				start(t, one, "s", "go")
				for range 3 { // one alongside the sub-agent, whose first step has two
					<-w.atOne
				}
				testclock.Advance(time.Second)
				began := time.Now()
				if err := one.Drain(context.Background()); err != nil {
					t.Errorf("drain: %v", err)
				}
				left := 3 * time.Minute // the sub-agent's steps
				if d == cairn.PerTool {
					left = time.Minute
				}
				if took := time.Since(began); took > left {
					t.Errorf("the drain took %s, want %s", took, left)
				}
				if row := load(t, st, "s"); row.Status != cairn.SessionActive || row.Lease.Owner != "" {
					t.Errorf("session %+v", row)
				}
				two := open(t, tapOn(st.Store), agent, named("b"))
				go two.Work(t.Context())
				wait(t, attach(t, two, "s"))
				for call, n := range w.times {
					if n != 1 {
						t.Errorf("the tool ran %d times for %q", n, call)
					}
				}
				if row := load(t, st, "s"); len(w.times) != 7 || row.Status != cairn.SessionCompleted || row.Usage.ModelCalls != 2 {
					t.Errorf("calls %v, session %+v", w.times, row)
				}
				wantSound(t, st.Store, "s")
				if d == cairn.PerTool {
					return // the log has the parent's step twice, once as discarded
				}
				uncut := tapOn(nil)
				helper.Tools[0], agent.Tools[0] = echo("work"), echo("work")
				turn(t, open(t, uncut, agent), "s", "go")
				if got, want := kindsOf(t, history(t, st, "s")), kindsOf(t, history(t, uncut, "s")); !slices.Equal(got, want) {
					t.Errorf("log\n%v\nwant\n%v", got, want)
				}
			})
		})
	}
}

// A step that is not finished in time is cut off, and repeated by the next worker.
func TestDrainCutsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, w := tapOn(nil), newWorks()
		agent := bot(rounds(1), w.tool())
		one := open(t, st, agent)
		run := start(t, one, "s", "go")
		<-w.atOne
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		wantError(t, one.Drain(ctx), context.DeadlineExceeded)
		_, err := run.Wait(t.Context())
		wantError(t, err, cairn.ErrClosed)
		two := open(t, tapOn(st.Store), agent, named("b"))
		again, err := two.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, again), cairn.RunCompleted, cairn.ReasonReply)
		if w.times["0 a"] != 2 {
			t.Errorf("calls %v", w.times)
		}
		wantSound(t, st.Store, "s")
	})
}
