// Package store defines the contracts that a storage backend implements: Store for durable state and Log for events.
//
// Everything a step changes goes into one write, Commit. The named operations of this package (Create, AppendMessages,
// MergeState, CompareAndSetStatus, …) are thin functions over it. Every implementation passes the suite in package
// storetest.
package store

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
)

// Store keeps sessions and everything that belongs to them. All methods are safe for concurrent use by any number of
// processes. Every time that decides something, such as the end of a lease or a deadline, is by the store's clock, not
// the caller's, whose clock may be wrong; each returned row carries the store's time in AsOf.
//
// Errors are *cairn.Error values: ErrNotFound for a session that does not exist, a *ConflictError where a guard did not
// hold, ErrUnavailable where storage fails, ErrClosed after Close. A call whose context is cancelled has either
// happened in full or not at all.
type Store interface {
	// Commit applies c to a session, all or nothing, and returns the session's new row. See [Commit].
	Commit(ctx context.Context, id string, c *Commit) (*cairn.Session, error)
	// Read returns a session's row and what want selects, all of it from one point in time. A run or checkpoint that
	// want names and the session does not have is ErrNotFound.
	Read(ctx context.Context, id string, want Want) (*Contents, error)
	// Runs pages through a session's runs by turn.
	Runs(ctx context.Context, id string, q PageQuery) (Page[cairn.Run], error)
	// Checkpoints pages through a session's checkpoints in order of writing.
	Checkpoints(ctx context.Context, id string, q PageQuery) (Page[cairn.Checkpoint], error)

	// Stage keeps pieces of a step that is not committed yet. A piece that is already staged, by step and key, is not
	// changed. token must be the session's current fencing token, and not 0, else the error is a ConflictError with
	// ErrFenced. The session's version does not change.
	Stage(ctx context.Context, id string, token int64, pieces ...Staged) error

	// Renew extends the lease of the holder of token to ttl from now, and returns the stop request for the run that
	// holds the session, or nil. A token that is not current is a ConflictError with ErrFenced. The session's version
	// does not change.
	Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error)
	// RequestStop records a stop request for the run that holds the session. stop.RunID must name that run; the error
	// is a ConflictError with ErrNotRunning if the session is not active or another run holds it. A second request for
	// one run replaces the first only if it is an abort and the first is not. The store sets stop.At. The session's
	// version does not change.
	RequestStop(ctx context.Context, id string, stop cairn.Stop) error

	// Calls pages through pending calls of all sessions, the oldest first.
	Calls(ctx context.Context, q CallQuery) (Page[cairn.PendingCall], error)

	// Branch creates the session to with the messages and state that the session from had at a point. to gives the new
	// session's id, agent and context as in Commit.Create, its Opening, which counts if its message is among them, and
	// its Unpublished, which gets Version 1 and the branch's MessageCount. The error is ErrExists if there is such a session,
	// ErrNotFound if from or its checkpoint does not exist, ErrInvalid for more messages than there are, or for so few
	// that the state after them was pruned, see [Pruned]. The branch has version 1, no runs and no checkpoints.
	Branch(ctx context.Context, from string, at BranchPoint, to *cairn.Session) (*cairn.Session, error)
	// Prune removes all but the newest keep checkpoints of a session, and what only they needed, and returns how many.
	// The session's current checkpoint is always kept. keep must be at least 1, else the error is ErrInvalid.
	Prune(ctx context.Context, id string, keep int) (int, error)
	// List pages through sessions, newest first.
	List(ctx context.Context, q SessionQuery) (Page[cairn.Session], error)
	// Due pages through the sessions that need a worker, of any [DueKind], the longest due first. A session is listed
	// once.
	Due(ctx context.Context, q DueQuery) (Page[Due], error)

	// Delete removes one session and everything it owns for good and at once, its pending calls too; other sessions of
	// its tree and the event log stay. A session with a good lease is a ConflictError with ErrAlreadyRunning.
	Delete(ctx context.Context, id string) error
	// Close releases the store's resources. Calls in progress may fail.
	Close() error
}

// TreeCounter is a Store that counts the sessions of a tree without listing them, for [CountTree].
type TreeCounter interface {
	// CountTree returns how many sessions a tree has, its root included; 0 if there is no such tree.
	CountTree(ctx context.Context, root string) (int, error)
}

// Sweeper is a Store that can hide sessions before it removes them for good, and knows which have expired. Without it a
// deletion is final and nothing expires.
//
// A session is gone from the moment it expires: an operation that finds that the time of [SweepAt] has come for a tree
// checks whether the tree has expired, and if so removes it before it answers. That costs nothing while a lease is
// good, since a running tree does not expire. For a removed session every method returns a *GoneError with ErrDeleted
// or ErrExpired, which is ErrNotFound as well. Its id cannot be used again before it is purged.
type Sweeper interface {
	// Remove hides a root with all the sessions of its tree, in one write: for every other method but Removed, Restore
	// and Purge they are gone, and no list has them or their pending calls. What they own stays until it is purged, and
	// so does their event log. A session that is not a root is ErrInvalid. With Deleted, if the lease of any session of
	// the tree is good, the error is a ConflictError with ErrAlreadyRunning and that session's row. With Expired the
	// error is a ConflictError with ErrStale if the tree has not expired, by [cairn.Session.Expiry] and the store's
	// clock; Stale then omits it until it may have, see [SweepAt].
	Remove(ctx context.Context, root string, why Removal) (*Removed, error)
	// Restore restores a removed tree, in one write, with everything that it owns, and returns its root's row, changed
	// by [Revive]. The error is ErrExists if the session exists, ErrInvalid for one that is not a root, ErrNotFound if
	// there is no such session and never was, or it was purged.
	Restore(ctx context.Context, root string) (*cairn.Session, error)
	// Stale pages through the ids of the roots that may have expired, the longest stale first. A root with a TTL or
	// ExpiresAt is listed once the time has come that SweepAt gave at its creation, or at its last change of context or
	// opening or Remove. So commits need not write that time, and an active root is listed about once per TTL. q.Newest has no
	// meaning.
	Stale(ctx context.Context, q PageQuery) (Page[string], error)
	// Removed pages through the trees that were removed at least age ago and are not purged, the oldest removal first.
	// q.Newest has no meaning.
	Removed(ctx context.Context, age time.Duration, q PageQuery) (Page[Removed], error)
	// Purge removes for good what is left of a removed tree, by its key, and returns how many checkpoints it removed.
	// With the last of it the ids are free. It need not be one write: after a failure the rest stays listed for the
	// next purge, but can no longer be restored. The caller drops the event log before. The error is ErrNotFound if
	// there is no such removed tree.
	Purge(ctx context.Context, key string) (checkpoints int, err error)
}

// LogProvider is a Store with its own event log, in the same place as the sessions.
type LogProvider interface {
	EventLog() Log
}

// StopWatcher is a Store that notifies of stop requests as they are made, by any process. Without it a stop takes
// effect at the next heartbeat.
type StopWatcher interface {
	// WatchStops yields the outstanding stop requests and then every new one, until ctx is done. One watch serves a
	// whole process. A notice without a session means that requests may have been missed: the process then checks each
	// of its runs, as a heartbeat does. A watch that fails is begun again.
	WatchStops(ctx context.Context) iter.Seq2[StopNotice, error]
}

// StopNotice reports a stop request.
type StopNotice struct {
	SessionID string
	Stop      cairn.Stop
}

// Staged is one piece of an uncommitted step: its reply, or the result of one call.
type Staged struct {
	StepID string          `json:"step_id"`
	Key    string          `json:"key"`
	Data   json.RawMessage `json:"data"`
}

// BranchPoint is the place where a branch begins: a checkpoint, or a number of messages. With messages the state is
// that of the latest checkpoint with no more of them, or the session's initial state. All messages, like the zero
// value, mean the session as it is.
type BranchPoint struct {
	CheckpointID string
	// Messages is the number of messages to take, if it is not nil and CheckpointID is empty.
	Messages *int
}

// PageQuery asks for one page of a list.
type PageQuery struct {
	// Cursor is the Next of the previous page; empty for the first page.
	Cursor string
	// Limit is the page's size; 0 means 100, more than 1000 means 1000.
	Limit int
	// Newest lists the newest first.
	Newest bool
}

// Size returns the effective page size.
func (q PageQuery) Size() int { return PageSize(q.Limit) }

// PageSize returns the effective size for a requested limit.
func PageSize(limit int) int {
	switch {
	case limit <= 0:
		return 100
	case limit > 1000:
		return 1000
	}
	return limit
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty"`
}

// SessionQuery selects sessions. Zero fields do not restrict. Sessions come newest first, by creation and id.
type SessionQuery struct {
	UserID   string
	Agent    string
	Statuses []cairn.SessionStatus
	// Tags must all be present, Metadata entries all be equal.
	Tags     []string
	Metadata map[string]string
	ParentID string
	RootID   string
	// RootsOnly leaves out children.
	RootsOnly     bool
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	UpdatedAfter  time.Time // inclusive
	UpdatedBefore time.Time // exclusive
	// Search selects the sessions that have each of its words, or a word that begins with it, in their title or opening; see
	// [Words]. Without any word it does not restrict.
	Search string
	// Removed selects, instead of the sessions that are there, those that were removed for one of these reasons and are not
	// purged yet. They come with their Removal and RemovedAt. A store that is no [Sweeper] has none.
	Removed []Removal
	Cursor  string
	Limit   int
}

// CallQuery selects pending calls. Zero fields do not restrict. Calls come oldest first, by creation and id.
type CallQuery struct {
	RootID string
	// ID selects the call of that id; with RootID there is at most one.
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
	// What is due of other agents costs nothing.
	Agents []string
	Cursor string
	Limit  int
}

// Due is a session that needs a worker.
type Due struct {
	SessionID string
	RootID    string
	// Agent is the root's.
	Agent string
	Kind  DueKind
	// Since is when it became due: for an active session, when its lease lapsed or was released.
	Since time.Time
}
