package server

import (
	"cmp"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/ids"
)

// memoryScope names the memories that a request is about: an agent's memories, of one user or one session if the agent has
// a memory per user or session.
type memoryScope struct {
	// Agent is the agent's name. It is optional if the engine has only one, and with session_id.
	Agent string `query:"agent" json:"-"`
	// UserID is whose memories they are. Without it, they are the principal's own.
	UserID string `query:"user_id" json:"-"`
	// SessionID selects the memories that the session's agent has in it.
	SessionID string `query:"session_id" json:"-"`
}

// memories returns the memories that a request is about, if the principal has one of the accesses to them, and the access.
func (c *request) memories(in *memoryScope, actions ...Action) (found cairn.Memories, by Action, err error) {
	of := &cairn.Session{Tenant: c.tenant(), Agent: in.Agent, UserID: in.UserID}
	var root *cairn.Session
	if in.SessionID != "" { // who has no access does not learn what is wrong with the request
		if of, root, err = c.load(in.SessionID); err != nil {
			_, err = c.gone(in.SessionID, actions[0], err)
			return nil, "", err
		}
		if _, err = c.allowMemory(root, actions); err != nil {
			return nil, "", notFound(in.SessionID)
		}
		if in.Agent != "" && in.Agent != of.Agent || in.UserID != "" && in.UserID != of.UserID {
			return nil, "", cairn.Invalid("session_id", "session %q has another agent or user", in.SessionID)
		}
	}
	memory, err := c.memoryOf(of)
	if err != nil {
		return nil, "", err
	}
	access := root
	switch memory.ScopeKind() {
	case cairn.MemoryOfSession:
		if root == nil {
			return nil, "", cairn.Invalid("session_id", "is required: the memories of agent %q are those of a session", of.Agent)
		}
	case cairn.MemoryOfUser:
		if root == nil {
			of.UserID = cmp.Or(of.UserID, c.principal.User)
		}
		if of.UserID == "" {
			return nil, "", cairn.Invalid("user_id", "is required: the memories of agent %q are those of a user", of.Agent)
		}
		tenant, _ := ids.Split(of.UserID)
		access = &cairn.Session{Tenant: tenant, Agent: of.Agent, UserID: of.UserID}
	case cairn.MemoryOfGroup:
		if in.UserID != "" {
			return nil, "", cairn.Invalid("user_id", "may not be set: the memories of agent %q are those of a group", of.Agent)
		}
		access = &cairn.Session{Tenant: of.Tenant, Agent: of.Agent}
	}
	if by, err = c.allowMemory(access, actions); err != nil {
		return nil, "", err
	}
	found, err = memory.Of(of)
	return found, by, err
}

// memoryOf returns the memory of a session's agent, which it completes.
func (c *request) memoryOf(of *cairn.Session) (cairn.EditableMemory, error) {
	if of.Agent == "" {
		if of.Agent = c.only(); of.Agent == "" {
			return nil, cairn.Invalid("agent", "is required: there are several agents")
		}
	}
	a := c.h.eng.Agent(of.Agent)
	if a == nil {
		return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "agent", Message: "unknown agent \"" + of.Agent + "\""}
	}
	memory, ok := a.Memory.(cairn.EditableMemory)
	if !ok {
		return nil, cairn.Invalid("agent", "agent %q has no memory that can be read", of.Agent)
	}
	return memory, nil
}

type listMemoriesIn struct {
	memoryScope
	// Entity selects memories about a person or thing.
	Entity string `query:"entity"`
	// FromSession selects memories that come from a session.
	FromSession string `query:"from_session"`
	// Kind selects texts of conversations, or facts.
	Kind string `query:"kind" schema:"enum=said|fact"`
	// Source selects memories by the kind of their source.
	Source string `query:"source" schema:"enum=user_said|tool_returned|agent_inferred|application"`
	// State selects memories that are in use, in quarantine or redacted.
	State string `query:"state" schema:"enum=active|quarantined|redacted"`
	// Current leaves out memories that a newer version supersedes.
	Current bool `query:"current"`
	// ByValidTime lists by valid_from, and not in the order in which memories were added.
	ByValidTime bool `query:"by_valid_time"`
	// OldestFirst lists the oldest first.
	OldestFirst bool   `query:"oldest_first"`
	Limit       int    `query:"limit"`
	Cursor      string `query:"cursor"`
}

// listMemories lists memories. Reviewers may list those in quarantine.
func listMemories(c *request, in *listMemoriesIn) (*pageBody[cairn.MemoryEntry], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	actions := []Action{ActionReadMemory}
	if in.State == string(cairn.MemoryQuarantined) {
		actions = append(actions, ActionPromoteMemory)
	}
	memories, _, err := c.memories(&in.memoryScope, actions...)
	if err != nil {
		return nil, err
	}
	page, err := memories.List(c.ctx, cairn.MemoryList{Entity: in.Entity, Session: in.FromSession, Kind: cairn.MemoryEntryKind(in.Kind),
		Source: cairn.MemorySourceKind(in.Source), State: cairn.MemoryState(in.State), Current: in.Current, ByValidTime: in.ByValidTime,
		OldestFirst: in.OldestFirst, Cursor: in.Cursor, Limit: p.limit})
	if err != nil {
		return nil, err
	}
	return withoutOffset(pageAt(p, page.Items, page.Next)), nil
}

// withoutOffset returns a page of a list that has no offsets.
func withoutOffset[T any](page *pageBody[T]) *pageBody[T] {
	page.Offset = nil
	return page
}

type searchMemoriesIn struct {
	memoryScope
	// Text is what the memories are to fit, such as a question.
	Text string `query:"text"`
	// Entity selects memories about a person or thing.
	Entity string `query:"entity"`
	// Kind selects texts of conversations, or facts.
	Kind string `query:"kind" schema:"enum=said|fact"`
	// Source selects memories by the kind of their source.
	Source string `query:"source" schema:"enum=user_said|tool_returned|agent_inferred|application"`
	// AsOf is the time at which the memories must be valid; without it, now.
	AsOf time.Time `query:"as_of"`
	// Superseded also finds memories that a newer version supersedes, Quarantined those in quarantine.
	Superseded  bool `query:"superseded"`
	Quarantined bool `query:"quarantined"`
	// Explain adds to each memory how its score came about.
	Explain bool `query:"explain"`
	Limit   int  `query:"limit"`
}

func searchMemories(c *request, in *searchMemoriesIn) (*pageBody[cairn.MemoryHit], error) {
	p := paging{limit: in.Limit}
	if err := p.check(); err != nil {
		return nil, err
	}
	memories, _, err := c.memories(&in.memoryScope, ActionReadMemory)
	if err != nil {
		return nil, err
	}
	if in.Text == "" {
		return nil, cairn.Invalid("text", "is required")
	}
	hits, err := memories.Search(c.ctx, cairn.MemorySearch{Text: in.Text, Limit: p.limit, Entity: in.Entity, Kind: cairn.MemoryEntryKind(in.Kind),
		Source: cairn.MemorySourceKind(in.Source), AsOf: in.AsOf, Superseded: in.Superseded, Quarantined: in.Quarantined, Explain: in.Explain})
	if err != nil {
		return nil, err
	}
	return withoutOffset(pageAt(p, hits, "")), nil
}

type memoryIn struct {
	memoryScope
	// Entry is the id of the memory.
	Entry string `path:"entry" json:"-"`
}

// getMemory returns a memory with its history. Reviewers may get one that is in quarantine.
func getMemory(c *request, in *memoryIn) (*client.MemoryVersions, error) {
	memories, by, err := c.memories(&in.memoryScope, ActionReadMemory, ActionPromoteMemory)
	if err != nil {
		return nil, err
	}
	entry, err := memories.Get(c.ctx, in.Entry)
	if err != nil {
		return nil, err
	}
	out := &client.MemoryVersions{MemoryEntry: *entry}
	if by == ActionPromoteMemory {
		if entry.State != cairn.MemoryQuarantined {
			return nil, noMemory(in.Entry)
		}
		out.History = []cairn.MemoryEntry{*entry}
		return out, nil
	}
	out.History, err = memories.History(c.ctx, in.Entry)
	return out, err
}

func noMemory(id string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "entry", Message: "memory \"" + id + "\" not found"}
}

type addMemoryIn struct {
	memoryScope
	client.NewMemory
}

func addMemory(c *request, in *addMemoryIn) (*cairn.MemoryEntry, error) {
	memories, _, err := c.memories(&in.memoryScope, ActionChangeMemory)
	if err != nil {
		return nil, err
	}
	list, err := memories.Add(c.ctx, in.entry(c))
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// entry returns what a client writes, as the words of the user or of the application.
func (in *addMemoryIn) entry(c *request) cairn.MemoryEntry {
	source := cairn.MemorySource{Kind: cairn.MemoryApplication}
	if !c.principal.Is(RoleAdmin) && c.principal.User != "" {
		source.Kind = cairn.MemoryUserSaid
	}
	id := ""
	if c.once != nil { // another try adds nothing
		id = ids.Derive("mem", c.once.seed)
	}
	return cairn.MemoryEntry{ID: id, Text: in.Text, Entity: in.Entity, Attribute: in.Attribute, Keys: in.Keys, Importance: in.Importance,
		ValidFrom: in.ValidFrom, ValidUntil: in.ValidUntil, ExpiresAt: in.ExpiresAt, Source: source}
}

type correctMemoryIn struct {
	addMemoryIn
	// Entry is the id of the memory.
	Entry string `path:"entry" json:"-"`
}

func correctMemory(c *request, in *correctMemoryIn) (*cairn.MemoryEntry, error) {
	memories, _, err := c.memories(&in.memoryScope, ActionChangeMemory)
	if err != nil {
		return nil, err
	}
	return memories.Correct(c.ctx, in.Entry, in.entry(c))
}

func redactMemory(c *request, in *memoryIn) (*cairn.MemoryEntry, error) {
	memories, _, err := c.memories(&in.memoryScope, ActionChangeMemory)
	if err != nil {
		return nil, err
	}
	return memories.Redact(c.ctx, in.Entry)
}

func promoteMemory(c *request, in *memoryIn) (*cairn.MemoryEntry, error) {
	memories, _, err := c.memories(&in.memoryScope, ActionPromoteMemory)
	if err != nil {
		return nil, err
	}
	return memories.Promote(c.ctx, in.Entry)
}

func forgetMemory(c *request, in *memoryIn) (*client.Forgotten, error) {
	memories, _, err := c.memories(&in.memoryScope, ActionChangeMemory)
	if err != nil {
		return nil, err
	}
	n, err := memories.Forget(c.ctx, in.Entry)
	return &client.Forgotten{Removed: n}, err
}

func forgetMemories(c *request, in *memoryScope) (none, error) {
	memories, _, err := c.memories(in, ActionChangeMemory)
	if err != nil {
		return none{}, err
	}
	_, err = memories.Drop(c.ctx)
	return none{}, err
}

type memoryEntitiesIn struct {
	memoryScope
	Limit  int    `query:"limit"`
	Cursor string `query:"cursor"`
}

func listMemoryEntities(c *request, in *memoryEntitiesIn) (*pageBody[cairn.MemoryEntityCount], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	memories, _, err := c.memories(&in.memoryScope, ActionReadMemory)
	if err != nil {
		return nil, err
	}
	page, err := memories.Entities(c.ctx, in.Cursor, p.limit)
	if err != nil {
		return nil, err
	}
	return withoutOffset(pageAt(p, page.Items, page.Next)), nil
}

func listMemorySources(c *request, in *memoryScope) (*pageBody[cairn.MemorySourceCount], error) {
	memories, _, err := c.memories(in, ActionReadMemory)
	if err != nil {
		return nil, err
	}
	list, err := memories.Sources(c.ctx)
	if err != nil {
		return nil, err
	}
	return withoutOffset(pageAt(paging{limit: maxPage}, list, "")), nil
}
