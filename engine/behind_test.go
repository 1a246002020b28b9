package engine_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A host may know of effects that the store has lost. Their results are not made up: the run is released, and driven
// again from what the store has.
func TestStoreIsBehindItsHost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{host.EffectPlan, host.EffectTool, host.EffectChild, host.EffectJudge, host.EffectCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, st := &byHand{}, tapOn(nil)
			eng := open(t, st, bot(scripted.New(scripted.Call("echo", in{"x"}), scripted.Text("done")), echo("echo")), hostedBy(h))
			start(t, eng, "s", "go")
			at := h.begun[0]
			if name == host.EffectPlan {
				at.Step++ // the store has nothing of it
			}
			before := load(t, st.Store, "s")
			out, err := eng.ForHost().Effect(t.Context(), name, next(at, "call"))
			if wantError(t, err, cairn.ErrFenced); load(t, st.Store, "s").Version != before.Version {
				t.Errorf("the effect came to %s", out)
			}
			if err := eng.ForHost().ReleaseRun(t.Context(), at.Position); err != nil {
				t.Fatal(err)
			}
			if _, err := eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			drives(t, eng, h.begun[1], cairn.RunCompleted)
			wantSound(t, st, "s")
		})
	}
}
