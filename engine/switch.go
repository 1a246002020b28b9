package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store"
)

// SwitchTools switches tools of a session's agent on (true) and off (false), by name, whether or not the session is
// running, from its next model call on. It adds a hidden message, as [Engine.AddContext] does, which informs the model.
// The list of tools that the model is sent stays what it is, so that the provider's cached prefix stays good; a call of
// a tool that is off is answered with a CodeToolOff error. Calls that the model has made before still run, those that
// wait for approval too. What was switched is part of the transcript: a branch has it, a rewind takes it back.
//
// The error is ErrNotFound if there is no such session, and ErrInvalid, with nothing switched, if no tool is named, for
// cairn.FinishTool, and, if the session's agent is one of this engine's, for a name that is not that of one of its
// tools; an agent with toolsets may have a tool of any name.
func (e *Engine) SwitchTools(ctx context.Context, id string, tools map[string]bool) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	m, err := define.ToolSwitch(tools)
	if err != nil {
		return err
	}
	m.ID = e.opts.NewID("msg")
	_, err = e.runs.Change(ctx, id, func(row *cairn.Session) (*store.Commit, error) {
		if a := e.agent(row.Agent); a != nil {
			for _, name := range slices.Sorted(maps.Keys(m.Tools)) {
				if !e.runs.HasTool(a, name) {
					return nil, cairn.Invalid("tools", "agent %q has no tool %q", row.Agent, name)
				}
			}
		}
		return &store.Commit{Messages: []cairn.Message{m}, Publish: &cairn.Event{Type: cairn.EventContextChanged}}, nil
	})
	return err
}
