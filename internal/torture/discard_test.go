package torture

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cairn-agents/cairn"
)

// takenOver rewrites a tree's log as if a process had died before each step. What the dead process published of the
// step, and of the step after it, one discard voids. Before each step, a second process took the run over and died,
// too: it discarded the step and published nothing.
func (t *Tree) takenOver() {
	var events []cairn.Event
	put := func(like cairn.Event, step int, et cairn.EventType) *cairn.Event {
		ev := cairn.Event{Type: et, SessionID: like.SessionID, RunID: like.RunID, Agent: like.Agent, Step: step, Time: like.Time}
		events = append(events, ev)
		return &events[len(events)-1]
	}
	for _, ev := range t.Events {
		if ev.Type == cairn.EventStepStart {
			for n := ev.Step; n < ev.Step+2; n++ {
				put(ev, n, cairn.EventStepStart)
				put(ev, n, cairn.EventTextDelta).Text = "void"
				call := put(ev, n, cairn.EventSubagentStart)
				call.CallID, call.ChildID, call.Name = fmt.Sprint("void", n), "void", "void"
				*put(ev, n, cairn.EventSubagentEnd) = *call
				events[len(events)-1].Type = cairn.EventSubagentEnd
				put(ev, n, cairn.EventToolEnd).CallID = call.CallID
				put(ev, n, cairn.EventStatePatch).Patch = []cairn.PatchOp{{Op: "replace", Path: "/total", Value: json.RawMessage("-1")}}
			}
			put(ev, ev.Step, cairn.EventStepDiscarded)
			put(ev, ev.Step, cairn.EventStepDiscarded)
		}
		events = append(events, ev)
	}
	for _, h := range t.Sessions {
		h.Events = nil
	}
	now := map[int64]int64{} // the sequences, by those before
	for i := range events {
		now[events[i].Sequence] = int64(i + 1)
		events[i].Sequence = int64(i + 1)
		if h := t.session(events[i].SessionID); h != nil {
			h.Events = append(h.Events, events[i])
		}
	}
	t.Events = events
	for _, h := range t.Sessions {
		h.Session.LogSequence = now[h.Session.LogSequence]
	}
}

// A discard voids a step and the later ones, and does nothing if the step has not begun.
func TestDiscardsOfTakeoversAreAccepted(t *testing.T) {
	t.Parallel()
	for name, tree := range map[string]*Tree{"alone": sound(t, "per-tool"), "family": soundFamily(t)} {
		tree.takenOver()
		for _, err := range tree.check() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
