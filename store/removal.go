package store

import (
	"errors"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Removal is the reason for removing a session tree.
type Removal string

const (
	// Deleted means that a caller asked for it.
	Deleted Removal = "deleted"
	// Expired means that the tree has expired; the store checks that.
	Expired Removal = "expired"
)

// Removed is a session tree that was removed and is not purged yet.
type Removed struct {
	// Key names the removal. Unlike SessionID, the root's id, it is never used twice.
	Key       string    `json:"key"`
	SessionID string    `json:"session_id"`
	Reason    Removal   `json:"reason"`
	RemovedAt time.Time `json:"removed_at"`
	// Incarnation is that of the tree, which names its event log.
	Incarnation string `json:"incarnation,omitempty"`
}

// Log returns the name of the tree's event log.
func (r *Removed) Log() string { return ids.Log(r.SessionID, r.Incarnation) }

// GoneError reports that a session belongs to a tree that was removed and is not purged yet.
type GoneError struct {
	Err *cairn.Error
	// Removed is the removal of its tree.
	Removed Removed
}

// Error returns the message.
func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (e *GoneError) Unwrap() error { return e.Err }

// Gone returns the error for a session of a removed tree: ErrExpired or ErrDeleted, both of which are ErrNotFound.
func Gone(id string, r Removed) error {
	err := &cairn.Error{Code: cairn.CodeDeleted, Field: "session", Message: "session " + strconv.Quote(id) + " was deleted"}
	if r.Reason == Expired {
		err.Code, err.Message = cairn.CodeExpired, "session "+strconv.Quote(id)+" has expired"
	}
	return &GoneError{Err: err, Removed: r}
}

// IsGone reports whether an error says that a session has expired or was deleted.
func IsGone(err error) bool {
	return errors.Is(err, cairn.ErrExpired) || errors.Is(err, cairn.ErrDeleted)
}

// Revive updates the row of a root that is restored at the store's time now: its version grows by one, as with any
// activity, and it does not expire at once.
func Revive(root *cairn.Session, now time.Time) {
	root.Version++
	root.UpdatedAt, root.AsOf = now, now
	if !root.ExpiresAt.After(now) {
		root.ExpiresAt = time.Time{}
	}
}

// CheckRemoval reports an unknown reason.
func CheckRemoval(why Removal) error {
	if why != Deleted && why != Expired {
		return cairn.Invalid("reason", "%q is neither deleted nor expired", why)
	}
	return nil
}

// RemovalConflict returns why a tree, given with the root first, must not be removed at the store's time now, or nil.
func RemovalConflict(tree []*cairn.Session, why Removal, now time.Time) error {
	root := tree[0]
	if why == Expired {
		if expiry := root.Expiry(tree[1:]...); expiry.IsZero() || now.Before(expiry) {
			return Conflict(cairn.CodeStale, root, "session %q has not expired", root.ID)
		}
	}
	for _, s := range tree {
		if s.Running(now) {
			return Conflict(cairn.CodeRunning, s, "session %q is running", s.ID)
		}
	}
	return nil
}

// NotRoot returns the error for a removal that names a session other than a root.
func NotRoot(s *cairn.Session) error {
	return cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", s.ID, s.RootID)
}

// NotRemoved returns the error for a key of no removed tree.
func NotRemoved(key string) error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "key", Message: "there is no removed session of key " + strconv.Quote(key)}
}

// heldAgain is the delay until the next look at a tree whose ExpiresAt has passed, but which is running or suspended.
const heldAgain = time.Minute

// SweepAt returns the time from which Store.Stale lists a root, computed at the store's time now; zero for never, as
// for a session that is not a root. Later activity cannot make the tree expire before that time, so it need not be
// written again until it has come, unless the session's context changes. Without the other sessions of the tree the
// time may be earlier than necessary.
func SweepAt(now time.Time, root *cairn.Session, others ...*cairn.Session) time.Time {
	at := root.Expiry(others...).Truncate(time.Microsecond)
	if root.ID != root.RootID || at.IsZero() {
		return time.Time{}
	}
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	// The suspension, or the run that holds the tree, may end at any moment; then these times count.
	if root.TTL > 0 {
		earlier(now.Add(root.TTL))
	}
	switch {
	case root.ExpiresAt.After(now):
		earlier(root.ExpiresAt.Truncate(time.Microsecond))
	case !root.ExpiresAt.IsZero():
		earlier(now.Add(heldAgain))
	}
	return at
}
