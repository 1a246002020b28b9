package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// An attempt at an effect that comes after its host has released the run does nothing and does not hold the session: a
// worker takes the run over at once.
func TestLateAttemptAtAReleasedRun(t *testing.T) {
	t.Parallel()
	h := &byHand{}
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Text("done")))
	eng := open(t, st, agent, hostedBy(h))
	start(t, eng, "s", "go")
	run := h.begun[0]
	if err := eng.ForHost().ReleaseRun(t.Context(), run.Position); err != nil {
		t.Fatal(err)
	}
	before := load(t, st.Store, "s")
	if out, err := eng.ForHost().Effect(t.Context(), host.EffectPlan, next(run, "")); err == nil {
		t.Errorf("the late attempt came to %s", out)
	} else {
		wantError(t, err, cairn.ErrFenced)
	}
	after := load(t, st.Store, "s")
	if after.Lease != before.Lease || after.Version != before.Version {
		t.Errorf("the session is %+v, was %+v", after, before)
	}
	if _, err := eng.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	drives(t, eng, h.begun[1], cairn.RunCompleted)
	wantSound(t, st, "s")
}

// A process is suspended when it has just read the session for a tool's effect, for longer than a lease. Another
// process has run the tool and committed the step meanwhile: the tool does not run again.
func TestEffectThatSleptLooksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &byHand{}
		slow, runs := tapOn(st), 0
		count := tool("count", func(context.Context, *cairn.Call, in) (string, error) {
			runs++
			return "counted", nil
		})
		model := scripted.New(scripted.Call("count", in{}).ID("c1"), scripted.Text("bye"))
		one, two := open(t, slow, bot(model, count), hostedBy(h)), open(t, st, bot(model, count), hostedBy(h), named("b"))
		start(t, one, "s", "go")
		b := h.begun[0]
		carry(t, one, host.EffectPlan, next(b, ""))
		slept := false
		slow.stepIn(nil, func(_ context.Context, op string) error {
			if !slept {
				slept = true
				testclock.Deaf(time.Minute)
			}
			return nil
		})
		late := overtaken(t, one, host.EffectTool, b, "c1")
		synctest.Wait()
		carry(t, two, host.EffectTool, next(b, "c1"))
		carry(t, two, host.EffectCommit, next(b, ""))
		wantError(t, late(), nil)
		if runs != 1 || !slept {
			t.Errorf("the tool ran %d times; slept: %t", runs, slept)
		}
		b.Step = 1
		drives(t, two, b, cairn.RunCompleted)
		wantSound(t, slow, "s")
	})
}
