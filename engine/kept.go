package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store"
)

// keeper returns the engine's host if it is the one that was given the run of a session; else nil.
func (e *Engine) keeper(row *cairn.Session) Keeper {
	if k, ok := e.opts.Host.(Keeper); ok && row.Lease.Host() == k.Name() {
		return k
	}
	return nil
}

// kept returns ErrAlreadyRunning if the host still drives the run of an active session whose lease ran out. Its word is a sign
// of life as good as a heartbeat, so the lease is renewed: no other process asks as long as that is good. A run that is to stop
// is not kept: whoever asked for that would wait for the host.
func (e *Engine) kept(ctx context.Context, row *cairn.Session) error {
	k := e.keeper(row)
	if k == nil {
		return nil
	}
	b := Begun{
		Position: Position{SessionID: row.ID, Agent: row.Agent, RunID: row.RunID, Token: row.Lease.Token, Step: row.Step},
		RootID:   row.RootID, Turn: row.Turn,
	}
	switch driving, err := k.Driving(ctx, b); {
	case err != nil:
		return cairn.Errorf(cairn.CodeUnavailable, "session %q: host %s does not say whether it drives run %s: %w", row.ID, k.Name(), row.RunID, err)
	case !driving:
		return nil
	}
	stop, err := e.store.Renew(ctx, row.ID, row.Lease.Token, 0)
	if err == nil && stop == nil {
		_, err = e.store.Renew(ctx, row.ID, row.Lease.Token, e.opts.LeaseTTL)
	}
	switch {
	case errors.Is(err, cairn.ErrFenced): // somebody has taken it over just now
	case err != nil || stop != nil:
		return err
	}
	return cairn.Errorf(cairn.CodeRunning, "session %q: host %s drives its run", row.ID, k.Name())
}

// ReleaseRun lets go of a run that a host can drive no longer, so that a worker takes it over at once, and not only when the lease
// has run out. It is no error if somebody else has the run by now.
func (e *Engine) ReleaseRun(ctx context.Context, at Position) error {
	e.fx.Forget(at)
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
func (e *Engine) Hold(ctx context.Context, at Position, do func(context.Context) error) error {
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
	beat := e.startHeartbeat(ctx, cancel, turn.Begun{Position: at}, asked.Add(e.opts.LeaseTTL))
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
	if row.Status != cairn.SessionActive || host == "" || e.keeper(row) != nil {
		return nil
	}
	if rest := e.opts.HostGrace - row.AsOf.Sub(row.Lease.Until); rest > 0 {
		return &heldError{cairn.Errorf(cairn.CodeRunning, "session %q: its run is left to host %s", id, host), rest}
	}
	return nil
}
