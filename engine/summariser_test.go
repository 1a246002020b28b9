package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// The run's own model summarises if that of the compaction fails, whether the window is nearly full, full or unknown.
func TestRunsModelSummarisesInPlaceOfOneThatFails(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]scripted.Step{
		"retired": scripted.Fail(cairn.Errorf(cairn.ErrModelNotFound, "model small-1 was retired")),
		"no key":  scripted.Fail(cairn.Errorf(cairn.ErrAuth, "the key has expired")),
		"breaks":  scripted.Reply(scripted.Text("It"), scripted.Break()),
		"empty":   scripted.Text(""),
	} {
		for _, window := range []int{2000, 0} {
			model := &narrow{window: 2000, words: 30}
			small := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return down })
			agent := bot(model.model(), echo("note"))
			agent.Retry = &cairn.RetryPolicy{Max: -1}
			agent.Compaction = &cairn.Compaction{Window: window, Model: small}
			eng := open(t, tapOn(nil), agent)
			for range 30 {
				wantStatus(t, turn(t, eng, "s", "go on "+strings.Repeat("blue ", 9)), cairn.RunCompleted, cairn.ReasonReply)
			}
			if model.summed == 0 || model.largest > 2000 {
				t.Errorf("%s, window %d: %d summaries, %d tokens", name, window, model.summed, model.largest)
			}
		}
	}
}

// The error of a summary by hand is that of the run's model, if both fail.
func TestBothModelsFailToSummarise(t *testing.T) {
	t.Parallel()
	small := scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrAuth, "small")))
	agent := bot(scripted.New(scripted.Text("one"), scripted.Text("two"), scripted.Fail(cairn.Errorf(cairn.ErrAuth, "large"))))
	agent.Compaction = &cairn.Compaction{Model: small, Keep: 1}
	eng := open(t, tapOn(nil), agent)
	turn(t, eng, "s", "hi")
	turn(t, eng, "s", strings.Repeat("hello ", 100))
	if _, err := eng.Compact(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "large") {
		t.Errorf("%v", err)
	}
}
