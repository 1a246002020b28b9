package driver

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
	// Deleted means that a caller asked for the removal.
	Deleted Removal = "deleted"
	// Expired means that the tree has expired, which the store checks.
	Expired Removal = "expired"
)

// Removed is a session tree that was removed and is not purged yet.
type Removed struct {
	// Key names the removal. It is never used twice, unlike SessionID, which is the root's id.
	Key       string    `json:"key"`
	SessionID string    `json:"session_id"`
	Reason    Removal   `json:"reason"`
	RemovedAt time.Time `json:"removed_at"`
	// Incarnation is the tree's, and is part of the name of its event log.
	Incarnation string `json:"incarnation,omitempty"`
}

// Log returns the name of the tree's event log.
func (r *Removed) Log() string { return ids.Log(r.SessionID, r.Incarnation) }

// GoneError reports that a session belongs to a tree that was removed and is not purged yet.
type GoneError struct {
	Err *cairn.Error
	// Removed is the removal of the session's tree.
	Removed Removed
}

// Error returns the message.
func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (e *GoneError) Unwrap() error { return e.Err }

// Gone returns the error for a session of a removed tree: ErrExpired or ErrDeleted. Both match ErrNotFound.
func Gone(id string, r Removed) error {
	err := &cairn.Error{Code: cairn.ErrDeleted, Field: "session", Message: "session " + strconv.Quote(id) + " was deleted"}
	if r.Reason == Expired {
		err.Code, err.Message = cairn.ErrExpired, "session "+strconv.Quote(id)+" has expired"
	}
	return &GoneError{Err: err, Removed: r}
}

// IsGone reports whether an error means that a session has expired or was deleted.
func IsGone(err error) bool {
	return errors.Is(err, cairn.ErrExpired) || errors.Is(err, cairn.ErrDeleted)
}

// Revive updates the row of a root that is restored at the store's time now. Its version grows, as with any activity,
// and an ExpiresAt that has passed is cleared so that the root does not expire at once.
func Revive(root *cairn.Session, now time.Time) {
	root.Version = NextVersion(root.Version)
	root.UpdatedAt, root.AsOf = now, now
	if !root.ExpiresAt.After(now) {
		root.ExpiresAt = time.Time{}
	}
}

// CheckRemoval returns an ErrInvalid error for an unknown reason.
func CheckRemoval(why Removal) error {
	if why != Deleted && why != Expired {
		return cairn.Invalid("reason", "must be deleted or expired, not %q", why)
	}
	return nil
}

// RemovalConflict returns why a tree, given with its root first, must not be removed at the store's time now, or nil.
func RemovalConflict(tree []*cairn.Session, why Removal, now time.Time) error {
	root := tree[0]
	if why == Expired {
		if expiry := root.Expiry(tree[1:]...); expiry.IsZero() || now.Before(expiry) {
			return Conflict(cairn.ErrStale, root, "session %q has not expired", root.ID)
		}
	}
	for _, s := range tree {
		if s.Running(now) {
			return Conflict(cairn.ErrAlreadyRunning, s, "session %q is running", s.ID)
		}
	}
	return nil
}

// NotRoot returns the error for a removal that names a session that is not a root.
func NotRoot(s *cairn.Session) error {
	return cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", s.ID, s.RootID)
}

// NotRemoved returns the error for a key that names no removed tree.
func NotRemoved(key string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "key", Message: "removed session with key " + strconv.Quote(key) + " not found"}
}

// heldAgain is the delay until the next check of a tree whose ExpiresAt has passed, but which is running or suspended.
const heldAgain = time.Minute

// SweepAt returns the time from which Store.Stale lists a root, computed at the store's time now. It is zero for never,
// as for a session that is not a root. Later activity cannot make the tree expire before that time, so the time need
// not be rewritten until it has come, unless the session's context changes. If the other sessions of the tree are not
// given, the time may be earlier than necessary.
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
	// The tree's suspension or run may end at any moment, and from then on these times apply.
	if root.TTL > 0 {
		earlier(now.Add(time.Duration(root.TTL)))
	}
	switch {
	case root.ExpiresAt.After(now):
		earlier(root.ExpiresAt.Truncate(time.Microsecond))
	case !root.ExpiresAt.IsZero():
		earlier(now.Add(heldAgain))
	}
	return at
}
