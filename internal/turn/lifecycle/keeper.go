package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Keeper is a host that itself detects the death of a process, and has another process execute the effects of its runs
// under the same lease.
type Keeper interface {
	// Name is the host's, as the leases of its runs have it.
	Name() string
	// Driving reports whether the host drives a run, under the lease that b names, so that no other process need take
	// it over.
	Driving(ctx context.Context, b turn.Begun) (bool, error)
}

// Keeps reports whether the run of a session was given to the keeper.
func (r *Runs) Keeps(row *cairn.Session) bool {
	return r.Keeper != nil && row.Lease.Host() == r.Keeper.Name()
}

// CheckKeeper returns ErrAlreadyRunning if the keeper still drives the run of an active session whose lease has lapsed.
// Like a heartbeat, that renews the lease, so no other process asks until it lapses again. A run that was asked to stop
// is not kept, because the requester would wait for the host.
func (r *Runs) CheckKeeper(ctx context.Context, row *cairn.Session) error {
	if !r.Keeps(row) {
		return nil
	}
	name := r.Keeper.Name()
	b := turn.Begun{
		Position: turn.Position{SessionID: row.ID, Agent: row.Agent, RunID: row.RunID, Token: row.Lease.Token, Step: row.Step},
		RootID:   row.RootID, Turn: row.Turn,
	}
	switch driving, err := r.Keeper.Driving(ctx, b); {
	case err != nil:
		return cairn.Errorf(cairn.CodeUnavailable, "session %q: host %s does not say whether it drives run %s: %w", row.ID, name, row.RunID, err)
	case !driving:
		return nil
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
	return cairn.Errorf(cairn.CodeRunning, "session %q: host %s drives its run", row.ID, name)
}
