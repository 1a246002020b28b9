package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store/driver"
)

// SwitchTools switches tools of a session's agent on (true) and off (false), by name, from its next model call on,
// whether or not the session is running. It adds a hidden message, as [Engine.AddContext] does, which informs the
// model. The list of tools sent to the model does not change, which keeps the provider's cached prefix valid; a call of
// a tool that is off is answered with an ErrToolOff error. Calls that the model has already made still run, including
// those that wait for approval. Switches are part of the transcript: a branch inherits them, a rewind undoes them.
//
// The error is ErrNotFound if there is no such session, and ErrQueueFull while a run is under way and the session's
// queue has no room, see [Options.MaxQueue]. It is ErrInvalid, with nothing switched, if no tool is named, and for
// cairn.FinishTool. If this engine has the session's agent, it is ErrInvalid for a name that none of its tools has; an
// agent with toolsets may have a tool of any name.
func (e *Engine) SwitchTools(ctx context.Context, id string, tools map[string]bool) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	m, err := define.ToolSwitch(tools)
	if err != nil {
		return err
	}
	m.ID = e.opts.NewID("msg")
	_, err = e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		if a := e.agent(row.Agent); a != nil {
			for _, name := range slices.Sorted(maps.Keys(m.Tools)) {
				if !e.runs.HasTool(a, name) {
					return nil, cairn.Invalid("tools", "agent %q has no tool %q", row.Agent, name)
				}
			}
		}
		return e.addition(row, []cairn.Message{m})
	})
	return err
}
