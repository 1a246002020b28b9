package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// Create creates a session without beginning a turn, for callers that must know who owns a session before its first
// turn, or that branch from it. It takes the options that describe a session that Execute creates: [WithUser],
// [WithTags], [WithMetadata], [WithThread], [WithTraceParent], [WithDepth], [WithExpiry], [WithState]; any other is
// ErrInvalid. Exactly one of several concurrent creators succeeds; the others get ErrExists. The error is ErrDeleted or
// ErrExpired while a removed session reserves the id, and ErrNotFound for an unknown agent.
func (e *Engine) Create(ctx context.Context, id, agent string, opts ...RunOption) (*cairn.Session, error) {
	o := options(opts)
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	if err := o.qualify(id); err != nil {
		return nil, err
	}
	a := e.agent(agent)
	switch {
	case a == nil:
		return nil, unknownAgent(agent)
	case o.hooks != nil, o.input != nil, o.checkpoint != "", o.busy != BusyReject, o.waiting != WaitingRefuse, o.from != nil, o.keep, o.model != nil, o.runID != "", o.expects() != "":
		return nil, cairn.Invalid("options", "Create accepts only options that describe the session")
	}
	o.create.Agent, o.create.TTL = agent, e.ttl(agent)
	if err := e.checkCreated(&o.create); err != nil {
		return nil, err
	}
	state, err := e.checkInitial(ctx, agent, o)
	if err != nil {
		return nil, err
	}
	if a.State != nil && state == nil {
		state = a.State.Initial()
	}
	return driver.Create(ctx, e.store, &o.create, state)
}

// maxDepth is the maximum depth that a caller may name, whatever the engine's limit is.
const maxDepth = 1000

// checkCreated checks what options say of a session to be created.
func (e *Engine) checkCreated(s *cairn.Session) error {
	err := s.ValidateContext()
	if problem := ids.CheckSession(s.ThreadID); s.ThreadID != "" && problem != "" {
		err = cairn.Invalid("thread", "id %s", problem)
	}
	if s.Depth < 0 || s.Depth > maxDepth {
		err = cairn.Invalid("depth", "%d is not between 0 and %d", s.Depth, maxDepth)
	}
	if err == nil && e.opts.MaxDepth >= 0 && s.Depth > e.opts.MaxDepth {
		err = lifecycle.TooDeep(e.opts.MaxDepth)
	}
	return err
}
