package engine_test

import (
	"context"
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

// talker is a model that takes a note, thinks for a minute and then repeats what the user said last.
func talker() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == cairn.RoleTool {
			return scripted.Reply(scripted.Text("so "), scripted.Pause(time.Minute), scripted.Text("be it"))
		}
		return scripted.Call("note", in{Text: last.Text()})
	})
}

// texts returns what the user said in a session.
func texts(list []cairn.Message) string {
	var said []string
	for i := range list {
		if list[i].Role == cairn.RoleUser && !list[i].Hidden {
			said = append(said, list[i].Text())
		}
	}
	return strings.Join(said, " ")
}

func TestOnBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		busy     engine.OnBusy
		statuses []cairn.RunStatus // of the runs of three turns, the later two begun while the first is under way
		said     string
		state    string
	}{
		{"enqueue", engine.BusyEnqueue, []cairn.RunStatus{cairn.RunCompleted, cairn.RunCompleted, cairn.RunCompleted}, "one two three", `{"notes":["one","two","three"]}`},
		{"interrupt", engine.BusyInterrupt, []cairn.RunStatus{cairn.RunInterrupted, cairn.RunInterrupted, cairn.RunCompleted}, "one two three", `{"notes":["one","two","three"]}`},
		{"rollback", engine.BusyRollback, []cairn.RunStatus{cairn.RunInterrupted, cairn.RunInterrupted, cairn.RunCompleted}, "three", `{"notes":["three"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, bot(talker(), note()))
				runs := []*engine.Run{start(t, eng, "s", "one")}
				for _, text := range []string{"two", "three"} {
					testclock.Advance(time.Second)
					runs = append(runs, start(t, eng, "s", text, engine.WithOnBusy(c.busy)))
				}
				for i, run := range runs {
					if res := wait(t, run); res.Status != c.statuses[i] || res.Turn != i+1 {
						t.Errorf("turn %d: %+v", i+1, res)
					}
					if c.busy == engine.BusyEnqueue {
						wantOwnEvents(t, run)
					}
				}
				if got := texts(messages(t, st, "s")); got != c.said {
					t.Errorf("the user said %q, want %q", got, c.said)
				}
				if got := state(t, st, "s"); got != c.state {
					t.Errorf("state %s, want %s", got, c.state)
				}
				if row := load(t, st, "s"); row.Queued != 0 {
					t.Errorf("%d turns are still queued", row.Queued)
				}
				if c.busy != engine.BusyRollback { // the log has discarded events
					wantSound(t, st, "s")
				}
			})
		})
	}
}

// wantOwnEvents checks that a run's events begin and end with the run.
func wantOwnEvents(t *testing.T, run *engine.Run) {
	t.Helper()
	var first, last cairn.Event
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if first.Type == "" {
			first = ev
		}
		last = ev
	}
	if first.Type != cairn.EventRunStart || first.RunID != run.ID() || !last.Ends(run.ID()) {
		t.Errorf("run %s: events from %s of %s to %s of %s", run.ID(), first.Type, first.RunID, last.Type, last.RunID)
	}
}

func TestRejectIsTheDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, tapOn(nil), bot(talker(), note()))
		run := start(t, eng, "s", "one")
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("two"))
		wantError(t, err, cairn.ErrAlreadyRunning)
		_, err = eng.Execute(t.Context(), "s", "bot", cairn.Text("two"), engine.WithOnBusy(9))
		wantError(t, err, cairn.ErrInvalid)
		_, err = eng.Resume(t.Context(), "s", engine.WithOnBusy(engine.BusyInterrupt))
		wantError(t, err, cairn.ErrInvalid)
		wait(t, run)
	})
}

func TestAWorkerBeginsTheQueueOfADeadProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		dead := open(t, st, bot(talker(), note()))
		start(t, dead, "s", "one")
		testclock.Advance(time.Second)
		queued := start(t, dead, "s", "two", engine.WithOnBusy(engine.BusyEnqueue))
		leave(t, dead)
		eng := open(t, st, bot(talker(), note()), named("b"))
		go func() { _ = eng.Work(t.Context()) }()
		again := attachTo(t, eng, "s", queued.ID())
		if res := wait(t, again); res.Status != cairn.RunCompleted || res.Turn != 2 {
			t.Errorf("%+v", res)
		}
		wantSound(t, st, "s")
	})
}

// attachTo waits until runID is the session's latest run and returns a handle on it.
func attachTo(t *testing.T, eng *engine.Engine, session, runID string) (run *engine.Run) {
	t.Helper()
	testclock.Await(t, "run "+runID+" to begin", func() (begun bool) {
		var err error
		if run, err = eng.Attach(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		return run.ID() == runID
	})
	return run
}

func TestDeleteTakesTheTreeAlong(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Call("ask", in{"?"})
	}), Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")}}
	eng := open(t, st, bot(scripted.New(scripted.Call("helper", map[string]string{"input": "help"})), cairn.SubAgent(helper)))
	res := turn(t, eng, "s", "go")
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
	wantError(t, eng.Delete(t.Context(), res.Suspended.Children[0].SessionID), cairn.ErrInvalid)
	if err := eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	page, err := eng.Sessions(t.Context(), store.SessionQuery{})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("left: %v, %v", page.Items, err)
	}
	submit(t, eng, "s", cairn.Answer(res.Suspended.Calls[0], "late"), cairn.OutcomeUnknownCall)
}

// A turn that replaces another may begin before the process that drove that one has published its end. The log has what
// was committed all the same.
func TestTurnBeginsBeforeTheEndIsPublished(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]engine.OnBusy{"interrupt": engine.BusyInterrupt, "rollback": engine.BusyRollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(talker(), note())
				one, two := open(t, st, agent, named("one")), open(t, tapOn(st.Store), agent, named("two"))
				turn(t, one, "s", "zero")
				first := start(t, one, "s", "one")
				testclock.Advance(time.Second) // it is in its second step
				st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
					for i := range events {
						if events[i].Type == cairn.EventStepCommitted {
							testclock.Deaf(10 * time.Second)
						}
					}
					return nil
				})
				wait(t, start(t, two, "s", "two", engine.WithOnBusy(busy)))
				wait(t, first)
				committed, kept := 0, 0
				for _, ev := range history(t, st, "s") {
					if ev.RunID != first.ID() || ev.Step != 2 {
						continue
					}
					switch ev.Type {
					case cairn.EventStepCommitted:
						committed = ev.MessageCount
					case cairn.EventCheckpoint:
						kept = ev.MessageCount
					}
				}
				if committed != 8 || kept != 8 {
					t.Errorf("the log tells of %d messages at the second step of what was stopped, and of %d at its checkpoint; there were 8", committed, kept)
				}
			})
		})
	}
}

// A run that another caller stops, or whose session changes in between, is undone all the same before the turn begins.
func TestRollbackIsNotLeftOut(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, st *tap, other *engine.Engine){
		"the session changes": func(t *testing.T, st *tap, _ *engine.Engine) {
			var change sync.Once
			loads := 0 // of the session after it was stopped: the first sees that, the second precedes the rollback
			st.stepIn(nil, func(ctx context.Context, op string) error {
				row, err := driver.Load(ctx, st.Store, "s")
				if op != "Load" || err != nil || row.Status != cairn.SessionInterrupted {
					return nil
				}
				if loads++; loads == 2 {
					change.Do(func() {
						_, err = driver.Update(ctx, st.Store, "s", func(*cairn.Session) (*driver.Commit, error) {
							return &driver.Commit{Context: &driver.ContextChange{Title: new("changed")}}, nil
						})
					})
				}
				return err
			})
		},
		"another stops the run": func(t *testing.T, st *tap, other *engine.Engine) {
			var stop sync.Once
			st.stepIn(func(ctx context.Context, op string) (err error) {
				if op == "RequestStop" {
					stop.Do(func() { err = other.Interrupt(ctx, "s", "by another") })
				}
				return err
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(talker(), note())
				one, two := open(t, tapOn(st.Store), agent, named("one")), open(t, st, agent, named("two"))
				turn(t, one, "s", "zero")
				first := start(t, one, "s", "one")
				testclock.Advance(time.Second) // it is in its second step
				meanwhile(t, st, one)
				wait(t, start(t, two, "s", "two", engine.WithOnBusy(engine.BusyRollback)))
				wait(t, first)
				if said := texts(messages(t, st.Store, "s")); said != "zero two" {
					t.Errorf("the user said %q, want %q", said, "zero two")
				}
			})
		})
	}
}
