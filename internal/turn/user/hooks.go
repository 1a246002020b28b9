package user

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Hooks are a run's hooks: the engine's, then the agent's, then those of the call that began the run.
type Hooks []*cairn.Hooks

// HooksOf returns the hooks of a run. The agent is nil if it is not known; call is nil if the run was begun without
// hooks. It does not modify the engine's list.
func HooksOf(engine []*cairn.Hooks, a *cairn.Agent, call *cairn.Hooks) Hooks {
	all := Hooks(slices.Clip(engine))
	if a != nil && a.Hooks != nil {
		all = append(all, a.Hooks)
	}
	if call != nil {
		all = append(all, call)
	}
	return all
}

// Any reports whether has is true for any of the hooks.
func (hs Hooks) Any(has func(*cairn.Hooks) bool) bool { return slices.ContainsFunc(hs, has) }

// Hook is one hook, ready to be called.
type Hook func(context.Context, *cairn.Step) error

// Veto calls the hooks that pick returns until one of them returns an error, and returns that error. name is theirs,
// for errors.
func (s *Scope) Veto(ctx context.Context, name string, pick func(*cairn.Hooks) Hook) error {
	for _, h := range s.session.Hooks() {
		if fn := pick(h); fn != nil {
			if err := s.Hook(ctx, name, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// Observe calls the hooks that pick returns. Their errors are logged and change nothing.
func (s *Scope) Observe(ctx context.Context, name string, pick func(*cairn.Hooks) Hook) {
	for _, h := range s.session.Hooks() {
		if fn := pick(h); fn != nil {
			if err := s.Hook(ctx, name, fn); err != nil {
				s.Failed(name, err)
			}
		}
	}
}

// Hook calls one hook. name is for errors.
func (s *Scope) Hook(ctx context.Context, name string, fn Hook) error {
	u := Code{What: "a " + name + " hook", Err: cairn.ErrHook, Limit: s.by.HookTimeout}
	_, err := Lent(ctx, s, u, func(ctx context.Context, step *cairn.Step) (struct{}, error) { return struct{}{}, fn(ctx, step) })
	return err
}

// Failed logs the error of a hook whose errors change nothing.
func (s *Scope) Failed(name string, err error) {
	info := s.about()
	s.by.Logger.Warn("hook failed", "session", info.SessionID, "agent", info.Agent, "hook", name, "error", err)
}
