package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Cursor is a place in the list of sessions, which runs from the newest to the oldest by creation and id.
type Cursor struct {
	// CreatedAt and ID are those of the last session given; ID is empty at the beginning.
	CreatedAt time.Time
	ID        string
}

// SessionCursor returns the cursor behind a session, for Page.Next.
func SessionCursor(s *cairn.Session) string {
	return strconv.FormatInt(s.CreatedAt.UnixMicro(), 36) + "." + s.ID
}

// ParseSessionCursor reads a cursor that SessionCursor made; empty is the beginning. Anything else is ErrInvalid.
func ParseSessionCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	stamp, id, ok := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(stamp, 36, 64)
	if !ok || err != nil || id == "" {
		return Cursor{}, cairn.Invalid("cursor", "%q is not one of this list", text)
	}
	return Cursor{CreatedAt: time.UnixMicro(micros).UTC(), ID: id}, nil
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
