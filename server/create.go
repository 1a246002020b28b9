package server

import (
	"cmp"
	"errors"
	"regexp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store/driver"
)

// sessionOptions returns the options with which a user's turn creates a session.
func sessionOptions(x *client.Context, user string) []engine.RunOption {
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

// goal is the session that a message is for.
type goal struct {
	// id and agent are those of the session if it is created, and x describes it.
	id, agent string
	x         *client.Context
	// existing says that there must be a session.
	existing bool
	// open returns the session, with the errors of [request.openThread]. Again is set if a session of the id was in the
	// way of its creation.
	open func(again bool) (*cairn.Session, error)
}

// place is where a message goes.
type place struct {
	// row is the session, or what it will be like.
	row *cairn.Session
	// create are the options with which the turn creates the session; nil if the session exists.
	create []engine.RunOption
}

// forMessage calls begin with the session that a message is for. The turn of the message creates a session that does
// not exist. One that has expired is continued as its agent's Threads say. Of concurrent requests one creates or
// restores a session, and all get the same: the id of a new one follows from the one that has expired.
func (c *request) forMessage(to *goal, begin func(*place) (*engine.Run, error)) (*place, *engine.Run, error) {
	for try := 0; ; try++ {
		row, err := to.open(try > 0)
		at := &place{row: row}
		switch {
		case errors.Is(err, cairn.ErrExpired):
			switch c.threads(row.Agent).OnExpired {
			case ExpiredRestore:
				at.row, err = c.h.eng.Restore(c.ctx, row.ID)
			case ExpiredNew:
				at, err = c.plan(ids.InTenantOf(row.ID, ids.Derive("session", row.ThreadID, row.ID, row.Incarnation)), cmp.Or(to.agent, row.Agent), nil, row)
			}
		case errors.Is(err, cairn.ErrNotFound) && row == nil && !to.existing: // a row is of another user
			at, err = c.plan(to.id, to.agent, to.x, nil)
		}
		var run *engine.Run
		if err == nil {
			run, err = begin(at)
		}
		taken := errors.Is(err, cairn.ErrExists) // by a concurrent request, or by a session of another thread
		if at != nil && at.create != nil && driver.IsGone(err) {
			taken, err = true, hidden(err, to.id)
		}
		if !taken || try == 2 {
			return at, run, err
		}
	}
}

// plan returns the session that a turn creates: as the principal's own, described by x, or as the next one of the
// thread of after.
func (c *request) plan(id, agent string, x *client.Context, after *cairn.Session) (*place, error) {
	if agent = cmp.Or(agent, c.only()); agent == "" {
		return nil, cairn.Invalid("agent", "is required for a new session")
	}
	user, thread := c.principal.User, id
	if !c.confined() {
		user = ids.InTenantOf(id, user)
	}
	if after != nil {
		user, thread = after.UserID, after.ThreadID
		x = &client.Context{Tags: after.Tags, Metadata: after.Metadata, Depth: after.Depth}
	}
	tenant, _ := ids.Split(id)
	planned := &cairn.Session{ID: id, Tenant: tenant, RootID: id, ThreadID: thread, Agent: agent, UserID: user, Tags: x.Tags, Metadata: x.Metadata}
	err := c.allow(Access{Action: ActionRun, Session: planned}, id)
	return &place{planned, append(sessionOptions(x, user), engine.WithThread(thread))}, err
}

// traceParent matches a W3C traceparent; another one is ignored, as its specification says.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// execute begins a turn on a session, or creates the session with it. It returns another run if the session has the turn
// already.
func (c *request) execute(at *place, agent string, input cairn.Input, opts []engine.RunOption) (*engine.Run, error) {
	if parent := c.r.Header.Get("Traceparent"); traceParent.MatchString(parent) {
		opts = append([]engine.RunOption{engine.WithTraceParent(parent)}, opts...)
	}
	if at.create != nil {
		opts = append(append(opts, at.create...), engine.OnlyNew())
	}
	return c.h.eng.Execute(c.ctx, at.row.ID, agent, input, opts...)
}

// only returns the name of the engine's agent if it has exactly one, else the empty string.
func (c *request) only() string {
	if names := c.h.eng.Agents(); len(names) == 1 {
		return names[0]
	}
	return ""
}

type createIn struct {
	wire.Create
	agentAliases
	client.Context
}

func createSession(c *request, in *createIn) (*cairn.Session, error) {
	if in.SessionID == "" {
		in.SessionID = c.newID()
	} else if row, err := c.latest(in.SessionID, ActionRun); row != nil && err == nil && row.ID != in.SessionID {
		return nil, cairn.Errorf(cairn.ErrExists, "thread %q already exists with session %q", in.SessionID, row.ID)
	} else if err != nil && (row != nil || !errors.Is(err, cairn.ErrNotFound)) {
		return nil, err
	}
	agent, err := in.name(in.Agent)
	if err != nil {
		return nil, err
	}
	at, err := c.plan(in.SessionID, agent, &in.Context, nil)
	if err != nil {
		return nil, err
	}
	row, err := c.h.eng.Create(c.ctx, in.SessionID, at.row.Agent, at.create...)
	if driver.IsGone(err) {
		err = hidden(err, in.SessionID)
	}
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		row, err = c.open(in.SessionID, ActionRun)
	}
	return public(row), err
}
