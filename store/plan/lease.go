package plan

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Fenced returns the conflict of a holder's token with the session's row, or nil. A holder always has a token, so 0 is
// never current.
func Fenced(row *cairn.Session, token int64) error {
	if token != 0 && token == row.Lease.Token {
		return nil
	}
	return Lost(row, token)
}

// Released returns the conflict that [Fenced] returns, and also a conflict if the lease was released.
func Released(row *cairn.Session, token int64) error {
	if row.Lease.Owner == "" {
		return Lost(row, token)
	}
	return Fenced(row, token)
}

// Ended returns the conflict that [Fenced] returns, and also a conflict if the holder's run has ended.
func Ended(row *cairn.Session, token int64) error {
	if row.Status != cairn.SessionActive {
		return Lost(row, token)
	}
	return Fenced(row, token)
}

// Lost returns the conflict of a token that no longer holds the session.
func Lost(row *cairn.Session, token int64) error {
	if token != 0 && token == row.Lease.Token {
		return driver.Conflict(cairn.ErrFenced, row, "session %q: the lease was released: fencing token %d, the session is %s", row.ID, token, row.Status)
	}
	return driver.Guard{Token: token}.Lost(row)
}

// Stopped returns the outstanding stop request once stop has been requested: stop itself, whose time the store sets, or
// the earlier request standing, which is not written again. standing is nil if there is none. The error is the conflict
// of a run that does not hold the session.
func Stopped(row *cairn.Session, standing *cairn.Stop, stop cairn.Stop) (stands cairn.Stop, write bool, err error) {
	if row.Status != cairn.SessionActive || row.RunID != stop.RunID {
		return stop, false, driver.Conflict(cairn.ErrNotRunning, row, "session %q: run %q is not running", row.ID, stop.RunID)
	}
	if standing != nil && standing.RunID == stop.RunID && (standing.Kind == cairn.StopAbort || stop.Kind != cairn.StopAbort) {
		return *standing, false, nil
	}
	return stop, true, nil
}
