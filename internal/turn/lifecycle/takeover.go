package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// Recover takes over a run whose process died, at its last committed step and what was staged of the next one. If the
// run was taken over [Config.MaxRecoveries] times without committing a step, Recover fails it, and Begun has no RunID.
// The hooks are called like those of [NewRun]; nil means none.
func (r *Runs) Recover(ctx context.Context, id string, hooks *cairn.Hooks) (turn.Begun, error) {
	l, err := r.takeOver(ctx, id, hooks)
	return r.part(ctx, l, err)
}

// Succeed takes a run over from a process that drives it under the lease of a position for a host, and that may be
// alive, as Recover does without asking the host. The error is ErrFenced if that lease does not hold the session any
// more, and ErrAlreadyRunning if that process has just renewed it.
func (r *Runs) Succeed(ctx context.Context, at turn.Position) (turn.Begun, error) {
	if _, err := r.Store.Renew(ctx, at.SessionID, at.Token, 0); err != nil {
		return turn.Begun{}, err
	}
	row, err := driver.Load(ctx, r.Store, at.SessionID)
	if err == nil {
		err = driver.Guard{Token: at.Token}.CheckToken(row)
	}
	if err != nil {
		return turn.Begun{}, err
	}
	a, err := r.agentOfRun(ctx, row)
	if err != nil {
		return turn.Begun{}, err
	}
	l, err := r.inherit(ctx, row, a, nil)
	return r.part(ctx, l, err)
}

// StopDead stops the run of a process that died. If its step under way has facts that last, the run is taken over: it
// must be driven, and ends as the recorded stop says with what its tools did. Otherwise StopDead ends it, and Begun has
// no RunID.
func (r *Runs) StopDead(ctx context.Context, row *cairn.Session, stop cairn.Stop, hooks *cairn.Hooks) (turn.Begun, error) {
	keeps, err := r.keepsStep(ctx, row)
	if err != nil {
		return turn.Begun{}, err
	}
	if keeps {
		if err := r.Store.RequestStop(ctx, row.ID, stop); err != nil {
			return turn.Begun{}, err
		}
		b, err := r.Recover(ctx, row.ID, hooks)
		if !errors.Is(err, cairn.ErrAlreadyRunning) { // otherwise its host may be away for long
			return b, err
		}
	}
	return turn.Begun{}, r.EndDead(ctx, row, stop)
}

// takeOver returns nothing if it has failed the run.
func (r *Runs) takeOver(ctx context.Context, id string, hooks *cairn.Hooks) (*session.Live, error) {
	row, err := driver.Load(ctx, r.Store, id)
	if err != nil {
		return nil, err
	}
	a, err := r.agentOfRun(ctx, row)
	if err != nil {
		return nil, err
	}
	if row.Status == cairn.SessionActive {
		if err := r.CheckKeeper(ctx, row); err != nil {
			return nil, err
		}
	}
	return r.inherit(ctx, row, a, hooks)
}

// inherit takes the lapsed lease of a session, or fails its run.
func (r *Runs) inherit(ctx context.Context, row *cairn.Session, a *cairn.Agent, hooks *cairn.Hooks) (*session.Live, error) {
	if row.Recoveries >= r.MaxRecoveries {
		cause := cairn.Errorf(cairn.ErrCrashLoop, "the run was taken over %d times without committing a step", row.Recoveries)
		return nil, r.endDead(ctx, row, cairn.Run{Status: cairn.RunFailed, Reason: cairn.ReasonError, Error: cause})
	}
	taken, err := r.takeLease(ctx, row)
	if err != nil {
		return nil, err
	}
	defer r.Cache.Expect(row.ID, taken.RunID)() // a stop request may come before this process has the run in memory
	l, err := r.assume(ctx, taken, a, hooks)
	if err != nil && ctx.Err() != nil {
		r.releaseUnused(ctx, taken)
	}
	return l, err
}

// takeLease takes the lease of a dead process, and discards what it has published since its last commit: nothing that it
// may still append follows. Like a beginning it does not end with ctx once it is under way.
func (r *Runs) takeLease(ctx context.Context, row *cairn.Session) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	return r.Write(ctx, row.ID, row, &driver.Commit{
		Guard:     driver.Guard{Lapsed: true, Version: row.Version},
		Recovered: true,
		Lease:     driver.LeaseChange{Action: driver.LeaseTake, Owner: r.Owner, TTL: r.LeaseTTL},
		Events:    r.Marks(row, row.RunID, discarded(row)),
	})
}

// releaseUnused releases a lease under which nothing was done because ctx ended. Other processes then need not wait
// until it lapses.
func (r *Runs) releaseUnused(ctx context.Context, taken *cairn.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	_, err := r.Store.Commit(ctx, taken.ID, &driver.Commit{
		Guard: driver.Guard{Token: taken.Lease.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	if err != nil {
		r.Logger.Warn("lease not released; it will lapse", "session", taken.ID, "error", err)
	}
}

// assume reads what a dead process left, after its lease was taken.
func (r *Runs) assume(ctx context.Context, taken *cairn.Session, a *cairn.Agent, hooks *cairn.Hooks) (*session.Live, error) {
	id := taken.ID
	// Read after the lease was taken: the old process may be alive, and could stage facts until then.
	want := driver.ToDrive(0)
	want.Run = taken.RunID
	snap, err := r.Store.Read(ctx, id, want)
	if err != nil {
		return nil, err
	}
	if snap.Session.Lease.Token != taken.Lease.Token { // this process was slow: its lease has lapsed, too
		return nil, driver.Conflict(cairn.ErrAlreadyRunning, snap.Session, "session %q was taken over by another process", id)
	}
	l, err := session.New(snap, r.Now())
	if err != nil {
		return nil, err
	}
	row := l.Row
	r.SetAgent(l, a, hooks)
	l.Run = snap.Run
	if err := l.Restore(snap.Staged); err != nil {
		return nil, err
	}
	if l.Run.Kind != cairn.RunResume { // the dead process may not have reaped them
		if err := r.ReapChildren(ctx, row, l.Run.StartedAt); err != nil {
			return nil, err
		}
	}
	if err := r.catchUp(ctx, l); err != nil {
		return nil, err
	}
	l.Drives(r.Journal.Emitter(ctx, l.Row, l.Run.ID, l.Row.LogSequence), nil, l.Now(r.Now()))
	l.SetRun(l.Run.ID)
	r.Cache.Drive(l)
	if snap.Stop != nil {
		l.RequestStop(*snap.Stop)
	}
	if l.Step.Planned() {
		journal.Step(l.Emit.Event, l.Step)
	}
	return l, nil
}
