package engine_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A refusal ends the run with its own code after one request, also within a reply, and the session takes the next turn.
func TestRefusalEndsTheRun(t *testing.T) {
	t.Parallel()
	refusal := scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "the model refused to answer"))
	for name, first := range map[string]scripted.Step{"at once": refusal, "within a reply": scripted.Reply(scripted.Text("Well"), refusal)} {
		model := scripted.New(first, scripted.Text("Gladly."))
		eng := open(t, tapOn(nil), bot(model))
		if res := turn(t, eng, "s", "hi"); res.Status != cairn.RunFailed || res.Error.Code != cairn.ErrFiltered || model.Calls() != 1 {
			t.Errorf("%s: %s, %v after %d requests", name, res.Status, res.Error, model.Calls())
		}
		wantStatus(t, turn(t, eng, "s", "Something else, then."), cairn.RunCompleted, cairn.ReasonReply)
	}
}
