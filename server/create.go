package server

import (
	"cmp"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Context is what a session that is created is like.
type Context struct {
	// Tags are words that sessions are found by.
	Tags []string `json:"tags,omitempty"`
	// Metadata is the client's own, by name.
	Metadata map[string]string `json:"metadata,omitempty"`
	// ExpiresAt is when the session expires; without it the time that the agent gives it counts.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// TraceParent is the W3C trace context that the session's spans belong to.
	TraceParent string `json:"trace_parent,omitempty"`
}

func (x *Context) options(user string) []engine.RunOption {
	opts := []engine.RunOption{engine.WithUser(user), engine.WithTags(x.Tags...), engine.WithMetadata(x.Metadata)}
	if !x.ExpiresAt.IsZero() {
		opts = append(opts, engine.WithExpiry(x.ExpiresAt))
	}
	if x.TraceParent != "" {
		opts = append(opts, engine.WithTraceParent(x.TraceParent))
	}
	return opts
}

// openOrCreate opens a session for a turn, which it makes if there is none.
func (c *request) openOrCreate(id, agent string, x *Context) (*cairn.Session, error) {
	if id == "" {
		id = c.newID()
	}
	for {
		row, err := c.open(id, ActionRun)
		if !errors.Is(err, cairn.ErrNotFound) || row != nil { // row: it is there, but not for this principal
			return row, err
		}
		row, err = c.create(id, agent, x)
		if !errors.Is(err, cairn.ErrExists) { // else another request has made it meanwhile
			return row, err
		}
	}
}

func (c *request) create(id, agent string, x *Context) (*cairn.Session, error) {
	if agent = cmp.Or(agent, c.only()); agent == "" {
		return nil, cairn.Invalid("agent", "is required for a new session")
	}
	planned := &cairn.Session{ID: id, RootID: id, Agent: agent, UserID: c.principal.User, Tags: x.Tags, Metadata: x.Metadata}
	if err := c.allow(Access{Principal: c.principal, Action: ActionRun, Session: planned}, id); err != nil {
		return nil, err
	}
	row, err := c.h.eng.Create(c.ctx, id, agent, x.options(c.principal.User)...)
	if errors.Is(err, cairn.ErrDeleted) || errors.Is(err, cairn.ErrExpired) {
		err = hidden(err, id)
	}
	return row, err
}

// only returns the name of the engine's agent, if there is but one.
func (c *request) only() string {
	if names := c.h.eng.Agents(); len(names) == 1 {
		return names[0]
	}
	return ""
}

type createIn struct {
	SessionID string `json:"session_id,omitempty"`
	// Agent is the agent's name. It may be left out if the engine has only one.
	Agent string `json:"agent,omitempty"`
	Context
}

func createSession(c *request, in *createIn) (*cairn.Session, error) {
	if in.SessionID == "" {
		in.SessionID = c.newID()
	}
	row, err := c.create(in.SessionID, in.Agent, &in.Context)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		row, err = c.open(in.SessionID, ActionRun)
	}
	return public(row), err
}
