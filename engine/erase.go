package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// EraseReport says what [Engine.EraseUser] did. A session counts once together with those of its sub-agents and companions.
type EraseReport struct {
	// Erased counts the sessions of which nothing is left, Stopped those of them whose run had to be stopped first.
	Erased  int `json:"erased"`
	Stopped int `json:"stopped"`
	// Records counts what was kept of the user beside their sessions, see [store.UserRecords].
	Records int `json:"records"`
	// Failed counts the sessions of which something is left. Errors says why, for the first hundred.
	Failed int          `json:"failed"`
	Errors []SweepError `json:"errors,omitempty"`
}

// EraseUser erases every session of one person, as [Engine.Erase] does: those that are there, whose runs are aborted first, and
// those that were deleted or have expired and are not purged yet; with everything that they own, the sessions of their
// sub-agents and companions, and their event logs. Then it removes what the store's records have of the user: accounts that
// they have connected, and answers to their requests. It is done when the store lists none of that user any more.
//
// It reads a page of sessions at a time and keeps nothing: if it is interrupted, call it again, and it continues with what
// is left. One session that cannot be erased is an entry of the report and stops nothing. The error says that user is empty,
// that ctx is done, or that the store could not say what there is; the report is good up to there. Sessions that the user begins
// meanwhile may be missed: refuse that first.
func (e *Engine) EraseUser(ctx context.Context, user string) (EraseReport, error) {
	var r EraseReport
	if user == "" {
		return r, cairn.Invalid("user", "is empty")
	}
	for _, q := range []store.SessionQuery{
		{UserID: user, RootsOnly: true},
		{UserID: user, RootsOnly: true, Removed: []store.Removal{store.Deleted, store.Expired}},
	} {
		for s, err := range e.reader.sessions(ctx, q) {
			if err != nil {
				return r, err
			}
			stopped, err := e.eraseStopped(ctx, s.ID)
			switch {
			case ctx.Err() != nil:
				return r, ctx.Err()
			case errors.Is(err, cairn.ErrNotFound): // another process was faster
			case err != nil:
				if r.Failed++; len(r.Errors) < maxSweepErrors {
					r.Errors = append(r.Errors, SweepError{SessionID: s.ID, Error: cairn.AsError(err)})
				}
			default:
				if r.Erased++; stopped {
					r.Stopped++
				}
			}
		}
	}
	return r, e.eraseRecords(ctx, user, &r)
}

func (e *Engine) eraseRecords(ctx context.Context, user string, r *EraseReport) error {
	if e.records == nil {
		return nil
	}
	for rec, err := range store.RecordsOf(ctx, e.records, user) {
		if err == nil {
			err = e.records.Delete(ctx, store.UserRecords, rec.Key, store.AnyVersion)
		}
		switch {
		case err == nil:
			r.Records++
		case !errors.Is(err, cairn.ErrNotFound): // else another process was faster
			return err
		}
	}
	return nil
}

// eraseStopped erases a session. Runs that hold it or one of its tree are aborted, and given the time of a lease to end.
func (e *Engine) eraseStopped(ctx context.Context, id string) (stopped bool, err error) {
	if err = e.Erase(ctx, id); !errors.Is(err, cairn.ErrAlreadyRunning) {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, 2*e.opts.LeaseTTL)
	defer cancel()
	for wait := 5 * time.Millisecond; bounded.Err() == nil; wait = min(2*wait, 250*time.Millisecond) {
		if row := store.Seen(err); row != nil { // the session of the tree that is running
			if err := e.Abort(bounded, row.ID, "the user is erased"); err != nil && !isConflict(err) && bounded.Err() == nil {
				return false, err
			}
		}
		if err = e.Erase(ctx, id); !errors.Is(err, cairn.ErrAlreadyRunning) {
			return true, err
		}
		select {
		case <-time.After(wait):
		case <-bounded.Done():
		}
	}
	return true, err
}
