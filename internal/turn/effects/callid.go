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

// callID chooses a call's id in the session. It is the provider's id, unless that is unusable or taken. Once a summary
// stands for older calls, the id is derived from the step and the call's index in it. The id of a call that people
// elsewhere answer reveals nothing, except that it was given to a user. A call of a deferred tool may turn out to be
// such a call.
func (r *reply) callID(provider, tool string, awaits bool) string {
	if t := cmp.Or(define.ToolOf(r.agent.Tools, tool), define.ToolOf(r.offered, tool)); t != nil && (t.Wait.Kind != "" || t.Agent != nil) || t == nil && step.ConsultsCompanion(tool) || awaits || tool == cairn.CallTool {
		// The id includes the run, because what a dead run began under a provider's id is not in the transcript.
		provider = ids.Derive("call", r.live.Row.Secret, r.live.Row.ID, r.live.Run.ID, provider)
	}
	if r.live.Index().Summarised() { // the ids of earlier calls are unknown
		provider = ids.Derive("call", r.live.Row.ID, r.live.Run.ID, strconv.Itoa(r.step), strconv.Itoa(len(r.parts)), provider)
	}
	id := provider
	for n := 1; !r.usable(id); n++ {
		id = fmt.Sprintf("%s_%d_%d", trimID(provider), r.step, n)
	}
	return id
}

func (r *reply) usable(id string) bool {
	if len(id) > 64 || ids.CheckPath(id) != "" {
		return false
	}
	if r.live.Index().Taken(id) {
		return false
	}
	return !slices.ContainsFunc(r.parts, func(p *part) bool { return p.Type == cairn.PartToolUse && p.ToolUse.CallID == id })
}

// trimID shortens a provider's call id so that a suffix fits within the length that every provider accepts back.
func trimID(id string) string {
	if id = limits.Cut(id, 40); ids.CheckPath(id) != "" {
		return "call"
	}
	return id
}
