package lifecycle

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store"
)

// Recover takes over a run whose process died and returns where it stands: its last committed step, with what was
// staged of the next one. A run that was taken over too often without getting anywhere is failed instead; then Begun
// has no RunID. The hooks are called as those of [NewRun] are; nil means none.
func (r *Runs) Recover(ctx context.Context, id string, hooks *cairn.Hooks) (turn.Begun, error) {
	l, err := r.takeOver(ctx, id, hooks)
	return r.part(ctx, l, err)
}

// takeOver returns nothing if it has failed the run.
func (r *Runs) takeOver(ctx context.Context, id string, hooks *cairn.Hooks) (*session.Live, error) {
	row, err := store.Load(ctx, r.Store, id)
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
	if row.Recoveries >= r.MaxRecoveries {
		cause := cairn.Errorf(cairn.CodeCrashLoop, "the run was taken over %d times without committing a step", row.Recoveries)
		return nil, r.endDead(ctx, row, cairn.Run{Status: cairn.RunFailed, Reason: cairn.ReasonError, Error: cause})
	}
	taken, err := r.takeLease(ctx, row)
	if err != nil {
		return nil, err
	}
	defer r.Cache.Expect(id, taken.RunID)() // the run can be asked to stop before this process has it in memory
	l, err := r.assume(ctx, taken, a, hooks)
	if err != nil && ctx.Err() != nil {
		r.releaseUnused(ctx, taken)
	}
	return l, err
}

// takeLease takes the lease of a dead process. Like a beginning it does not end with ctx once it is under way.
func (r *Runs) takeLease(ctx context.Context, row *cairn.Session) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	return r.Store.Commit(ctx, row.ID, &store.Commit{
		Guard:     store.Guard{Lapsed: true, Version: row.Version},
		Recovered: true,
		Lease:     store.LeaseChange{Action: store.LeaseTake, Owner: r.Owner, TTL: r.LeaseTTL},
	})
}

// releaseUnused releases a lease under which nothing was done, since ctx ended: nobody is to have to wait until it runs
// out.
func (r *Runs) releaseUnused(ctx context.Context, taken *cairn.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	_, err := r.Store.Commit(ctx, taken.ID, &store.Commit{
		Guard: store.Guard{Token: taken.Lease.Token}, Lease: store.LeaseChange{Action: store.LeaseRelease}})
	if err != nil {
		r.Logger.Warn("lease not released; it will run out", "session", taken.ID, "error", err)
	}
}

// assume reads what a dead process left, once its lease was taken, and discards what it did not commit.
func (r *Runs) assume(ctx context.Context, taken *cairn.Session, a *cairn.Agent, hooks *cairn.Hooks) (*session.Live, error) {
	id := taken.ID
	// Only now can the dead process, should it still live, no longer stage anything.
	want := store.ToDrive(0)
	want.Run = taken.RunID
	snap, err := r.Store.Read(ctx, id, want)
	if err != nil {
		return nil, err
	}
	if snap.Session.Lease.Token != taken.Lease.Token { // so long ago that the next one has it
		return nil, store.Conflict(cairn.CodeRunning, snap.Session, "session %q was taken over by another process", id)
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
	p := pastOfLive(l)
	if row.Step == 0 {
		if err := r.completeEnds(ctx, row, row.Turn-1); err != nil {
			return nil, err
		}
	}
	last, err := r.reconcile(ctx, row, p)
	if err != nil {
		return nil, err
	}
	if l.Run.Kind != cairn.RunResume { // the dead process may not have come to it
		if err := r.ReapChildren(ctx, row, l.Run.StartedAt); err != nil {
			return nil, err
		}
	}
	l.LastCommit = l.Now(r.Now())
	l.Emit = r.Journal.Emitter(ctx, row, l.Run.ID, last)
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
