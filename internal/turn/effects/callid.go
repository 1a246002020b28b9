package effects

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// callID gives a call its id in the session: the provider's, unless that cannot be used or is taken. Once a summary stands
// for older calls it is made of the step and the place in it. One that people far away answer to says nothing but that it
// was given to a user; one of a deferred tool may turn out to be such a call.
func (r *reply) callID(provider, tool string, awaits bool) string {
	if t := cmp.Or(define.ToolOf(r.agent.Tools, tool), define.ToolOf(r.offered, tool)); t != nil && (t.Wait.Kind != "" || t.Agent != nil) || t == nil && step.ConsultsCompanion(tool) || awaits || tool == cairn.CallTool {
		// The run is in it because what a dead run began under a provider's id is not in the transcript.
		provider = ids.Derive("call", r.live.Row.Secret, r.live.Row.ID, r.live.Run.ID, provider)
	}
	if r.live.Index.Summarised() { // which calls there were before is not known
		provider = ids.Derive("call", r.live.Row.ID, r.live.Run.ID, strconv.Itoa(r.step), strconv.Itoa(len(r.parts)), provider)
	}
	id := provider
	for n := 1; !r.usable(id); n++ {
		id = fmt.Sprintf("%s_%d_%d", trimID(provider), r.step, n)
	}
	return id
}

func (r *reply) usable(id string) bool {
	if len(id) > 64 || ids.Check(id) != "" {
		return false
	}
	if r.live.Index.Taken(id) {
		return false
	}
	return !slices.ContainsFunc(r.parts, func(p *part) bool { return p.Type == cairn.PartToolUse && p.ToolUse.CallID == id })
}

// trimID shortens a provider's call id so that a suffix fits within what every provider takes back.
func trimID(id string) string {
	if id = limits.Cut(id, 40); ids.Check(id) != "" {
		return "call"
	}
	return id
}
