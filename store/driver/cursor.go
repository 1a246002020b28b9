package driver

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Cursor is a place in the list of sessions, which is ordered newest first, by creation and id.
type Cursor struct {
	// CreatedAt and ID are the last listed session's; ID is empty at the beginning.
	CreatedAt time.Time
	ID        string
}

// SessionCursor returns the cursor after a session, for Page.Next.
func SessionCursor(s *cairn.Session) string {
	return SweepCursor(s.CreatedAt, s.ID)
}

// ParseSessionCursor reads a cursor that SessionCursor made; an empty one is the beginning. Anything else is
// ErrInvalid.
func ParseSessionCursor(text string) (Cursor, error) {
	at, id, err := ParseSweepCursor(text)
	return Cursor{CreatedAt: at, ID: id}, err
}

// Before reports whether the cursor is before a session, so that the session is on a later page.
func (c Cursor) Before(s *cairn.Session) bool {
	if c.ID == "" {
		return true
	}
	if t := s.CreatedAt.Truncate(time.Microsecond); !t.Equal(c.CreatedAt) {
		return t.Before(c.CreatedAt)
	}
	return s.ID < c.ID
}

// SweepCursor returns the cursor after an item of Store.Stale, Store.Removed or LogSweeper.Unswept, for Page.Next. It
// is made of the item's time and of its session id, removal key or log name.
func SweepCursor(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 36) + "." + id
}

// ParseSweepCursor reads a cursor that SweepCursor made; an empty one is the beginning, which has no id. Anything else
// is ErrInvalid.
func ParseSweepCursor(text string) (at time.Time, id string, err error) {
	if text == "" {
		return time.Time{}, "", nil
	}
	stamp, id, ok := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(stamp, 36, 64)
	if !ok || err != nil || id == "" {
		return time.Time{}, "", cairn.Invalid("cursor", "%q does not belong to this list", text)
	}
	return time.UnixMicro(micros).UTC(), id, nil
}

// NumberCursor reads a cursor that is a whole number from 0 on; an empty one is 0. Anything else is ErrInvalid.
func NumberCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, cairn.Invalid("cursor", "%q does not belong to this list", text)
	}
	return n, nil
}

// DueCursor returns the cursor after a due session, for Page.Next.
func DueCursor(d *Due) string { return SweepCursor(d.Since, d.SessionID) }

// ParseDueCursor reads a cursor that DueCursor made and returns the last listed session; an empty one is the beginning,
// which has no session. Anything else is ErrInvalid.
func ParseDueCursor(text string) (since time.Time, id string, err error) {
	return ParseSweepCursor(text)
}

// DuePage makes the first page of due sessions from lists that together hold all of its items.
func DuePage(list []Due, limit int) (page Page[Due]) {
	slices.SortFunc(list, CompareDue)
	if n := PageSize(limit); len(list) >= n {
		list = list[:n]
		page.Next = DueCursor(&list[n-1])
	}
	page.Items = list
	return page
}

// CompareDue orders due sessions, longest due first.
func CompareDue(a, b Due) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.SessionID, b.SessionID))
}

// CallCursor returns the cursor after a pending call, for Page.Next.
func CallCursor(c *cairn.PendingCall) string {
	return strings.Join([]string{strconv.FormatInt(c.CreatedAt.UnixMicro(), 36), strconv.Itoa(len(c.RootID)), c.RootID + c.ID}, ".")
}

// ParseCallCursor reads a cursor that CallCursor made and returns the creation time, root and id of the last listed
// call; an empty one is the beginning, which has no root. Anything else is ErrInvalid.
func ParseCallCursor(text string) (createdAt time.Time, root, id string, err error) {
	if text == "" {
		return time.Time{}, "", "", nil
	}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) == 3 {
		micros, err1 := strconv.ParseInt(parts[0], 36, 64)
		n, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && n > 0 && n < len(parts[2]) {
			return time.UnixMicro(micros).UTC(), parts[2][:n], parts[2][n:], nil
		}
	}
	return time.Time{}, "", "", cairn.Invalid("cursor", "%q does not belong to this list", text)
}

// CompareCalls orders pending calls in the order of Store.Calls.
func CompareCalls(a, b *cairn.PendingCall) int {
	return cmp.Or(a.CreatedAt.Truncate(time.Microsecond).Compare(b.CreatedAt.Truncate(time.Microsecond)),
		strings.Compare(a.RootID, b.RootID), strings.Compare(a.ID, b.ID))
}
