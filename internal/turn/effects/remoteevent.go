package effects

import (
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// passable lists the events of another server that a model may pass on.
var passable = []cairn.EventType{cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventCustom}

const (
	// maxPassedName bounds names and ids of another server, in bytes, so that together they leave room for the event's
	// content.
	maxPassedName = 128
	// maxPassed is how many bytes of such events are kept with a reply. Events beyond it are not published again if the
	// process dies.
	maxPassed = 1 << 20
)

// pass publishes what an agent on another server did. No field is trusted to be valid for a log.
func (r *reply) pass(ev *cairn.Event) error {
	if ev == nil || ev.Origin == "" || !slices.Contains(passable, ev.Type) {
		return cairn.Errorf(cairn.ErrModel, "the model forwarded an event that is not from a remote agent")
	}
	out := cairn.Event{Type: ev.Type, Step: r.step, Origin: named(ev.Origin), Agent: named(ev.Agent), CallID: named(ev.CallID), Tool: named(ev.Tool),
		Name: named(ev.Name), ChildID: named(ev.ChildID), Status: cairn.RunStatus(named(string(ev.Status))), Attempts: ev.Attempts,
		IsError: ev.IsError, Truncated: ev.Truncated, Cached: ev.Cached}
	for _, raw := range []struct{ from, to *json.RawMessage }{{&ev.Data, &out.Data}, {&ev.Edited, &out.Edited}} {
		if len(*raw.from) == 0 {
			continue
		}
		clean, problem := limits.CleanJSON(*raw.from)
		if problem != "" {
			out.Truncated = true
			continue
		}
		*raw.to = slices.Clone(clean)
	}
	if n := len(out.Data) + len(out.Edited) + 512; r.passedSize+n <= maxPassed {
		r.passed, r.passedSize = append(r.passed, out), r.passedSize+n
	}
	r.say(out)
	return nil
}

func named(s string) string { return limits.Cut(limits.Clean(s), maxPassedName) }
