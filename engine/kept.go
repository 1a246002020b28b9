package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/store"
)

// ReleaseRun releases a run that a host can drive no longer, so that a worker takes it over at once, and not only when
// the lease has run out. It is no error if another process has the run by now.
func (e *Engine) ReleaseRun(ctx context.Context, at host.Position) error {
	e.runs.Forget(at)
	_, err := e.store.Commit(ctx, at.SessionID, &store.Commit{
		Guard: store.Guard{Token: at.Token}, Lease: store.LeaseChange{Action: store.LeaseRelease}})
	if errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	return err
}

// Hold renews a run's lease while do lasts: a host calls it around what it does for the run between two effects, such as to
// wait for a sub-agent's. The context that do is given ends if the lease is lost or cannot be renewed; the error is ErrFenced
// or ErrUnavailable then, as that of Effect. It ends as well when the engine is closed, with ErrClosed: Close waits for effects,
// but not for what is waited for between them.
func (e *Engine) Hold(ctx context.Context, at host.Position, do func(context.Context) error) error {
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

// heldError says that a run is left alone for some time.
type heldError struct {
	error
	rest time.Duration
}

func (e *heldError) Unwrap() error { return e.error }

// stranger returns a heldError if a run whose lease has run out is still to be left to its host, which this process does not
// have.
func (e *Engine) stranger(ctx context.Context, id string) error {
	row, err := store.Load(ctx, e.store, id)
	if err != nil {
		return err
	}
	host := row.Lease.Host()
	if row.Status != cairn.SessionActive || host == "" || e.runs.Keeps(row) {
		return nil
	}
	if rest := e.opts.HostGrace - row.AsOf.Sub(row.Lease.Until); rest > 0 {
		return &heldError{cairn.Errorf(cairn.CodeRunning, "session %q: its run is left to host %s", id, host), rest}
	}
	return nil
}
