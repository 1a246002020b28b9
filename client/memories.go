package client

import (
	"context"
	"net/url"
	"time"

	"github.com/cairn-agents/cairn"
)

// MemoryScope names memories on a server: an agent's memories, of one user or one session if the agent has a memory per
// user or session.
type MemoryScope struct {
	// Agent is the agent's name. It may be empty if the server has only one, and with a SessionID.
	Agent string
	// UserID is the user; empty means the client's own. Only administrators and operators have access to other users'
	// memories, and reviewers to memories in quarantine.
	UserID string
	// SessionID selects the memories that the session's agent has in it.
	SessionID string
}

func (s *MemoryScope) query() url.Values {
	query := url.Values{}
	set(query, "agent", s.Agent)
	set(query, "user_id", s.UserID)
	set(query, "session_id", s.SessionID)
	return query
}

// NewMemory is a memory to be added, or a newer version of one.
type NewMemory struct {
	// Text is the memory itself.
	Text string `json:"text"`
	// Entity is the subject, such as a person, and Attribute a property of it.
	Entity    string `json:"entity,omitempty"`
	Attribute string `json:"attribute,omitempty"`
	// Keys are texts that are searched but not shown: other names, a question that the memory answers.
	Keys []string `json:"keys,omitempty"`
	// Importance is from 0 to 1. The least important memories are removed first.
	Importance float64 `json:"importance,omitempty" schema:"min=0,max=1"`
	// ValidFrom is when the text became true; without it, now. ValidUntil is when it stops being true.
	ValidFrom  time.Time `json:"valid_from,omitzero"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
	// ExpiresAt is when the memory is removed.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// MemoryVersions is a memory with its history.
type MemoryVersions struct {
	cairn.MemoryEntry
	// History are all versions, the one that became valid first at the beginning.
	History []cairn.MemoryEntry `json:"history"`
}

// Forgotten is how many memories were deleted.
type Forgotten struct {
	// Removed counts all versions, and the facts that were taken from them.
	Removed int `json:"removed"`
}

// Memories lists memories, the newest first.
func (c *Client) Memories(ctx context.Context, of MemoryScope, q cairn.MemoryList) (*cairn.Page[cairn.MemoryEntry], error) {
	query := paged(of.query(), q.Limit, q.Cursor)
	set(query, "entity", q.Entity)
	set(query, "from_session", q.Session)
	set(query, "kind", string(q.Kind))
	set(query, "source", string(q.Source))
	set(query, "state", string(q.State))
	setBool(query, "current", q.Current)
	setBool(query, "by_valid_time", q.ByValidTime)
	setBool(query, "oldest_first", q.OldestFirst)
	return out[cairn.Page[cairn.MemoryEntry]](c, ctx, "GET", "/memory/entries", query, nil)
}

// SearchMemories returns the memories that fit a text best, best first.
func (c *Client) SearchMemories(ctx context.Context, of MemoryScope, q cairn.MemorySearch) ([]cairn.MemoryHit, error) {
	query := paged(of.query(), q.Limit, "")
	set(query, "text", q.Text)
	set(query, "entity", q.Entity)
	set(query, "kind", string(q.Kind))
	set(query, "source", string(q.Source))
	if !q.AsOf.IsZero() {
		query.Set("as_of", q.AsOf.Format(time.RFC3339Nano))
	}
	setBool(query, "superseded", q.Superseded)
	setBool(query, "quarantined", q.Quarantined)
	setBool(query, "explain", q.Explain)
	page, err := out[cairn.Page[cairn.MemoryHit]](c, ctx, "GET", "/memory/search", query, nil)
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

// Memory returns a memory, in any state, with its history.
func (c *Client) Memory(ctx context.Context, of MemoryScope, id string) (*MemoryVersions, error) {
	return out[MemoryVersions](c, ctx, "GET", memoryPath(id), of.query(), nil)
}

// AddMemory adds a memory. Its source is the user, if the client adds to the user's own memories, else the application.
func (c *Client) AddMemory(ctx context.Context, of MemoryScope, m NewMemory) (*cairn.MemoryEntry, error) {
	return out[cairn.MemoryEntry](c, ctx, "POST", "/memory/entries", of.query(), m)
}

// CorrectMemory adds a newer version of a memory, which has the fields of the old one that m leaves empty, and returns it.
func (c *Client) CorrectMemory(ctx context.Context, of MemoryScope, id string, m NewMemory) (*cairn.MemoryEntry, error) {
	return out[cairn.MemoryEntry](c, ctx, "POST", memoryPath(id)+"/correct", of.query(), m)
}

// RedactMemory removes the text of one version of a memory, which keeps its place in the history.
func (c *Client) RedactMemory(ctx context.Context, of MemoryScope, id string) (*cairn.MemoryEntry, error) {
	return out[cairn.MemoryEntry](c, ctx, "POST", memoryPath(id)+"/redact", of.query(), nil)
}

// PromoteMemory makes a quarantined memory active. It needs an administrator or a reviewer.
func (c *Client) PromoteMemory(ctx context.Context, of MemoryScope, id string) (*cairn.MemoryEntry, error) {
	return out[cairn.MemoryEntry](c, ctx, "POST", memoryPath(id)+"/promote", of.query(), nil)
}

// ForgetMemory deletes a memory with all its versions. Removed is 0 if there is none of that id.
func (c *Client) ForgetMemory(ctx context.Context, of MemoryScope, id string) (*Forgotten, error) {
	return out[Forgotten](c, ctx, "DELETE", memoryPath(id), of.query(), nil)
}

// ForgetMemories deletes all memories of a scope.
func (c *Client) ForgetMemories(ctx context.Context, of MemoryScope) error {
	return c.do(ctx, "DELETE", "/memory/entries", of.query(), nil, nil)
}

// MemoryEntities lists the people and things that the memories are about, by name.
func (c *Client) MemoryEntities(ctx context.Context, of MemoryScope, limit int, cursor string) (*cairn.Page[cairn.MemoryEntityCount], error) {
	return out[cairn.Page[cairn.MemoryEntityCount]](c, ctx, "GET", "/memory/entities", paged(of.query(), limit, cursor), nil)
}

// MemorySources counts the memories by where they come from.
func (c *Client) MemorySources(ctx context.Context, of MemoryScope) ([]cairn.MemorySourceCount, error) {
	page, err := out[cairn.Page[cairn.MemorySourceCount]](c, ctx, "GET", "/memory/sources", of.query(), nil)
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

func memoryPath(id string) string { return "/memory/entries/" + url.PathEscape(id) }
