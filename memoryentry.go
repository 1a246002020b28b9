package cairn

import (
	"context"
	"time"
)

// EditableMemory is a Memory whose entries people can read and change, as package memory's is. The memory routes of a
// server need one.
type EditableMemory interface {
	Memory
	// ScopeKind returns the kind of scope that the memory has.
	ScopeKind() MemoryScopeKind
	// Of returns the memories that a session's agent uses. Only the fields of the session that the kind of scope needs
	// count: the id and the incarnation, the user, or the tenant. The error is ErrInvalid if the scope is a user's and the
	// session has none.
	Of(s *Session) (Memories, error)
}

// MemoryScopeKind is the kind of owner of a set of memories.
type MemoryScopeKind string

const (
	// MemoryOfSession is memory that ends with its session.
	MemoryOfSession MemoryScopeKind = "session"
	// MemoryOfUser is memory that all sessions of a user share.
	MemoryOfUser MemoryScopeKind = "user"
	// MemoryOfGroup is memory that agents share by the group's name.
	MemoryOfGroup MemoryScopeKind = "group"
)

// Memories are the entries of one scope. The methods may be called concurrently. Their error is ErrNotFound for the id of
// no entry, and ErrInvalid or ErrTooLarge, with the field, for invalid arguments.
type Memories interface {
	// List pages through entries. Entries that are added or removed between two pages do not move the cursor.
	List(ctx context.Context, q MemoryList) (Page[MemoryEntry], error)
	// Search returns the entries that fit a text best, best first.
	Search(ctx context.Context, q MemorySearch) ([]MemoryHit, error)
	// Get returns an entry in any state, and History all versions of it, the one that became valid first at the beginning.
	Get(ctx context.Context, id string) (*MemoryEntry, error)
	History(ctx context.Context, id string) ([]MemoryEntry, error)
	// Add adds entries and returns them as they are stored. Entries with ids that exist are not added again.
	Add(ctx context.Context, entries ...MemoryEntry) ([]MemoryEntry, error)
	// Correct adds a newer version of an entry and returns it. It has the fields of the old one that newer leaves empty.
	Correct(ctx context.Context, id string, newer MemoryEntry) (*MemoryEntry, error)
	// Redact removes the text of one version, and Promote makes a quarantined entry active. Both return the entry.
	Redact(ctx context.Context, id string) (*MemoryEntry, error)
	Promote(ctx context.Context, id string) (*MemoryEntry, error)
	// Forget deletes entries with all of their versions, and with the facts that were taken from them. It returns how many
	// are gone. Drop deletes all.
	Forget(ctx context.Context, ids ...string) (int, error)
	Drop(ctx context.Context) (found bool, err error)
	// Entities pages through the entities and speakers, by name. Sources counts the entries by the kind of their source.
	Entities(ctx context.Context, cursor string, limit int) (Page[MemoryEntityCount], error)
	Sources(ctx context.Context) ([]MemorySourceCount, error)
}

// MemoryEntryKind is the kind of an entry.
type MemoryEntryKind string

const (
	// MemorySaid is text of a conversation.
	MemorySaid MemoryEntryKind = "said"
	// MemoryFact is a statement that was taken from text or written by the application.
	MemoryFact MemoryEntryKind = "fact"
)

// MemorySourceKind is the origin of an entry, which decides how far its text can be trusted.
type MemorySourceKind string

const (
	// MemoryUserSaid is text of the session's user.
	MemoryUserSaid MemorySourceKind = "user_said"
	// MemoryToolReturned is text that a tool returned. It is not trusted.
	MemoryToolReturned MemorySourceKind = "tool_returned"
	// MemoryAgentInferred is text of the agent's model.
	MemoryAgentInferred MemorySourceKind = "agent_inferred"
	// MemoryApplication is text that the application, or a person through it, has written.
	MemoryApplication MemorySourceKind = "application"
)

// MemoryState is whether an entry is in use.
type MemoryState string

const (
	// MemoryActive entries are found by searches.
	MemoryActive MemoryState = "active"
	// MemoryQuarantined entries come from untrusted text. Only searches that ask for them find them, and they supersede
	// nothing, until Promote makes them active.
	MemoryQuarantined MemoryState = "quarantined"
	// MemoryRedacted entries have lost their text and keep their place in the history.
	MemoryRedacted MemoryState = "redacted"
)

// MemorySource is where an entry comes from.
type MemorySource struct {
	// Kind is required.
	Kind MemorySourceKind `json:"kind"`
	// Session is the id of the session. Entries of kind MemorySaid from one session are neighbours, ordered by Position; a
	// search ranks them together.
	Session string `json:"session,omitempty"`
	// Position orders the entries of a session, such as the index of the message; from 0.
	Position int `json:"position,omitempty"`
	// Turn is the turn of the session.
	Turn int `json:"turn,omitempty"`
	// Message is the id of the message.
	Message string `json:"message,omitempty"`
	// Tool is the name of the tool whose result it was, or of one that is not trusted and whose results the agent had read
	// in the session by then.
	Tool string `json:"tool,omitempty"`
}

// MemoryEntry is one memory: something that was said, or a fact. An entry is never overwritten. A newer one supersedes it
// and both stay, unless they are forgotten.
type MemoryEntry struct {
	// ID identifies the entry in its scope; see memory.Derive. Add sets an empty one.
	ID string `json:"id"`
	// Kind is MemorySaid or MemoryFact; empty means MemoryFact.
	Kind MemoryEntryKind `json:"kind"`
	// Text is the memory itself. It is required.
	Text string `json:"text"`
	// Entity is the subject of a fact, such as a person, and Attribute a property of it.
	Entity    string `json:"entity,omitempty"`
	Attribute string `json:"attribute,omitempty"`
	// Keys are texts that are searched but not shown: other names, a question that the entry answers. At most memory.MaxKeys.
	Keys []string `json:"keys,omitempty"`
	// Speaker is the name of the person or agent that said the text. It is searched as well.
	Speaker string `json:"speaker,omitempty"`
	// Source is where the entry comes from.
	Source MemorySource `json:"source"`
	// About is the id of the MemorySaid entry that a fact was taken from. A search returns one of the two, not both.
	About string `json:"about,omitempty"`
	// Supersedes has the ids of the entries that this one replaces, if its ValidFrom is not before theirs.
	Supersedes []string `json:"supersedes,omitempty"`
	// SupersededBy is the id of the next version; empty for the newest. It is set on entries that are returned.
	SupersededBy string `json:"superseded_by,omitempty"`
	// Version is 1 for a first version and otherwise one more than the number of versions when it was added.
	Version int `json:"version"`
	// State is MemoryActive or MemoryQuarantined; empty means MemoryQuarantined for text that a tool returned, otherwise
	// MemoryActive.
	State MemoryState `json:"state"`
	// Importance is from 0 to 1. Trim removes the least important entries first.
	Importance float64 `json:"importance,omitempty"`
	// ValidFrom is when the text became true; zero means StoredAt. ValidUntil is when it stops being true; zero for
	// never.
	ValidFrom  time.Time `json:"valid_from"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
	// StoredAt is the store's time of Add.
	StoredAt time.Time `json:"stored_at"`
	// ExpiresAt is when the entry is removed; zero for never, or for the scope's retention.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// MemorySearch asks for the entries that fit a text best.
type MemorySearch struct {
	// Text is the text, such as a user's message. Only as many characters of it count as an entry may have.
	Text string
	// Limit is the maximum number of hits; 0 means 10, at most 100.
	Limit int
	// Entity, Kind and Source select entries; empty means all.
	Entity string
	Kind   MemoryEntryKind
	Source MemorySourceKind
	// AsOf is the time at which the entries must be valid; zero means now. An entry that was superseded later is found
	// as it was then.
	AsOf time.Time
	// Superseded also finds entries that a newer version supersedes. Without it, their newest version is found
	// instead.
	Superseded bool
	// Quarantined also finds quarantined entries.
	Quarantined bool
	// Explain adds to each hit how its score came about.
	Explain bool
}

// MemoryHit is an entry that was found.
type MemoryHit struct {
	MemoryEntry
	// Score is comparable within one search.
	Score float64 `json:"score"`
	// Explain is how the score came about, if that was asked for.
	Explain *MemoryExplain `json:"explain,omitempty"`
}

// MemoryExplain shows the parts of a hit's score. Text is Base + Neighbours + Session with the factors for Named and
// Question, divided by the highest such sum; the score is (Text + Vector) times Recency.
type MemoryExplain struct {
	// Terms are the terms of the query that were searched, and Matched those that the entry has.
	Terms   []string `json:"terms"`
	Matched []string `json:"matched,omitempty"`
	// Cover is the part of the query's weight that the matched terms have, from 0 to 1. If it is low for all hits, the
	// scope probably has no answer.
	Cover float64 `json:"cover"`
	// Base is the score of the entry's own terms, with the bonus for how much of the query they cover.
	Base float64 `json:"base"`
	// Neighbours and Session are the parts from adjacent entries and from the session's best entries.
	Neighbours float64 `json:"neighbours"`
	Session    float64 `json:"session"`
	// Named reports that the entry is by or about the one name in the query, and Question that it is a question.
	Named    bool `json:"named"`
	Question bool `json:"question"`
	// Text is the score by text, at most 1, and Vector the part from vectors.
	Text   float64 `json:"text"`
	Vector float64 `json:"vector"`
	// Recency is the factor of RecencyWeight.
	Recency float64 `json:"recency"`
	// Found is the id of the entry that fits the query, if the hit is returned in its place: an earlier version, or the
	// text that the hit was taken from.
	Found string `json:"found,omitempty"`
}

// MemoryList selects entries.
type MemoryList struct {
	// Entity, Session, Kind, Source and State select entries; empty means all.
	Entity  string
	Session string
	Kind    MemoryEntryKind
	Source  MemorySourceKind
	State   MemoryState
	// Current leaves out entries that a newer version supersedes.
	Current bool
	// ByValidTime lists by ValidFrom, and not in the order in which entries were added.
	ByValidTime bool
	// OldestFirst lists the oldest first; without it the newest is first.
	OldestFirst bool
	// Cursor is the Next of the previous page; empty for the first page.
	Cursor string
	// Limit is the page's size; 0 means 100, more than 1000 means 1000.
	Limit int
}

// MemoryEntityCount is a name in a scope: of an entity, a speaker or both.
type MemoryEntityCount struct {
	// Name is the name as it was spelled first.
	Name string `json:"name"`
	// Entries is how many entries are about it, in all versions, and Spoken how many have it as their speaker.
	Entries int `json:"entries"`
	Spoken  int `json:"spoken"`
}

// MemorySourceCount is how many entries of a scope come from a kind of source.
type MemorySourceCount struct {
	// Source is the kind of source.
	Source MemorySourceKind `json:"source"`
	// Said, Facts, Quarantined and Redacted count entries; the last two are also among the first two. Embedded counts
	// those that have a vector of the embedder's model.
	Said        int `json:"said"`
	Facts       int `json:"facts"`
	Quarantined int `json:"quarantined"`
	Redacted    int `json:"redacted"`
	Embedded    int `json:"embedded"`
}
