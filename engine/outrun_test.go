package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// outrun is a store that another process outruns: something happens between its answer to a read and the answer's
// arrival.
type outrun struct {
	*tap
	// queue is how long the next answer about the queue takes. The snapshot read next takes longer.
	queue, snapshot moment
	child           func(*cairn.Session) // called once a child's row says that the child is ready
	asked           atomic.Bool
}

// moment is how long one answer takes to arrive.
type moment struct{ atomic.Int64 }

func (m *moment) take() time.Duration { return time.Duration(m.Swap(0)) }

func (s *outrun) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	snap, err := s.tap.Read(ctx, id, want)
	switch {
	case want.Queue:
		if d := s.queue.take(); d > 0 {
			s.snapshot.Store(int64(2 * d))
			testclock.Deaf(d)
		}
	case want.Messages && want.State:
		testclock.Deaf(s.snapshot.take())
	case want == driver.Want{} && s.child != nil && err == nil:
		if row := snap.Session; row.ParentID != "" && row.Ready() && !s.asked.Swap(true) {
			s.child(row)
		}
	}
	return snap, err
}

// The process that drove the previous turn and a worker may both find the next one in the queue.
func TestQueuedTurnIsBegunOnce(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"by a worker of the same process": false, "by one of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				slow := &outrun{tap: st}
				one := open(t, slow, bot(talker(), note()), named("one"), with(func(o *engine.Options) {
					if !another { // both of them read the session before either begins the turn
						o.CacheSessions = -1
					}
				}))
				worker := one
				if another {
					worker = open(t, st, bot(talker(), note()), named("two"))
				}
				start(t, one, "s", "first")
				second := start(t, one, "s", "second", engine.WithOnBusy(engine.BusyEnqueue))
				slow.queue.Store(int64(5 * time.Second))
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go worker.Work(ctx)
				if res := wait(t, second); res.Turn != 2 || res.Status != cairn.RunCompleted {
					t.Errorf("the second turn: %+v", res)
				}
				testclock.Advance(time.Minute)
				wantSound(t, st, "s")
				began := 0
				for _, ev := range history(t, st, "s") {
					if ev.Type == cairn.EventRunStart && ev.RunID == second.ID() {
						began++
					}
				}
				if began != 1 {
					t.Errorf("the second turn began %d times", began)
				}
				if got := state(t, st, "s"); got != `{"notes":["first","second"]}` {
					t.Errorf("state %s", got)
				}
			})
		})
	}
}

// A sub-agent that was ready may have continued, and wait again, before the process that resumes its parent reaches it.
// Then the parent waits too.
func TestSubAgentThatWaitsAgain(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	sub := &cairn.Agent{Name: "sub", Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")},
		Model: scripted.New(scripted.Call("ask", in{"may we?"}), scripted.Text("agreed"))}
	agent := bot(scripted.New(scripted.Call("sub", map[string]string{"input": "go"}), scripted.Text("done")), cairn.SubAgent(sub))
	count := func(child *cairn.Session, open int) {
		t.Helper()
		_, err := driver.Update(context.Background(), st.Store, child.ID, func(row *cairn.Session) (*driver.Commit, error) {
			return &driver.Commit{Suspend: &driver.Suspend{StepID: row.SuspendedStep, OpenCalls: open}}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	var child *cairn.Session
	outran := &outrun{tap: st}
	eng := open(t, outran, agent)
	res := turn(t, eng, "s", "go")
	submit(t, eng, "s", cairn.Answer(res.Suspended.Calls[0], "yes"), cairn.OutcomeAccepted)
	run, err := eng.Resume(t.Context(), "s", engine.WithHooks(&cairn.Hooks{RunResumed: func(context.Context, *cairn.Step, string) {
		outran.child = func(row *cairn.Session) {
			child = row
			count(row, 1)
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, run), cairn.RunSuspended, cairn.ReasonChildren)
	count(child, 0)
	wantStatus(t, resume(t, eng, "s"), cairn.RunCompleted, cairn.ReasonReply)
	for _, m := range messages(t, st, "s") {
		for _, r := range m.ToolResults() {
			if string(r.Output) != `"agreed"` {
				t.Errorf("result %s", r.Output)
			}
		}
	}
}

// A turn that replaces a wait ends the sub-agents that were waited for, whichever process begins it: first that is
// recorded, then the sub-agent ends, then the turn begins. If its process dies before the last of these, there is no
// turn, and a worker ends the wait.
func TestProcessDiesBeforeSubAgentsAreEnded(t *testing.T) {
	t.Parallel()
	for commits, status := range []cairn.SessionStatus{1: cairn.SessionInterrupted, 2: cairn.SessionInterrupted, 3: cairn.SessionCompleted} {
		if commits > 0 {
			t.Run(fmt.Sprint("after ", commits, " commits"), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { dieAfterCommits(t, commits, status) })
			})
		}
	}
}

func dieAfterCommits(t *testing.T, commits int, status cairn.SessionStatus) {
	st := tapOn(nil)
	agent := func() *cairn.Agent {
		sub := &cairn.Agent{Name: "sub", Model: scripted.New(scripted.Call("ask", in{"may we?"})),
			Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")}}
		return bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) == 1 {
				return scripted.Call("sub", map[string]string{"input": "go"})
			}
			return scripted.Text("never mind")
		}), cairn.SubAgent(sub))
	}
	one := open(t, st, agent(), named("one"))
	call := turn(t, one, "s", "go").Suspended.Calls[0]
	testclock.Advance(time.Second)
	n := 0
	st.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Commit" {
			if n++; n == commits {
				st.cut()
			}
		}
		return nil
	})
	_, _ = one.Execute(t.Context(), "s", "bot", cairn.Text("stop"), withdraw)
	leave(t, one)
	st.stepIn(nil, nil)
	st.log.stepIn(nil)
	if row := load(t, st, "s"); (row.Ending != nil) != (commits < 3) || row.Ready() {
		t.Errorf("the session is %s with %+v", row.Status, row.Ending)
	}

	two := open(t, st, agent(), named("two"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go two.Work(ctx)
	testclock.Advance(5 * time.Minute)
	if row := load(t, st, "s"); row.Status != status || row.OpenCalls != 0 || row.Ending != nil {
		t.Errorf("the session is %s and waits for %d, with %+v", row.Status, row.OpenCalls, row.Ending)
	}
	if row := load(t, st, call.SessionID); row.Status != cairn.SessionInterrupted {
		t.Errorf("the sub-agent's session is %s", row.Status)
	}
	if row, err := two.Call(t.Context(), "s", call.ID); err != nil || row.Status != cairn.CallDropped {
		t.Errorf("the call: %+v, %v", row, err)
	}
	wantSound(t, st, "s")
}

// A worker that has seen a session ready does not undo a caller's stop of it.
func TestWorkerLeavesStoppedSessionsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(scripted.New(scripted.Call("ask", in{"may we?"}), scripted.Text("on")), cairn.ClientTool[in, string]("ask", "Asks."))
		eng := open(t, st, agent)
		call := turn(t, eng, "s", "go").Suspended.Calls[0]
		submit(t, eng, "s", cairn.Answer(call, "yes"), cairn.OutcomeAccepted)
		var stopped atomic.Bool
		st.stepIn(nil, func(ctx context.Context, op string) error {
			if op == "Due" && !stopped.Swap(true) {
				return eng.Interrupt(ctx, "s", "never mind")
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go eng.Work(ctx)
		testclock.Advance(time.Minute)
		if row := load(t, st, "s"); row.Status != cairn.SessionInterrupted || row.Turn != 1 {
			t.Errorf("the session is %s in turn %d", row.Status, row.Turn)
		}
	})
}
