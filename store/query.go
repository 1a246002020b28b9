package store

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// SessionQuery selects sessions. Zero fields do not restrict. Sessions come newest first, by creation and id.
type SessionQuery struct {
	UserID   string
	Agent    string
	Statuses []cairn.SessionStatus
	// Tags must all be present, and Metadata entries must all be equal.
	Tags     []string
	Metadata map[string]string
	ParentID string
	RootID   string
	// RootsOnly leaves out sessions with a parent.
	RootsOnly     bool
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	UpdatedAfter  time.Time // inclusive
	UpdatedBefore time.Time // exclusive
	// Search selects the sessions that have each of its words, or a word that begins with it, in their title or
	// opening; see [Words]. A text without words does not restrict.
	Search string
	// Removed selects sessions that were removed for one of these reasons and are not purged yet, instead of existing
	// sessions. They come with their Removal and RemovedAt. A store that is not a [Sweeper] has none.
	Removed []Removal
	Cursor  string
	Limit   int
}

// CallQuery selects pending calls. Zero fields do not restrict. Calls come oldest first, by creation and id.
type CallQuery struct {
	RootID string
	// ID selects the call with that id; with RootID there is at most one.
	ID        string
	SessionID string
	StepID    string
	UserID    string
	Agent     string
	Tool      string
	Kind      cairn.CallKind
	Statuses  []cairn.CallStatus
	// Reviewer selects the calls that this reviewer may answer: those assigned to them and unassigned ones.
	Reviewer string
	// Claimed selects the calls that this reviewer has claimed, by the store's clock.
	Claimed string
	// DueBefore selects the calls whose deadline is before that time.
	DueBefore time.Time
	Cursor    string
	Limit     int
}

// DueKind is the reason why a session needs a worker.
type DueKind string

const (
	// DueCrashed is an active session whose lease lapsed or was released.
	DueCrashed DueKind = "crashed"
	// DueReady is a paused session whose pending calls all have answers.
	DueReady DueKind = "ready"
	// DueDeadline is a paused session with a pending call whose deadline has passed.
	DueDeadline DueKind = "deadline"
	// DueQueued is a session that is neither active nor paused and has turns in its queue.
	DueQueued DueKind = "queued"
)

// DueQuery selects sessions that need a worker.
type DueQuery struct {
	// Agents selects the trees whose root has one of these agents; nil means all. The agents of children do not count.
	// Due sessions of other agents cost the query nothing.
	Agents []string
	Cursor string
	Limit  int
}

// Due is a session that needs a worker.
type Due struct {
	SessionID string
	RootID    string
	// Agent is the root's agent.
	Agent string
	Kind  DueKind
	// Since is the time at which the session became due. For an active session it is when its lease lapsed or was
	// released. It is later than the store's now if the store's clock was set back since: see [cairn.Lease.Ahead].
	Since time.Time
}
