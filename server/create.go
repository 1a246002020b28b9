package server

import (
	"cmp"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
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

// openOrCreate opens a session for a turn, or creates it if it does not exist. One that has expired is continued as
// its agent's Threads say.
func (c *request) openOrCreate(id, agent string, x *Context) (*cairn.Session, error) {
	if id == "" {
		id = c.newID()
	}
	return c.forMessage(id, agent, x, func() (*cairn.Session, error) {
		row, err := c.openRoot(id, ActionRun)
		if err == nil || row != nil && !errors.Is(err, cairn.ErrExpired) {
			return row, err
		}
		if latest, err := c.latest(id, ActionRun); latest != nil || !errors.Is(err, cairn.ErrNotFound) {
			return latest, err
		}
		return row, err
	})
}

// forMessage returns the session that open finds, or restores or creates it. Of concurrent requests one does so, and all
// get the same session: the id of a new one follows from the one that has expired.
func (c *request) forMessage(id, agent string, x *Context, open func() (*cairn.Session, error)) (*cairn.Session, error) {
	for try := 0; ; try++ {
		row, err := open()
		switch {
		case errors.Is(err, cairn.ErrExpired):
			switch c.threads(row.Agent).OnExpired {
			case ExpiredRestore:
				row, err = c.h.eng.Restore(c.ctx, row.ID)
			case ExpiredNew:
				row, err = c.create(ids.Derive("session", row.ThreadID, row.ID, row.Incarnation), cmp.Or(agent, row.Agent), nil, row)
			}
		case errors.Is(err, cairn.ErrNotFound) && row == nil: // a row means that the session exists, but not for this principal
			row, err = c.create(id, agent, x, nil)
		}
		if !errors.Is(err, cairn.ErrExists) || try == 2 { // ErrExists: a concurrent request was faster
			return row, err
		}
	}
}

// create creates a session: as the principal's own, described by x, or as the next session of the thread of after.
func (c *request) create(id, agent string, x *Context, after *cairn.Session) (*cairn.Session, error) {
	if agent = cmp.Or(agent, c.only()); agent == "" {
		return nil, cairn.Invalid("agent", "is required for a new session")
	}
	user, thread := c.principal.User, id
	if after != nil {
		user, thread = after.UserID, after.ThreadID
		x = &Context{Tags: after.Tags, Metadata: after.Metadata, Depth: after.Depth}
	}
	planned := &cairn.Session{ID: id, RootID: id, ThreadID: thread, Agent: agent, UserID: user, Tags: x.Tags, Metadata: x.Metadata}
	if err := c.allow(Access{Principal: c.principal, Action: ActionRun, Session: planned}, id); err != nil {
		return nil, err
	}
	row, err := c.h.eng.Create(c.ctx, id, agent, append(x.options(user), engine.WithThread(thread))...)
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
	} else if row, err := c.latest(in.SessionID, ActionRun); row != nil && err == nil && row.ID != in.SessionID {
		return nil, cairn.Errorf(cairn.CodeExists, "there is a thread %q, whose latest session is %q", in.SessionID, row.ID)
	} else if err != nil && (row != nil || !errors.Is(err, cairn.ErrNotFound)) {
		return nil, err
	}
	agent, err := in.name(in.Agent)
	if err != nil {
		return nil, err
	}
	row, err := c.create(in.SessionID, agent, &in.Context, nil)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		row, err = c.open(in.SessionID, ActionRun)
	}
	return public(row), err
}
