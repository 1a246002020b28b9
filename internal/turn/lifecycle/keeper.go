package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
)

const (
	// keeperWait bounds how long a keeper may take to answer.
	keeperWait = 2 * time.Second
	// keeperRest is how long a keeper that did not answer in time is not asked again, about any run.
	keeperRest = 5 * time.Second
)

// UnreachableError reports a keeper that did not answer in time. It matches ErrUnavailable.
type UnreachableError struct {
	// Rest is how long the keeper is not asked again.
	Rest time.Duration
	// Asked is set if this caller has waited for the keeper, and not if the keeper was known to be unreachable.
	Asked bool
	err   error
}

func (e *UnreachableError) Error() string { return e.err.Error() }

// Unwrap returns the error of ErrUnavailable.
func (e *UnreachableError) Unwrap() error { return e.err }

// silence is the time until which an unreachable keeper is not asked. It is safe for concurrent use.
type silence struct {
	mu    sync.Mutex
	until time.Time
}

func (s *silence) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.until)
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(keeperRest)
}

// Keeps reports whether the run of a session was given to the keeper.
func (r *Runs) Keeps(row *cairn.Session) bool {
	return r.keeper != nil && row.Lease.Host() == r.keeper.Name()
}

// CheckKeeper returns ErrAlreadyRunning if the keeper still drives the run of an active session whose lease has lapsed.
// Like a heartbeat, that renews the lease, so no other process asks until it lapses again. A run that was asked to stop
// is not kept, because the requester would wait for the host. Nor is one that a [host.StepKeeper] drives within the step
// of its parent.
func (r *Runs) CheckKeeper(ctx context.Context, row *cairn.Session) error {
	if !r.Keeps(row) {
		return nil
	}
	if _, steps := r.keeper.(host.StepKeeper); steps && row.ParentID != "" {
		if awaited, err := r.Awaited(ctx, row); err != nil || awaited {
			return err
		}
	}
	b := turn.Begun{
		Position: turn.Position{SessionID: row.ID, Agent: row.Agent, RunID: row.RunID, Token: row.Lease.Token, Step: row.Step},
		RootID:   row.RootID, Turn: row.Turn,
	}
	if driving, err := r.askKeeper(ctx, b); err != nil || !driving {
		return err
	}
	stop, err := r.Store.Renew(ctx, row.ID, row.Lease.Token, 0)
	if err == nil && stop == nil {
		_, err = r.Store.Renew(ctx, row.ID, row.Lease.Token, r.LeaseTTL)
	}
	switch {
	case errors.Is(err, cairn.ErrFenced): // another process has just taken it over
	case err != nil || stop != nil:
		return err
	}
	return cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: host %s drives its run", row.ID, r.keeper.Name())
}

// askKeeper asks the keeper whether it drives a run, unless the keeper is known to be unreachable.
func (r *Runs) askKeeper(ctx context.Context, b turn.Begun) (bool, error) {
	name := r.keeper.Name()
	if rest := r.silence.rest(); rest > 0 {
		return false, &UnreachableError{Rest: rest, err: cairn.Errorf(cairn.ErrUnavailable,
			"session %q: host %s is unreachable; retry in %s", b.SessionID, name, rest.Round(time.Millisecond))}
	}
	asked, cancel := context.WithTimeout(ctx, keeperWait)
	defer cancel()
	driving, err := r.keeper.Driving(asked, b)
	if err == nil {
		return driving, nil
	}
	err = cairn.Errorf(cairn.ErrUnavailable, "session %q: cannot ask host %s whether it drives run %s: %w", b.SessionID, name, b.RunID, err)
	if ctx.Err() != nil || asked.Err() == nil {
		return false, err
	}
	r.silence.begin()
	return false, &UnreachableError{Rest: keeperRest, Asked: true, err: err}
}
