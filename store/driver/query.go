package driver

import (
	"cmp"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// SessionQuery selects sessions. Zero fields do not restrict. Sessions come newest first, by creation and id.
type SessionQuery struct {
	// Tenant, if not nil, selects the sessions of a tenant, see [cairn.InTenant], or those without one if it is empty.
	Tenant *string
	// UserID is the id of the sessions' user, with the tenant.
	UserID   string
	Agent    string
	Statuses []cairn.SessionStatus
	// Tags must all be present.
	Tags []string
	// Metadata selects the sessions whose metadata has each of these entries, with an equal value of the same JSON type:
	// the number 1 is not the text "1". A value is a string, a number, a bool or nil for JSON's null, or an object,
	// which leads to such values at a path of at most [MaxFilterDepth] members. Lists are neither entered nor compared.
	Metadata cairn.Metadata
	// ThreadID selects the sessions of a thread.
	ThreadID string
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
	// Archived, if not nil, selects the roots that are archived, or those that are not.
	Archived *bool
	Cursor   string
	Limit    int
}

// MaxFilterDepth is how deeply the objects of SessionQuery.Metadata may be nested.
const MaxFilterDepth = 16

// Begin checks the query and returns the place at which its page begins. It converts Metadata to the form in which
// [SessionQuery.Selects] compares it with stored rows. Stores call it first. The error is ErrInvalid, or ErrTooLarge
// for metadata of more than [cairn.MaxMetadataBytes], and names the field.
func (q *SessionQuery) Begin() (Cursor, error) {
	filter := cairn.Session{Metadata: q.Metadata}
	err := cmp.Or(checkTenant(q.Tenant), filter.ValidateContext())
	if err == nil {
		q.Metadata, err = q.Metadata.Canonical()
	}
	if err == nil {
		err = checkFilter(q.Metadata, 1)
	}
	if err != nil {
		return Cursor{}, err
	}
	return ParseSessionCursor(q.Cursor)
}

// checkTenant reports a tenant to select that cannot be one.
func checkTenant(tenant *string) error {
	if tenant == nil || *tenant == "" {
		return nil
	}
	return cairn.CheckTenant(*tenant)
}

// checkFilter reports a filter on metadata that is too deep, or whose values cannot be compared.
func checkFilter(object map[string]any, depth int) error {
	if depth > MaxFilterDepth {
		return cairn.Invalid("metadata", "filter is nested more than %d levels deep", MaxFilterDepth)
	}
	for key, value := range object {
		switch value := value.(type) {
		case []any:
			return cairn.Invalid("metadata", "a filter cannot compare the list at %q", key)
		case map[string]any:
			if len(value) == 0 {
				return cairn.Invalid("metadata", "a filter cannot compare the empty object at %q", key)
			}
			if err := checkFilter(value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// CallQuery selects pending calls. Zero fields do not restrict. Calls come oldest first, by creation and id.
type CallQuery struct {
	// Tenant, if not nil, selects the calls of a tenant, see [cairn.InTenant], or those without one if it is empty.
	Tenant *string
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

// Begin checks the query and returns the place at which its page begins: behind the call with that creation, root and id;
// an empty root is the beginning. Stores call it first. The error is ErrInvalid and names the field.
func (q *CallQuery) Begin() (createdAt time.Time, root, id string, err error) {
	if err := checkTenant(q.Tenant); err != nil {
		return time.Time{}, "", "", err
	}
	return ParseCallCursor(q.Cursor)
}

// Unsettled reports whether the query selects only effects that are not settled. They are few among all calls that a store
// ever had, so stores serve such a query by an index.
func (q *CallQuery) Unsettled() bool {
	return q.Kind == cairn.CallEffect && len(q.Statuses) > 0 && !slices.Contains(q.Statuses, cairn.CallSettled)
}

// DueKind is the reason why a session needs a worker.
type DueKind string

const (
	// DueCrashed is an active session whose lease lapsed or was released.
	DueCrashed DueKind = "crashed"
	// DueEnding is a paused session whose wait is being ended, see [cairn.Session.Ending]. It comes before the other
	// kinds of a paused session.
	DueEnding DueKind = "ending"
	// DueReady is a paused session whose pending calls all have answers.
	DueReady DueKind = "ready"
	// DueDeadline is a paused session with a pending call whose deadline has passed.
	DueDeadline DueKind = "deadline"
	// DueQueued is a session that is neither active nor paused and has turns in its queue.
	DueQueued DueKind = "queued"
	// DueOutbox is a session that is not active with events that are not known to be on its log, see
	// [cairn.Session.Outbox].
	DueOutbox DueKind = "outbox"
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
