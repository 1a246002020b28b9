package effects

import (
	"context"
	"encoding/json"
	"iter"
	"sync"

	"github.com/cairn-agents/cairn"
)

// loan is what a handle has of a scope for as long as the function that it was given to is at work. It implements
// cairn.Env and cairn.ToolEnv.
type loan struct {
	s    *scope
	mu   sync.RWMutex // held for reading while the scope is used
	over bool
}

// end makes the handle useless, once what it does at the moment is done.
func (n *loan) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
}

// use calls fn with the scope, unless the loan is over.
func (n *loan) use(fn func(*scope) error) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.over {
		return errEnded
	}
	return fn(n.s)
}

func (n *loan) State() (raw json.RawMessage, err error) {
	err = n.use(func(s *scope) error {
		raw, err = s.State()
		return err
	})
	return raw, err
}

func (n *loan) Update(list []cairn.Op) error {
	return n.use(func(s *scope) error { return s.Update(list) })
}

func (n *loan) Emit(name string, data json.RawMessage) error {
	return n.use(func(s *scope) error { return s.Emit(name, data) })
}

func (n *loan) AddContext(m cairn.Message) {
	_ = n.use(func(s *scope) error { s.AddContext(m); return nil })
}

func (n *loan) RecordUsage(name string, amount float64) {
	_ = n.use(func(s *scope) error { s.RecordUsage(name, amount); return nil })
}

func (n *loan) Checkpoint() {
	_ = n.use(func(s *scope) error { s.Checkpoint(); return nil })
}

func (n *loan) HasTool(name string) (has bool) {
	_ = n.use(func(s *scope) error { has = s.HasTool(name); return nil })
	return has
}

// lent calls user code with a handle over a scope, which is good until the code returns or is given up.
func lent[T any](ctx context.Context, fx *Effects, l *live, u userCall, s *scope, fn func(context.Context, *cairn.Step) (T, error)) (T, error) {
	n := &loan{s: s}
	defer n.end()
	step := l.handle(n, s.number)
	u.session, u.agent = l.row.ID, l.row.Agent
	return callUser(ctx, fx, u, func(ctx context.Context) (T, error) { return fn(ctx, step) })
}

// handle returns the cairn.Step over what is behind it.
func (l *live) handle(env cairn.Env, number int) *cairn.Step {
	return cairn.NewStep(cairn.StepInfo{SessionID: l.row.ID, RunID: l.run.ID, Agent: l.row.Agent, UserID: l.row.UserID,
		Turn: l.run.Turn, Number: number}, env)
}

// hook is one hook, ready to be called.
type hook func(context.Context, *cairn.Step) error

// allHooks yields the hooks of the engine, then those of the agent, then those of the call that began the run.
func (fx *Effects) allHooks(l *live, a *cairn.Agent) iter.Seq[*cairn.Hooks] {
	return func(yield func(*cairn.Hooks) bool) {
		for _, h := range fx.Hooks {
			if !yield(h) {
				return
			}
		}
		if a.Hooks != nil && !yield(a.Hooks) {
			return
		}
		if l.hooks != nil {
			yield(l.hooks)
		}
	}
}

// anyHook reports whether any hooks have what is asked for.
func (fx *Effects) anyHook(l *live, a *cairn.Agent, has func(*cairn.Hooks) bool) bool {
	for h := range fx.allHooks(l, a) {
		if has(h) {
			return true
		}
	}
	return false
}

// veto calls the hooks of a name, which pick returns, until one of them has an error, and returns that.
func (fx *Effects) veto(ctx context.Context, l *live, a *cairn.Agent, name string, s *scope, pick func(*cairn.Hooks) hook) error {
	for h := range fx.allHooks(l, a) {
		if fn := pick(h); fn != nil {
			if err := fx.hook(ctx, l, name, s, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe calls the hooks of a name, which pick returns. What becomes of them changes nothing.
func (fx *Effects) observe(ctx context.Context, l *live, a *cairn.Agent, name string, s *scope, pick func(*cairn.Hooks) hook) {
	for h := range fx.allHooks(l, a) {
		if fn := pick(h); fn != nil {
			if err := fx.hook(ctx, l, name, s, fn); err != nil {
				fx.Logger.Warn("hook failed", "session", l.row.ID, "agent", a.Name, "hook", name, "error", err)
			}
		}
	}
}

func (fx *Effects) hook(ctx context.Context, l *live, name string, s *scope, fn hook) error {
	u := userCall{what: "a " + name + " hook", code: cairn.CodeHook, limit: fx.HookTimeout}
	_, err := lent(ctx, fx, l, u, s, func(ctx context.Context, step *cairn.Step) (struct{}, error) { return struct{}{}, fn(ctx, step) })
	return err
}
