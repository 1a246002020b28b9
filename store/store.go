// Package store defines the contracts that a storage backend implements: Store for durable state and Log for events.
//
// Everything a step changes goes into one write, Commit. The named operations of this package (Create, AppendMessages,
// MergeState, CompareAndSetStatus, …) are thin functions over it. Every implementation passes the suite in package
// storetest.
package store

import (
	"context"
	"iter"
	"time"

	"fmt"

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
	// changed. token must be the session's current fencing token, and not 0, and the run that has it must not have ended, else
	// the error is a ConflictError with ErrFenced. The session's version does not change.
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

// BranchPoint is the place where a branch begins: a checkpoint, or a number of messages. With messages the state is
// that of the latest checkpoint with no more of them, or the session's initial state. All messages, like the zero
// value, mean the session as it is.
type BranchPoint struct {
	CheckpointID string
	// Messages is the number of messages to take, if it is not nil and CheckpointID is empty.
	Messages *int
}

// Execer is a Store that executes statements of tools in the transaction of a commit, see [Commit.Statements]. A store
// that is none refuses a commit with statements, by [Commit.Validate].
type Execer interface {
	// Dialect names the database whose SQL the store executes, such as "PostgreSQL" or "SQLite".
	Dialect() string
}

// Executes reports why a store executes no statements of a dialect. The error is ErrInvalid, or nil if it does.
func Executes(s Store, dialect string) error {
	there := fmt.Sprintf("%T, which executes none", s)
	if x, ok := s.(Execer); ok {
		if there = x.Dialect(); there == dialect {
			return nil
		}
	}
	return cairn.Invalid("store", "the statement is for %s, but the sessions are in %s", dialect, there)
}
