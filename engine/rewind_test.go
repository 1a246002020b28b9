package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// A run that is resumed where a rewind left calls open closes them as it begins. If it is stopped while it waits, and
// its process dies before it publishes that, the log has the end of each call once.
func TestStopOfARunThatBeganAtARewind(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]scripted.Step{
		"after a step":  {scripted.Call("pay", in{"1"}), scripted.Call("pay", in{"2"}), scripted.Text("bye")},
		"before a step": {scripted.Call("pay", in{"1"}), {}, scripted.Text("bye")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if name == "before a step" {
					steps[1] = scripted.Gate(make(chan struct{})) // of the bubble
				}
				st := tapOn(nil)
				agent := bot(scripted.New(steps...), echo("pay", cairn.RequireApproval()))
				one := open(t, st, agent, shortLease)
				turn(t, one, "s", "go")
				page, err := one.Checkpoints(t.Context(), "s", store.PageQuery{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := one.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
					t.Fatal(err)
				}
				if _, err := one.Resume(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				st.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.ErrInternal, "cut off") })
				if err := one.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				two := open(t, tapOn(st.Store), agent, shortLease, named("b"))
				turn(t, two, "s", "bye")
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A session that is suspended while a rewind is under way is taken back with its pending calls cancelled.
func TestRewindOfASessionThatIsSuspendedMeanwhile(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Text("hello"), scripted.Call("pay", in{"1"})), echo("pay", cairn.RequireApproval()))
	one, two := open(t, st, agent), open(t, tapOn(st.Store), agent, named("b"))
	turn(t, one, "s", "hi")
	page, err := one.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	suspended := sync.OnceFunc(func() { turn(t, two, "s", "pay") })
	st.stepIn(func(_ context.Context, op string) error {
		if op == "Commit" {
			suspended()
		}
		return nil
	}, nil)
	if _, err := one.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	if open, err := one.Inbox(t.Context(), store.CallQuery{RootID: "s"}); err != nil || len(open.Items) > 0 {
		t.Errorf("pending are %+v, %v", open.Items, err)
	}
	wantSound(t, st.Store, "s")
}

// After a rewind to the end of a completed turn, or as a branch there, a session is completed and takes the next message.
// Within a turn it can be resumed.
func TestRewindAndBranchAtTheEndOfATurn(t *testing.T) {
	t.Parallel()
	manual := bot(counter(2), note())
	manual.Durability = cairn.Manual
	finish := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Call("decide", verdict{"yes"})
		}
		return scripted.Call("note", in{"1"})
	}), note(), cairn.Func("decide", "Decides.", func(_ context.Context, _ *cairn.Call, v verdict) (verdict, error) { return v, nil }, cairn.FinishWith()))
	for name, c := range map[string]struct {
		agent *cairn.Agent
		at    int // the checkpoint
		ended bool
	}{
		"after a reply":                  {bot(counter(2), note()), 1, true},
		"after the last reply":           {bot(counter(2), note()), 3, true},
		"after a tool ended the turn":    {finish, 1, true},
		"after steps that were deferred": {manual, 0, true},
		"after a step":                   {bot(counter(2), note()), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := open(t, tapOn(nil), c.agent)
			turn(t, eng, "s", "one")
			turn(t, eng, "s", "two")
			cp := checkpoints(t, eng, "s")[c.at]
			want := map[string]cairn.SessionStatus{"s": cairn.SessionInterrupted, "at a checkpoint": cairn.SessionIdle, "at a message": cairn.SessionIdle}
			if c.ended {
				for id := range want {
					want[id] = cairn.SessionCompleted
				}
				_, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(cp.ID))
				wantError(t, err, cairn.ErrNotResumable)
			}
			for id, at := range map[string]engine.BranchOption{"at a checkpoint": engine.AtCheckpoint(cp.ID), "at a message": engine.AtMessage(cp.MessageCount)} {
				if _, err := eng.Branch(t.Context(), "s", id, at); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := eng.Rewind(t.Context(), "s", cp.ID); err != nil {
				t.Fatal(err)
			}
			for id, status := range want {
				row, err := eng.Session(t.Context(), id)
				if err != nil || row.Status != status {
					t.Errorf("%s: the session is %s, want %s: %v", id, row.Status, status, err)
				}
				if can, err := eng.CanResume(t.Context(), id); err != nil || can.Resume == c.ended || can.Retry {
					t.Errorf("%s: %+v, %v", id, can, err)
				}
				if c.ended {
					_, err := eng.Resume(t.Context(), id)
					wantError(t, err, cairn.ErrNotResumable)
				}
				if res := turn(t, eng, id, "next"); res.Status != cairn.RunCompleted {
					t.Errorf("%s: the next turn is %s", id, res.Status)
				}
			}
		})
	}
}

// What is added after a completed turn leaves it completed; a session that was taken back into a turn and got a
// checkpoint there can still be resumed.
func TestCheckpointByHandKeepsWhetherATurnHadEnded(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]bool{"after a turn": false, "within a turn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := open(t, tapOn(nil), bot(counter(2), note()))
			turn(t, eng, "s", "one")
			if within {
				if _, err := eng.Rewind(t.Context(), "s", checkpoints(t, eng, "s")[0].ID); err != nil {
					t.Fatal(err)
				}
			}
			if err := eng.AddContext(t.Context(), "s", "by the way"); err != nil {
				t.Fatal(err)
			}
			cp, err := eng.Checkpoint(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			turn(t, eng, "s", "two")
			if _, err := eng.Rewind(t.Context(), "s", cp.ID); err != nil {
				t.Fatal(err)
			}
			if can, err := eng.CanResume(t.Context(), "s"); err != nil || can.Resume != within {
				t.Errorf("%+v, %v", can, err)
			}
			branch, err := eng.Branch(t.Context(), "s", "branch")
			if want := map[bool]cairn.SessionStatus{true: cairn.SessionIdle, false: cairn.SessionCompleted}[within]; err != nil || branch.Status != want {
				t.Errorf("the branch is %s, want %s: %v", branch.Status, want, err)
			}
		})
	}
}

// A session that is rewound to before its first message has nothing to resume.
func TestRewindToAnEmptySession(t *testing.T) {
	t.Parallel()
	eng := open(t, tapOn(nil), bot(counter(1)))
	if _, err := eng.Create(t.Context(), "s", "bot"); err != nil {
		t.Fatal(err)
	}
	cp, err := eng.Checkpoint(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "go")
	row, err := eng.Rewind(t.Context(), "s", cp.ID)
	if err != nil || row.Status != cairn.SessionIdle {
		t.Errorf("the session is %s: %v", row.Status, err)
	}
	_, err = eng.Resume(t.Context(), "s")
	wantError(t, err, cairn.ErrNotResumable)
}
