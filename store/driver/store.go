// Package driver defines the contracts between stores and an engine: Store for durable state and Log for events. Use it
// to write, wrap or test stores. Applications open a store, pass it to an engine and use the engine's methods: they
// need at most package store.
//
// One write, Commit, has all changes of a step. The named operations (Create, AppendMessages, MergeState,
// CompareAndSetStatus, …) are thin functions over it. Every implementation passes the suite in package storetest.
package driver

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"fmt"

	"github.com/cairn-agents/cairn"
)

// Store keeps sessions and everything that belongs to them. All methods are safe for concurrent use by any number of
// processes. Times that decide something, such as the end of a lease or a deadline, are by the store's clock, because a
// caller's clock may be wrong. Each returned row carries the store's time in AsOf.
//
// Errors are *cairn.Error values: ErrNotFound for a session that does not exist, a *ConflictError where a guard did not
// hold, ErrUnavailable where storage fails, ErrClosed after Close. A call whose context is cancelled is applied in full
// or not at all.
type Store interface {
	// Commit applies c to a session, all or nothing, and returns the session's new row. See [Commit].
	Commit(ctx context.Context, id string, c *Commit) (*cairn.Session, error)
	// Read returns a session's row and the data that want selects, all of it from one point in time. The error is
	// ErrNotFound if want names a run or checkpoint that the session does not have.
	Read(ctx context.Context, id string, want Want) (*Contents, error)
	// Runs pages through a session's runs by turn.
	Runs(ctx context.Context, id string, q PageQuery) (Page[cairn.Run], error)
	// Checkpoints pages through a session's checkpoints in order of writing.
	Checkpoints(ctx context.Context, id string, q PageQuery) (Page[cairn.Checkpoint], error)

	// Stage keeps pieces of a step that is not committed yet. A piece whose step and key are already staged is left
	// unchanged. token must be the session's current fencing token and not 0, and the run that holds it must not have
	// ended; otherwise the error is a ConflictError with ErrFenced. The session's version does not change.
	Stage(ctx context.Context, id string, token int64, pieces ...Staged) error

	// Renew extends the lease of the holder of token to ttl from now, and returns the stop request for the run that
	// holds the session, or nil. If token is not current, or its lease was released, the error is a ConflictError with
	// ErrFenced. The session's version does not change.
	Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error)
	// RequestStop records a stop request for the run that holds the session. stop.RunID must name that run; the error
	// is a ConflictError with ErrNotRunning if the session is not active or another run holds it. A second request for
	// the same run replaces the first only if the second is an abort and the first is not. The store sets stop.At. The
	// session's version does not change.
	RequestStop(ctx context.Context, id string, stop cairn.Stop) error

	// Calls pages through pending calls of all sessions, oldest first.
	Calls(ctx context.Context, q CallQuery) (Page[cairn.PendingCall], error)

	// Branch creates the session to with the messages and state that the session from had at a point. The branch has
	// version 1, no runs and no checkpoints. to provides the new session's id, agent and context as in Commit.Create,
	// and its Status if that is completed; otherwise the branch is idle. Its Opening is kept if the branch includes the
	// message of that opening. The error is ErrExists if the session to exists, and ErrNotFound if from or its
	// checkpoint does not exist. It is ErrInvalid for more messages than there are, or for so few that the state after
	// them was pruned, see [Pruned].
	Branch(ctx context.Context, from string, at BranchPoint, to *cairn.Session) (*cairn.Session, error)
	// Prune removes all but the newest keep checkpoints of a session, with everything that only the removed ones
	// needed, and returns how many it removed. The session's current checkpoint is always kept. keep must be at least
	// 1, otherwise the error is ErrInvalid.
	Prune(ctx context.Context, id string, keep int) (int, error)
	// List pages through sessions, newest first.
	List(ctx context.Context, q SessionQuery) (Page[cairn.Session], error)
	// Due pages through the sessions that need a worker, for any [DueKind], longest due first. Each session is listed
	// once.
	Due(ctx context.Context, q DueQuery) (Page[Due], error)

	// Delete removes one session and everything it owns, including its pending calls, immediately and permanently.
	// Other sessions of its tree and the event log stay. If the session's lease has not lapsed the error is a
	// ConflictError with ErrAlreadyRunning.
	Delete(ctx context.Context, id string) error
	// Close releases the store's resources. Calls in progress may fail.
	Close() error

	// Self returns the receiver. A decorator that embeds a Store inherits the method, by which [CheckDecorator] finds
	// the optional interfaces that it hides.
	Self() Store
}

// TreeCounter is a Store that counts the sessions of a tree without listing them, for [CountTree].
type TreeCounter interface {
	// CountTree returns how many sessions a tree has, its root included; 0 if there is no such tree.
	CountTree(ctx context.Context, root string) (int, error)
}

// Sweeper is a Store that can hide sessions before it removes them permanently, and that knows which sessions have
// expired. In a store that is not a Sweeper a deletion is final and nothing expires.
//
// A session is gone from the moment it expires. An operation on a tree whose [SweepAt] time has come checks whether the
// tree has expired, and if so removes the tree before it answers. The check costs nothing while a lease is held, since
// a running tree does not expire. For a removed session every method returns a *GoneError with ErrDeleted or
// ErrExpired. Both also match ErrNotFound. Its id cannot be used again until it is purged.
type Sweeper interface {
	// Remove hides a root with all the sessions of its tree, in one write. Every method but Removed, Restore and Purge
	// then reports them as gone, and no list has them or their pending calls, except for List with
	// SessionQuery.Removed. Their data and their event log stay until they are purged. The error is ErrInvalid for a
	// session that is not a root. With Deleted, the error is a ConflictError with ErrAlreadyRunning and the row of the
	// session at fault if the lease of any session of the tree has not lapsed. With Expired, the error is a
	// ConflictError with ErrStale if the tree has not expired, by [cairn.Session.Expiry] and the store's clock; Stale
	// then omits the tree until it may have expired, see [SweepAt].
	Remove(ctx context.Context, root string, why Removal) (*Removed, error)
	// Restore restores a removed tree with everything it owns, in one write, and returns its root's row as changed by
	// [Revive]. The error is ErrExists if the session exists, ErrInvalid if it is not a root, and ErrNotFound if it
	// never existed or was purged.
	Restore(ctx context.Context, root string) (*cairn.Session, error)
	// Stale pages through the ids of the roots that may have expired, longest stale first. A root with a TTL or
	// ExpiresAt is listed from its SweepAt time on. That time is written when the root is created, when its context or
	// opening changes, and by Remove. Other commits need not write it, and an active root is listed about once per TTL.
	// q.Newest is ignored.
	Stale(ctx context.Context, q PageQuery) (Page[string], error)
	// Removed pages through the trees that were removed at least age ago and are not purged, oldest removal first.
	// q.Newest is ignored.
	Removed(ctx context.Context, age time.Duration, q PageQuery) (Page[Removed], error)
	// Purge permanently removes the remaining rows of a removed tree, by its key, and returns how many checkpoints it
	// removed. Once all of it is removed the ids can be used again. Purge need not be one write: after a failure the
	// rest stays listed for the next purge, but can no longer be restored. The caller drops the event log first. The
	// error is ErrNotFound if no removed tree has that key. Purged data may stay readable in the files of a [Scrubber]
	// until its next Scrub.
	Purge(ctx context.Context, key string) (checkpoints int, err error)
}

// Scrubber is a Store, or a Log of its own, whose files would show removed data to those who read their bytes. An
// engine calls Scrub after it has erased sessions, and at the end of a sweep that purged some.
type Scrubber interface {
	// Scrub overwrites, in the store's files, the data that was deleted before the call. The error is ErrUnavailable if
	// that has to wait, for example for a reader of an older state; its message names the cause, and the place where
	// the data still is. Call Scrub again later.
	Scrub(ctx context.Context) error
}

// LogProvider is a Store with an event log of its own, to which its commits append their events, see [Commit].
type LogProvider interface {
	EventLog() Log
}

// StopWatcher is a Store that reports stop requests of any process as they are made. Without it a stop takes effect at
// the next heartbeat.
type StopWatcher interface {
	// WatchStops yields the outstanding stop requests and then every new one, until ctx is done. One watch serves a
	// whole process. A notice without a session means that requests may have been missed: the process then checks each
	// of its runs, as a heartbeat does. The caller restarts a watch that fails.
	WatchStops(ctx context.Context) iter.Seq2[StopNotice, error]
}

// StopNotice reports a stop request.
type StopNotice struct {
	SessionID string
	Stop      cairn.Stop
}

// BranchPoint is the point at which a branch begins: a checkpoint, or a number of messages. For a number of messages,
// the state is taken from the latest checkpoint with at most that many messages, or is the session's initial state if
// there is none. The number of all messages, like the zero value, selects the session's current state.
type BranchPoint struct {
	CheckpointID string
	// Messages is the number of messages to take, if it is not nil and CheckpointID is empty.
	Messages *int
	// State, if not empty, becomes the state of the branch.
	State json.RawMessage
	// Tail are messages in place of the last ones of the branch, as many as there are of them.
	Tail []cairn.Message
	// Suspend, if set, makes the branch paused, with these fields of its row: see [Commit].
	Suspend *Suspend
	// Calls are rows that the branch begins with, as new calls of its own: decided calls, for their audit trails.
	Calls []CallWrite
	// Events and Outbox are the fields of [Commit], for the commit that creates the branch. The store sets the Version
	// of each event and, to the number of the branch's messages, its MessageCount.
	Events []cairn.Event
	Outbox bool
}

// Commit returns the part of the commit that creates the branch to which the point says. It is for implementers, which
// validate it.
func (p *BranchPoint) Commit(to *cairn.Session) *Commit {
	return &Commit{Guard: Guard{New: true}, Create: to, InitialState: p.State, Messages: p.Tail, Suspend: p.Suspend, Calls: p.Calls, Events: p.Events,
		Outbox: p.Outbox}
}

// StateOr returns the state of the branch: State, or else the one that the session has at the point.
func (p *BranchPoint) StateOr(there json.RawMessage) json.RawMessage {
	if len(p.State) > 0 {
		return p.State
	}
	return there
}

// Execer is a Store that executes statements of tools in the transaction of a commit, see [Commit.Statements]. Any
// other store refuses a commit with statements, by [Commit.Validate].
type Execer interface {
	// Dialect names the database whose SQL the store executes, such as "PostgreSQL" or "SQLite".
	Dialect() string
}

// Executes returns nil if a store executes statements of a dialect, and otherwise an ErrInvalid error that says why
// not.
func Executes(s Store, dialect string) error {
	there := fmt.Sprintf("%T, which does not execute statements", s)
	if x, ok := As[Execer](s); ok {
		if there = x.Dialect(); there == dialect {
			return nil
		}
	}
	return cairn.Invalid("store", "statement is for %s, but the sessions are in %s", dialect, there)
}
