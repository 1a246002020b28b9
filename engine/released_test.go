package engine_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
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
	if err := eng.ReleaseRun(t.Context(), run.Position); err != nil {
		t.Fatal(err)
	}
	before := load(t, st.Store, "s")
	if out, err := eng.Effect(t.Context(), host.EffectPlan, next(run, "")); err == nil {
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
