package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// asksAgent returns a model that consults an agent, and has the last word once the call has a result or the user says
// "never mind".
func asksAgent(agent string) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool || last.Text() == "never mind" {
			return scripted.Text("fine")
		}
		return scripted.Call(agent, map[string]string{"input": "act"})
	})
}

// deep returns an agent "bot" that consults "mid", which consults "leaf", which asks for an approval.
func deep() *cairn.Agent {
	leaf := &cairn.Agent{Name: "leaf", Tools: []cairn.Tool{echo("act", cairn.RequireApproval())}, Model: scripted.New(scripted.Call("act", in{"now"}), scripted.Text("acted"))}
	mid := &cairn.Agent{Name: "mid", Model: asksAgent("leaf"), Tools: []cairn.Tool{cairn.SubAgent(leaf)}}
	return bot(asksAgent("mid"), cairn.SubAgent(mid))
}

// ender is a store that calls hooks before and after each commit of a process.
type ender struct {
	*tap
	mu            sync.Mutex
	before, after func(ctx context.Context, id string, c *driver.Commit)
}

func (s *ender) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		before(ctx, id, c)
	}
	row, err := s.tap.Commit(ctx, id, c)
	if err == nil && after != nil {
		after(ctx, id, c)
	}
	return row, err
}

// once has a store call fn after the first commit that when selects.
func (s *ender) once(when func(c *driver.Commit) bool, fn func()) {
	done := false
	s.after = func(_ context.Context, _ string, c *driver.Commit) {
		if when(c) && !done {
			done = true
			fn()
		}
	}
}

func recordsEnding(c *driver.Commit) bool { return c.Ending != nil }

// treeBelow lists the sessions of a tree, the root first, each before the one below it.
func treeBelow(t *testing.T, st store.Store, root string) (list []cairn.Session) {
	t.Helper()
	for id := root; id != ""; {
		list = append(list, *load(t, st, id))
		page, err := st.List(t.Context(), store.SessionQuery{ParentID: id})
		if err != nil {
			t.Fatal(err)
		}
		if id = ""; len(page.Items) > 0 {
			id = page.Items[0].ID
		}
	}
	return list
}

// wantEnded checks that each session of a tree has ended with a status, once, and after those below it. A root whose
// wait was replaced by a turn has not ended in the run that waited.
func wantEnded(t *testing.T, st durable, status cairn.SessionStatus, n int) {
	t.Helper()
	list := treeBelow(t, st, "s")
	if len(list) != n {
		t.Fatalf("the tree has %d sessions, want %d", len(list), n)
	}
	var ends []string
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventRunEnd && ev.Status != cairn.RunSuspended {
			ends = append(ends, ev.SessionID)
		}
	}
	var want []string
	for i := len(list) - 1; i >= 0; i-- {
		want = append(want, list[i].ID)
		row := &list[i]
		if row.Ending != nil || row.OpenCalls != 0 || i > 0 && row.Status != status || i == 0 && row.Status != status && row.Status != cairn.SessionCompleted {
			t.Errorf("session %d of the tree is %s, with %d calls and the stop %+v", i, row.Status, row.OpenCalls, row.Ending)
		}
	}
	for len(want) < len(ends) && list[0].Turn > 1 { // the turns after the wait
		want = append(want, "s")
	}
	if got, want := strings.Join(ends, " "), strings.Join(want, " "); got != want {
		t.Errorf("the runs ended in the order %q, want %q", got, want)
	}
	wantSound(t, st, "s")
}

// A process that ends a waiting tree dies before or after any of its commits. Whether a worker or another call continues,
// each session ends once, those below first.
func TestEndOfAWaitingTreeAfterAnyCrash(t *testing.T) {
	t.Parallel()
	execute := func(ctx context.Context, eng *engine.Engine) error {
		run, err := eng.Execute(ctx, "s", "bot", cairn.Text("never mind"), withdraw)
		if err == nil {
			_, err = run.Wait(ctx)
		}
		return err
	}
	for name, verb := range map[string]struct {
		do      func(ctx context.Context, eng *engine.Engine) error
		status  cairn.SessionStatus // of the sub-agents
		commits int
	}{
		"interrupt": {func(ctx context.Context, eng *engine.Engine) error { return eng.Interrupt(ctx, "s", "enough") }, cairn.SessionInterrupted, 5},
		"abort":     {func(ctx context.Context, eng *engine.Engine) error { return eng.Abort(ctx, "s", "enough") }, cairn.SessionFailed, 5},
		"execute":   {execute, cairn.SessionInterrupted, 6}, // the turn has a step
	} {
		for k := 0; k <= verb.commits; k++ {
			for by, carryOn := range map[string]func(t *testing.T, eng *engine.Engine){
				"a worker": func(t *testing.T, eng *engine.Engine) {
					workFor(t, eng, time.Minute)
				},
				"another call": func(t *testing.T, eng *engine.Engine) {
					testclock.Advance(2 * ttl) // a dead process's lease
					if err := verb.do(t.Context(), eng); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
						t.Error(err)
					}
				},
			} {
				t.Run(fmt.Sprint(name, "/", k, " commits, then ", by), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						st := &ender{tap: tapOn(nil)}
						one := open(t, st, deep(), shortLease, named("one"))
						wantStatus(t, turn(t, one, "s", "go"), cairn.RunSuspended, cairn.ReasonChildren)
						n := 0
						st.after = func(context.Context, string, *driver.Commit) {
							if n++; n == k {
								st.cut()
							}
						}
						if k == 0 {
							st.before = func(context.Context, string, *driver.Commit) { st.cut() }
						}
						ctx, cancel := context.WithTimeout(t.Context(), ttl)
						defer cancel()
						err := verb.do(ctx, one)
						if k < verb.commits-1 && err == nil {
							t.Errorf("a dead process has a result after %d commits", n)
						}
						leave(t, one)

						left := tapOn(st.Store)
						if row := load(t, left, "s"); k > 0 && k < 5-btoi(name == "execute") && row.Ending == nil {
							t.Errorf("after %d commits the session is %s without a stop", k, row.Status)
						}
						two := open(t, left, deep(), shortLease, named("two"))
						carryOn(t, two)
						if k == 0 && by == "a worker" {
							if row := load(t, left, "s"); row.Status != cairn.SessionPaused || row.Ending != nil {
								t.Errorf("the session is %s", row.Status)
							}
							return
						}
						for _, err := range readFor(t, two, 3*ttl) { // a reader completes the log
							if err != nil {
								break
							}
						}
						wantEnded(t, left, verb.status, 3)
					})
				})
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readFor reads the log of the session "s" for a time.
func readFor(t *testing.T, eng *engine.Engine, d time.Duration) func(func(cairn.Event, error) bool) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return eng.Events(ctx, "s", cairn.Cursor{})
}

// Two processes end the same tree at once, each step of one between two of the other. Both succeed.
func TestTwoProcessesEndATreeAtOnce(t *testing.T) {
	t.Parallel()
	for k := 1; k <= 5; k++ {
		t.Run(fmt.Sprint("from commit ", k, " on"), func(t *testing.T) {
			t.Parallel()
			st := &ender{tap: tapOn(nil)}
			one := open(t, st, deep(), named("one"))
			turn(t, one, "s", "go")
			two := open(t, tapOn(st.Store), deep(), named("two"))
			n := 0
			st.before = func(ctx context.Context, _ string, _ *driver.Commit) {
				if n++; n == k {
					if err := two.Interrupt(ctx, "s", "enough"); err != nil {
						t.Error(err)
					}
				}
			}
			// The process that has recorded no stop of its own finds that the session does not wait any more.
			if err := one.Interrupt(t.Context(), "s", "enough"); err != nil && !(k == 1 && errors.Is(err, cairn.ErrNotRunning)) {
				t.Error(err)
			}
			wantEnded(t, st, cairn.SessionInterrupted, 3)
		})
	}
}

// While a wait is being ended, its session takes no answer and is not resumed, and the errors name it. An answer that
// was accepted before is kept.
func TestWaitThatIsBeingEndedTakesNoAnswer(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")}, Model: scripted.New(scripted.Call("ask", in{"may we?"}))}
	agent := bot(scripted.New(scripted.Reply(scripted.Call("helper", map[string]string{"input": "act"}), scripted.Call("act", in{"now"}), scripted.Call("act", in{"later"}))),
		cairn.SubAgent(helper), echo("act", cairn.RequireApproval()))
	st := &ender{tap: tapOn(nil)}
	eng := open(t, st, agent)
	calls := turn(t, eng, "s", "go").Suspended.Calls
	var own []cairn.CallRef
	var below cairn.CallRef
	for _, c := range calls {
		if c.SessionID == "s" {
			own = append(own, c)
		} else {
			below = c
		}
	}
	if len(own) != 2 || below.ID == "" {
		t.Fatalf("calls: %+v", calls)
	}
	submit(t, eng, "s", cairn.Approve(own[0]), cairn.OutcomeAccepted)
	st.once(recordsEnding, func() {
		refused := func(what string, err, want error) {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), `"s"`) {
				t.Errorf("%s: %v, want %v that names the session", what, err, want)
			}
		}
		receipt, err := eng.Submit(t.Context(), "s", cairn.Approve(own[1]))
		refused("an answer", err, cairn.ErrInvalid)
		if receipt.Outcome != cairn.OutcomeInvalid || receipt.Ready {
			t.Errorf("an answer: %+v", receipt)
		}
		submit(t, eng, "s", cairn.Approve(own[0]), cairn.OutcomeAlreadyCompleted)
		_, err = eng.Claim(t.Context(), "s", own[1].ID, "ann", 0)
		refused("a claim", err, cairn.ErrInvalid)
		submit(t, eng, "s", cairn.Answer(below, "yes"), cairn.OutcomeAccepted) // its own session is not being ended yet
		_, err = eng.Resume(t.Context(), "s")
		refused("a resume", err, cairn.ErrNotResumable)
		_, err = eng.Resume(t.Context(), "s", engine.OnlyPaused())
		refused("a resume of a wait", err, cairn.ErrNotRunning)
		if can, err := eng.CanResume(t.Context(), "s"); err != nil || can.Resume || can.Retry || can.Reason != "its wait is being ended" {
			t.Errorf("can resume: %+v, %v", can, err)
		}
		if due := dueOf(t, st); len(due) == 0 || due[0].SessionID != "s" || due[0].Kind != store.DueEnding {
			t.Errorf("due: %+v", due)
		}
	})
	if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, st, cairn.SessionInterrupted, 2)
	results := messages(t, st, below.SessionID)
	if last := results[len(results)-1].ToolResults(); len(last) != 1 || last[0].IsError {
		t.Errorf("the answer of the sub-agent's call has become %+v", last)
	}
}

// busyBelow makes a tree whose root waits for a sub-agent that another process, which is alive, drives.
func busyBelow(t *testing.T, st *tap, eng *engine.Engine) (child *cairn.Session) {
	t.Helper()
	call := turn(t, eng, "s", "go").Suspended.Calls[0]
	row := load(t, st, call.SessionID)
	child, err := st.Commit(t.Context(), row.ID, &driver.Commit{
		StartRun: &cairn.Run{ID: "elsewhere", Agent: row.Agent, Kind: cairn.RunResume, Status: cairn.RunRunning, PreviousRunID: row.RunID},
		Status:   cairn.SessionActive, Suspend: &driver.Suspend{},
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "elsewhere", TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// endBelow ends the run of busyBelow.
func endBelow(t *testing.T, st *tap, child *cairn.Session, status cairn.RunStatus) {
	t.Helper()
	run, err := driver.FindRun(t.Context(), st, child.ID, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	run.Status = status
	c := &driver.Commit{Guard: driver.Guard{Token: child.Lease.Token}, EndRun: run, Status: cairn.SessionStatus(status), Lease: driver.LeaseChange{Action: driver.LeaseRelease}}
	if _, err := st.Commit(t.Context(), child.ID, c); err != nil {
		t.Fatal(err)
	}
}

// A wait whose sub-agent still runs ends once that has: it is asked to stop, a new turn is refused for the time being,
// and the message to the model has how the sub-agent really ended. Neither a worker nor a caller that waits looks
// again and again without a pause.
func TestWaitEndsOnceItsRunningSubAgentHas(t *testing.T) {
	t.Parallel()
	for status, reads := range map[cairn.RunStatus]string{cairn.RunCompleted: "completed", cairn.RunInterrupted: "interrupted", cairn.RunFailed: "failed"} {
		for by, works := range map[string]bool{"a worker": true, "the caller": false} {
			t.Run(reads+", "+by, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					eng := open(t, st, bossOf(), shortLease)
					child := busyBelow(t, st, eng)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					stopped := make(chan error, 1)
					go func() { stopped <- eng.Interrupt(ctx, "s", "enough") }()
					synctest.Wait()
					if row := load(t, st, "s"); row.Status != cairn.SessionPaused || row.Ending == nil || row.Ending.Reason != "enough" || row.Ending.RunID != row.RunID {
						t.Errorf("the session is %s with %+v", row.Status, row.Ending)
					}
					if snap, err := st.Read(t.Context(), child.ID, driver.Want{}); err != nil || snap.Stop == nil {
						t.Errorf("the sub-agent was not asked to stop: %v", err)
					}
					if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("never mind")); !errors.Is(err, cairn.ErrAlreadyRunning) ||
						cairn.AsError(err).RetryAfter < cairn.Duration(time.Minute) || cairn.AsError(err).RetryAfter > cairn.Duration(time.Hour) {
						t.Errorf("a new turn: %v", err)
					}
					if works {
						cancel()
						wantError(t, <-stopped, context.Canceled)
						defer work(t, eng)()
					}
					st.seen()
					testclock.Advance(10 * time.Minute)
					if n, most := len(st.seen()), 10*60*(40-30*btoi(works)); n > most {
						t.Errorf("%d calls of the store in 10 minutes, more than %d", n, most)
					}
					endBelow(t, st, child, status)
					testclock.Advance(2 * time.Second)
					if !works {
						if err := <-stopped; err != nil {
							t.Error(err)
						}
						cancel()
					}
					row := load(t, st, "s")
					if row.Status != cairn.SessionInterrupted || row.Ending != nil {
						t.Errorf("the session is %s with %+v", row.Status, row.Ending)
					}
					list := messages(t, st, "s")
					if got := list[len(list)-1].ToolResults(); len(got) != 1 || got[0].Child.Status != status {
						t.Errorf("the message says that the sub-agent ended as %+v, want %s", got, status)
					}
					var ends []string
					for _, ev := range history(t, st, "s") {
						if ev.Type == cairn.EventSubagentEnd {
							ends = append(ends, string(ev.Status))
						}
					}
					if len(ends) != 1 || ends[0] != reads {
						t.Errorf("the log says that the sub-agent ended as %q, want %q", ends, reads)
					}
				})
			})
		}
	}
}

// If the process that drives the sub-agent of a wait that is being ended dies, a worker ends both.
func TestWaitEndsOnceItsSubAgentHasDied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bossOf(), shortLease)
		busyBelow(t, st, eng)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantError(t, eng.Abort(ctx, "s", "enough"), context.DeadlineExceeded)
		stop := work(t, eng)
		testclock.Advance(2 * time.Hour)
		stop()
		for i, row := range treeBelow(t, st, "s") {
			if row.Status != cairn.SessionFailed && (i == 0 || row.Status != cairn.SessionInterrupted) || row.Ending != nil {
				t.Errorf("session %d is %s with %+v", i, row.Status, row.Ending)
			}
		}
	})
}

// An abort counts although an interrupt is recorded, and an interrupt does not replace a recorded abort.
func TestAbortOfAWaitThatIsBeingInterrupted(t *testing.T) {
	t.Parallel()
	for first, then := range map[cairn.StopKind]cairn.StopKind{cairn.StopInterrupt: cairn.StopAbort, cairn.StopAbort: cairn.StopInterrupt} {
		t.Run(string(first)+" first", func(t *testing.T) {
			t.Parallel()
			st := &ender{tap: tapOn(nil)}
			eng := open(t, st, deep())
			turn(t, eng, "s", "go")
			row := load(t, st, "s")
			if _, err := st.tap.Commit(t.Context(), "s", &driver.Commit{Ending: &cairn.Stop{RunID: row.RunID, Kind: first, Reason: string(first)}}); err != nil {
				t.Fatal(err)
			}
			verb := eng.Interrupt
			if then == cairn.StopAbort {
				verb = eng.Abort
			}
			if err := verb(t.Context(), "s", string(then)); err != nil {
				t.Fatal(err)
			}
			wantEnded(t, st, cairn.SessionFailed, 3)
			if runs := runsOf(t, st, "s"); runs[0].StopReason != string(cairn.StopAbort) {
				t.Errorf("the run was stopped because of %q", runs[0].StopReason)
			}
		})
	}
}

// Without sub-agents, the end of a wait is one write.
func TestEndOfAWaitWithoutSubAgentsIsOneWrite(t *testing.T) {
	t.Parallel()
	st := &ender{tap: tapOn(nil)}
	eng := open(t, st, bot(scripted.New(scripted.Call("act", in{"now"})), echo("act", cairn.RequireApproval())))
	turn(t, eng, "s", "go")
	n := 0
	st.before = func(context.Context, string, *driver.Commit) { n++ }
	if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil || n != 1 {
		t.Errorf("%d commits, %v", n, err)
	}
}

// A turn takes the place of a wait while a worker ends it: the turn begins, and each sub-agent ends once.
func TestTurnInPlaceOfAWaitThatAWorkerEnds(t *testing.T) {
	t.Parallel()
	for k := 1; k <= 4; k++ {
		t.Run(fmt.Sprint("before commit ", k), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := &ender{tap: tapOn(nil)}
				one := open(t, st, deep(), named("one"))
				turn(t, one, "s", "go")
				two := open(t, tapOn(st.Store), deep(), named("two"))
				n := 0
				st.before = func(context.Context, string, *driver.Commit) {
					if n++; n == k+1 { // the first one records the stop
						workFor(t, two, 5*time.Second)
					}
				}
				run, err := one.Execute(t.Context(), "s", "bot", cairn.Text("never mind"), withdraw)
				if err != nil {
					t.Fatal(err)
				}
				st.mu.Lock()
				st.before = nil
				st.mu.Unlock()
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				wantEnded(t, st, cairn.SessionInterrupted, 3)
			})
		})
	}
}
