package engine_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
)

// A history is summarised once the provider refuses it as too long, whatever the engine believes the window to be.
func TestWindowThatIsSmallerThanBelieved(t *testing.T) {
	t.Parallel()
	for name, believed := range map[string]int{"unknown": 0, "believed to be ten times as large": 20_000} {
		for _, silent := range []bool{false, true} {
			model := &narrow{window: 2000, words: 30, silent: silent}
			agent := bot(model.model(), echo("note"))
			agent.Compaction = &cairn.Compaction{Window: believed}
			eng := open(t, tapOn(nil), agent)
			for range 30 {
				wantStatus(t, turn(t, eng, "s", "go on"), cairn.RunCompleted, cairn.ReasonReply)
			}
			if model.summed == 0 || model.refused == 0 || model.largest > 2000 {
				t.Errorf("window %s, silent %t: %d summaries after %d refusals", name, silent, model.summed, model.refused)
			}
		}
	}
}
