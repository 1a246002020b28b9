package user

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// WantEnd reports whether there are hooks for the end, or the suspension, of a run.
func (hs Hooks) WantEnd(run *cairn.Run) bool {
	return hs.Any(func(h *cairn.Hooks) bool { return EndHook(h, run) != nil })
}

// EndHook returns the hook for the way in which a run ended, or nil.
func EndHook(h *cairn.Hooks, run *cairn.Run) Hook {
	var fn func(context.Context, *cairn.Step, *cairn.Result)
	switch {
	case run.Status == cairn.RunCompleted:
		fn = h.RunComplete
	case run.Status == cairn.RunFailed:
		fn = h.RunFail
	case run.Status == cairn.RunInterrupted:
		fn = h.RunInterrupt
	case run.Status == cairn.RunSuspended:
		fn = h.RunSuspended
	}
	if fn == nil {
		return nil
	}
	result := run.Result()
	return func(ctx context.Context, step *cairn.Step) error { fn(ctx, step, result); return nil }
}

// Result calls OnMessage and AfterTool for the result of a call. message is the id of the message that has the result.
func (s *Scope) Result(ctx context.Context, c *step.Call, message string) {
	part := cairn.Part{Type: cairn.PartToolResult, Result: c.Result.Result}
	s.Message(ctx, &cairn.Message{ID: message, Role: cairn.RoleTool, Parts: []cairn.Part{part}})
	s.Observe(ctx, "AfterTool", func(h *cairn.Hooks) Hook {
		if h.AfterTool == nil {
			return nil
		}
		shown := *c.Result.Result
		return CallHook(c, func(ctx context.Context, call *cairn.Call) error { h.AfterTool(ctx, call, &shown); return nil })
	})
}

// AfterSubAgent calls AfterSubAgent for the result of a call that consulted an agent.
func (s *Scope) AfterSubAgent(ctx context.Context, c *step.Call, result *cairn.ToolResult, agent string) {
	s.Observe(ctx, "AfterSubAgent", func(h *cairn.Hooks) Hook {
		if h.AfterSubAgent == nil {
			return nil
		}
		shown := *result
		return CallHook(c, func(ctx context.Context, call *cairn.Call) error {
			h.AfterSubAgent(ctx, call, agent, &shown)
			return nil
		})
	})
}

// Message calls OnMessage.
func (s *Scope) Message(ctx context.Context, m *cairn.Message) {
	s.Observe(ctx, "OnMessage", func(h *cairn.Hooks) Hook {
		if h.OnMessage == nil {
			return nil
		}
		shown := Shown(m)
		return func(ctx context.Context, step *cairn.Step) error { h.OnMessage(ctx, step, shown); return nil }
	})
}

// Shown returns a copy of a message for user code, which may keep or change it.
func Shown(m *cairn.Message) *cairn.Message {
	shown := *m
	shown.Parts = slices.Clone(m.Parts)
	for i := range shown.Parts {
		p := &shown.Parts[i]
		p.Sources = slices.Clone(p.Sources)
		if p.ToolUse != nil {
			p.ToolUse = new(*p.ToolUse)
		}
		if p.Result != nil {
			p.Result = new(*p.Result)
		}
	}
	return &shown
}

// InfoOf describes a call to user code. HandleOf makes it a handle.
func InfoOf(c *step.Call) cairn.Call {
	return cairn.Call{ID: c.Use.CallID, Tool: c.Use.Tool, Input: c.Input()}
}

// HandleOf returns the handle of a call in a step.
func HandleOf(step *cairn.Step, call cairn.Call) *cairn.Call {
	call.Step = step
	return &call
}

// CallHook makes a hook of a function that takes a call.
func CallHook(c *step.Call, fn func(context.Context, *cairn.Call) error) Hook {
	info := InfoOf(c)
	return func(ctx context.Context, step *cairn.Step) error { return fn(ctx, HandleOf(step, info)) }
}

// RunEnded calls the hooks of a run's end, after its commit.
func (s *Scope) RunEnded(ctx context.Context, run *cairn.Run) {
	s.Observe(ctx, "run's end", func(h *cairn.Hooks) Hook { return EndHook(h, run) })
}
