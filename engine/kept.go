package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// releaseRun implements host.Engine.
func (e *Engine) releaseRun(ctx context.Context, at host.Position) error {
	e.runs.Forget(at)
	_, err := e.store.Commit(ctx, at.SessionID, &driver.Commit{
		Guard: driver.Guard{Token: at.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	if errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	return err
}

// hold implements host.Engine.
func (e *Engine) hold(ctx context.Context, at host.Position, do func(context.Context) error) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return errClosed()
	}
	e.background.Add(1)
	e.mu.Unlock()
	defer e.background.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })()
	asked := time.Now()
	if _, err := e.store.Renew(ctx, at.SessionID, at.Token, e.opts.LeaseTTL); err != nil {
		cancel(nil)
		return err
	}
	beat := e.beats.start(ctx, cancel, at, asked, e.opts.LeaseTTL)
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	beat.stop()
	return err
}

// heldError says that a run is to be left alone for the time rest.
type heldError struct {
	error
	rest time.Duration
}

func (e *heldError) Unwrap() error { return e.error }

// leftAlone returns an error while a worker leaves a crashed session alone: for the time of a lease if its lease is
// from the time before the store's clock was set back, and while the run is left to its host, if this process does not
// have that host.
func (e *Engine) leftAlone(ctx context.Context, id string) error {
	row, err := driver.Load(ctx, e.store, id)
	if err != nil {
		return err
	}
	if err := e.shorten(ctx, row); err != nil {
		return err
	}
	host := row.Lease.Host()
	if row.Status != cairn.SessionActive || host == "" || e.runs.Keeps(row) {
		return nil
	}
	if rest := e.opts.HostGrace - row.AsOf.Sub(row.Lease.Until); rest > 0 {
		return &heldError{cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: host %s drives its run", id, host), rest}
	}
	return nil
}

// shorten makes a lease that is [cairn.Lease.Ahead] end after its TTL, unless its holder renews it: after the store's
// clock was set back, all leases are ahead until the next heartbeat of their holders, and most of those are alive. The
// error is then ErrAlreadyRunning.
func (e *Engine) shorten(ctx context.Context, row *cairn.Session) error {
	if row.Status != cairn.SessionActive || row.Lease.Owner == "" || !row.Lease.Ahead(row.AsOf) {
		return nil
	}
	if _, err := e.store.Renew(ctx, row.ID, row.Lease.Token, time.Duration(row.Lease.TTL)); err != nil {
		return err
	}
	e.opts.Logger.Warn("lease shortened: the store's clock was set back", "session", row.ID, "run", row.RunID,
		"by", row.Lease.Until.Sub(row.AsOf)-time.Duration(row.Lease.TTL))
	return driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q: its lease was taken before the store's clock was set back", row.ID)
}

// askHost asks the host about the crashed runs of a page, and returns the sessions whose runs it keeps or cannot answer
// for. It asks about all at once, since a slow host must not delay everything else that is due; a single run is left to
// the takeover, which asks as well.
func (e *Engine) askHost(ctx context.Context, page []store.Due, w *worker) (kept map[string]bool) {
	if _, ok := e.opts.Host.(host.Keeper); !ok {
		return nil
	}
	var ids []string
	for _, d := range page {
		if d.Kind == store.DueCrashed && d.RootID == d.SessionID && !w.leaves(d.SessionID) {
			ids = append(ids, d.SessionID)
		}
	}
	if len(ids) < 2 {
		return nil
	}
	errs := make([]error, len(ids))
	var asking sync.WaitGroup
	for i, id := range ids {
		asking.Go(func() {
			row, err := driver.Load(ctx, e.store, id)
			if err == nil && row.Status == cairn.SessionActive && row.Crashed(row.AsOf) {
				errs[i] = e.runs.CheckKeeper(ctx, row)
			}
		})
	}
	asking.Wait()
	kept = map[string]bool{}
	away := false
	for i, err := range errs {
		if err == nil {
			continue
		}
		kept[ids[i]] = true
		w.leave(ids[i], err)
		var silent *lifecycle.UnreachableError
		if errors.As(err, &silent) && silent.Asked && !away {
			away = true
			e.opts.Logger.Warn("host does not respond; its runs are not taken over", "runs", len(ids), "error", err)
		}
	}
	return kept
}
