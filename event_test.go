package cairn_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
)

// A discard voids its step and the later ones, of its run and session.
func TestVoids(t *testing.T) {
	t.Parallel()
	discard := cairn.Event{Type: cairn.EventStepDiscarded, SessionID: "s", RunID: "r", Step: 2}
	for what, c := range map[string]struct {
		ev   cairn.Event
		void bool
	}{
		"the step":            {cairn.Event{SessionID: "s", RunID: "r", Step: 2}, true},
		"a later step":        {cairn.Event{SessionID: "s", RunID: "r", Step: 9}, true},
		"an event passed on":  {cairn.Event{SessionID: "s", RunID: "r", Step: 2, Origin: "far"}, true},
		"an earlier step":     {cairn.Event{SessionID: "s", RunID: "r", Step: 1}, false},
		"an event of no step": {cairn.Event{SessionID: "s", RunID: "r"}, false},
		"another run":         {cairn.Event{SessionID: "s", RunID: "q", Step: 2}, false},
		"another session":     {cairn.Event{SessionID: "below", RunID: "r", Step: 2}, false},
	} {
		if got := discard.Voids(&c.ev); got != c.void {
			t.Errorf("%s: %t", what, got)
		}
	}
	start := cairn.Event{Type: cairn.EventStepStart, SessionID: "s", RunID: "r", Step: 2}
	if start.Voids(&start) {
		t.Error("an event that discards nothing")
	}
}
