package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// EraseReport is the result of [Engine.EraseUser]. A session counts as one together with its sub-agents' and
// companions' sessions.
type EraseReport struct {
	// Erased counts the sessions that are gone completely. Stopped counts the erased sessions whose run had to be
	// stopped first.
	Erased  int `json:"erased"`
	Stopped int `json:"stopped"`
	// Records counts the user's records that were removed, see [store.UserRecords].
	Records int `json:"records"`
	// Memory reports that the user had a memory, which is gone, see [store.MemoryProvider].
	Memory bool `json:"memory,omitempty"`
	// Remains describes why erased data can still be read in the bytes of the store's files, and where; empty if it
	// cannot, or the store is not a [driver.Scrubber]. The next EraseUser or Sweep overwrites it.
	Remains string `json:"remains,omitempty"`
	// Failed counts the sessions that are not gone completely. Errors holds the reasons of the first hundred.
	Failed int          `json:"failed"`
	Errors []SweepError `json:"errors,omitempty"`
}

// EraseUser erases every session of one person, as [Engine.Erase] does: live sessions, whose runs it aborts first, and
// sessions that were deleted or have expired and are not purged yet. The user of a tenant is named by the id that
// [cairn.InTenant] returns. Each session is erased with everything that it owns, the sessions of its sub-agents and
// companions, and its event log. Then it removes the user's records from the store: connected accounts, and answers to
// the user's requests. The user's memory goes last. The usage of the sessions is kept as sums without the ids of user,
// sessions and runs. At the end it overwrites all that in the files of a
// [driver.Scrubber], such as SQLite. Erasure is complete when the store lists no session of that user.
//
// It reads a page of sessions at a time and keeps no progress: if it is interrupted, call it again, and it continues
// with the remaining sessions. A session that cannot be erased is an entry of the report and stops nothing. The error
// says that user is empty, that ctx is done, or that the store could not list its sessions; the report is valid up to
// there. It may miss sessions that the user begins concurrently: refuse those first.
//
// Each function of progress is called with the report so far, once for every session, by the calling goroutine.
func (e *Engine) EraseUser(ctx context.Context, user string, progress ...func(EraseReport)) (EraseReport, error) {
	var r EraseReport
	if user == "" {
		return r, cairn.Invalid("user", "is empty")
	}
	if problem := ids.CheckTenancy(user); problem != "" {
		return r, cairn.Invalid("user", "%q %s", user, problem)
	}
	for _, q := range []store.SessionQuery{
		{UserID: user, RootsOnly: true},
		{UserID: user, RootsOnly: true, Removed: []store.Removal{store.Deleted, store.Expired}},
	} {
		for s, err := range e.reader.sessions(ctx, q) {
			if err != nil {
				return r, err
			}
			stopped, err := e.removeStopped(ctx, s.ID, "the user was erased", e.erase)
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
			for _, show := range progress {
				show(r)
			}
		}
	}
	err := e.upkeep.forgetUsage(ctx, driver.Forget{UserID: user})
	if err == nil {
		err = e.eraseRecords(ctx, user, &r)
	}
	if err == nil {
		r.Memory, err = e.eraseMemory(ctx, user)
	}
	if ctx.Err() == nil {
		if remains := e.upkeep.forget(ctx); remains != nil {
			r.Remains = remains.Error()
		}
	}
	return r, err
}

// eraseMemory removes the user's memories. Those of sessions go with their sessions.
func (e *Engine) eraseMemory(ctx context.Context, user string) (found bool, err error) {
	p, ok := driver.As[store.MemoryProvider](e.store)
	scope := driver.UserMemories(user)
	if !ok || scope.Check() != nil { // a name that no scope can have
		return false, nil
	}
	return p.Memories().Drop(ctx, scope)
}

func (e *Engine) eraseRecords(ctx context.Context, user string, r *EraseReport) error {
	if e.records == nil {
		return nil
	}
	for rec, err := range driver.RecordsOf(ctx, e.records, user) {
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

// removeStopped calls remove, which removes a session's tree. If a run holds one of its sessions, removeStopped first
// empties the queue and aborts the run, for at most two lease times. It reports whether it had to.
func (e *Engine) removeStopped(ctx context.Context, id, reason string, remove func(context.Context, string) error) (stopped bool, err error) {
	if err = remove(ctx, id); !errors.Is(err, cairn.ErrAlreadyRunning) {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, 2*e.opts.LeaseTTL)
	defer cancel()
	for wait := 5 * time.Millisecond; bounded.Err() == nil; wait = min(2*wait, 250*time.Millisecond) {
		if failed := e.stopTree(bounded, id, driver.Seen(err), reason); failed != nil && bounded.Err() == nil {
			return false, failed
		}
		if err = remove(ctx, id); !errors.Is(err, cairn.ErrAlreadyRunning) {
			return true, err
		}
		select {
		case <-time.After(wait):
		case <-bounded.Done():
		}
	}
	return true, cmp.Or(ctx.Err(), err)
}

// stopTree empties the queue of a root, so that no queued turn follows, and aborts its run. If the root has none it
// aborts that of running, a session of the tree; nil is none.
func (e *Engine) stopTree(ctx context.Context, root string, running *cairn.Session, reason string) error {
	queue, err := e.Queue(ctx, root)
	for _, t := range queue {
		if err := e.Dequeue(ctx, root, t.ID); err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
	}
	if err == nil {
		err = e.Abort(ctx, root, reason)
	}
	if isConflict(err) && running != nil && running.ID != root {
		err = e.Abort(ctx, running.ID, reason)
	}
	if isConflict(err) || errors.Is(err, cairn.ErrNotFound) { // it has ended, or is gone
		return nil
	}
	return err
}
