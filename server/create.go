package server

import (
	"cmp"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Context describes a session to be created.
type Context struct {
	// Tags are words by which sessions are found.
	Tags []string `json:"tags,omitempty"`
	// Metadata is a JSON object of the client's, of at most 16 KiB.
	Metadata cairn.Metadata `json:"metadata,omitempty"`
	// ExpiresAt is when the session expires; without it the lifetime set by the agent applies.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// TraceParent is the W3C trace context that the session's spans belong to.
	TraceParent string `json:"trace_parent,omitempty"`
	// Depth is for a caller that is itself an agent's session: the depth of that session, which the new one stands for.
	// It counts against the engine's limit, see [engine.WithDepth].
	Depth int `json:"depth,omitempty" schema:"min=0,max=1000"`
}

func (x *Context) options(user string) []engine.RunOption {
	opts := []engine.RunOption{engine.WithUser(user), engine.WithTags(x.Tags...), engine.WithMetadata(x.Metadata)}
	if !x.ExpiresAt.IsZero() {
		opts = append(opts, engine.WithExpiry(x.ExpiresAt))
	}
	if x.TraceParent != "" {
		opts = append(opts, engine.WithTraceParent(x.TraceParent))
	}
	if x.Depth != 0 {
		opts = append(opts, engine.WithDepth(x.Depth))
	}
	return opts
}

// openOrCreate opens a session for a turn, or creates it if it does not exist.
func (c *request) openOrCreate(id, agent string, x *Context) (*cairn.Session, error) {
	if id == "" {
		id = c.newID()
	}
	for {
		row, err := c.openRoot(id, ActionRun)
		if !errors.Is(err, cairn.ErrNotFound) || row != nil { // a row means that the session exists, but not for this principal
			return row, err
		}
		row, err = c.create(id, agent, x)
		if !errors.Is(err, cairn.ErrExists) { // ErrExists: a concurrent request has created it
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

// only returns the name of the engine's agent if it has exactly one, else the empty string.
func (c *request) only() string {
	if names := c.h.eng.Agents(); len(names) == 1 {
		return names[0]
	}
	return ""
}

type createIn struct {
	SessionID string `json:"session_id,omitempty"`
	// Agent is the agent's name. It is optional if the engine has only one.
	Agent string `json:"agent,omitempty"`
	agentAliases
	Context
}

func createSession(c *request, in *createIn) (*cairn.Session, error) {
	if in.SessionID == "" {
		in.SessionID = c.newID()
	}
	agent, err := in.name(in.Agent)
	if err != nil {
		return nil, err
	}
	row, err := c.create(in.SessionID, agent, &in.Context)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		row, err = c.open(in.SessionID, ActionRun)
	}
	return public(row), err
}
