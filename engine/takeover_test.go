package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A process that takes a dead run over, but loses it again before it has read it, does not take the new holder's lease
// for its own.
func TestTakingOverDoesNotAdoptTheLeaseOfTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := tapOn(nil)
		gone := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			dead.cut()
			return scripted.Text("never heard")
		}))
		_, err := start(t, open(t, dead, gone, shortLease), "s", "go").Wait(t.Context())
		if err == nil {
			t.Fatal("the run did not end")
		}
		testclock.Advance(ttl)

		gate := make(chan struct{})
		next := open(t, tapOn(dead.Store), bot(scripted.New(scripted.Reply(scripted.Text("I have "), scripted.Gate(gate), scripted.Text("it")))), shortLease, named("c"))
		var run *engine.Run
		late := tapOn(dead.Store)
		late.stepIn(nil, func(_ context.Context, op string) (err error) {
			if op == "Commit" && run == nil {
				testclock.Deaf(ttl) // with the lease it has just taken
				run, err = next.Resume(t.Context(), "s")
			}
			return err
		})
		model := scripted.New(scripted.Text("no, I have"))
		_, err = open(t, late, bot(model), shortLease, named("b")).Resume(t.Context(), "s")
		wantError(t, err, cairn.ErrAlreadyRunning)
		if model.Calls() > 0 {
			t.Error("the process that had lost the run called the model")
		}
		close(gate)
		if res := wait(t, run); res.Text != "I have it" {
			t.Errorf("outcome %+v", res)
		}
		wantSound(t, dead.Store, "s")
	})
}

// A process that takes a run over from itself, before the call that began it has returned, knows the run's outcome.
func TestTakingOverARunThatIsStillBeingBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		gate := make(chan struct{})
		agent := bot(scripted.New(scripted.Reply(scripted.Gate(gate), scripted.Text("done"))))
		eng := open(t, st, agent, shortLease)
		var again *engine.Run
		held := false
		st.stepIn(nil, func(_ context.Context, op string) (err error) {
			if held || op != "Commit" {
				return nil
			}
			held = true
			testclock.Deaf(ttl)
			again, err = eng.Resume(t.Context(), "s")
			return err
		})
		late := start(t, eng, "s", "go")
		_, err := late.Wait(t.Context())
		wantError(t, err, cairn.ErrFenced)
		close(gate)
		if res := wait(t, again); res.Text != "done" {
			t.Errorf("outcome %+v", res)
		}
		wantSound(t, st, "s")
	})
}
