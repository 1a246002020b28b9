package effects

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// readyTries is how often an effect joins its run if it is not ready in time.
const readyTries = 3

// ready joins a run and prepares the effect. If that takes longer than the part of the lease that was left, as in a
// process that was suspended, the host may have given the effect to another process, which may be done: ready then
// joins again. An error comes with what it has joined, if anything.
func (fx *Effects) ready(ctx context.Context, at turn.Position, attempt journal.Attempt, prepare func(*Effects, context.Context, *session.Live) error) (*remoteEffect, error) {
	for n := 1; ; n++ {
		began := time.Now()
		g, err := fx.join(ctx, at, attempt)
		if err != nil {
			return nil, err
		}
		if g.over != nil {
			return g, nil
		}
		if err = prepare(fx, ctx, g.l); err != nil || time.Since(began) < fx.LeaseLeft() || n == readyTries {
			return g, err
		}
		g.leave()
	}
}

// limit stops the run when a call that waits for it reaches its deadline, until end is called. If the store's clock has
// reached it, each later effect sees that, too.
func (g *remoteEffect) limit(ctx context.Context, at turn.Position) (end func()) {
	stop := lifecycle.TimedOut
	stop.RunID = at.RunID
	switch {
	case at.Until.IsZero():
	case !g.l.Row.AsOf.Before(at.Until):
		g.l.RequestStop(stop)
	default:
		timer := time.AfterFunc(at.Until.Sub(g.l.Now(g.fx.Now())), func() { g.fx.timeOut(ctx, at.SessionID, at.RunID) })
		return func() { timer.Stop() }
	}
	return func() {}
}

// remoteEffect is the state of a process that executes one effect of a run.
type remoteEffect struct {
	fx      *Effects
	a       *cairn.Agent
	l       *session.Live // for this effect alone
	emit    *journal.Emitter
	session string
	seen    int64 // the session's version when the effect began
	// over is the step's outcome, if the step is no longer under way; the other fields are then unset.
	over *turn.Committed
}

// join returns what an effect works with: the session as the store has it, and what was staged under the lease.
func (fx *Effects) join(ctx context.Context, at turn.Position, attempt journal.Attempt) (*remoteEffect, error) {
	defer fx.Cache.Expect(at.SessionID, at.RunID)()
	a, err := fx.Agent(at.Agent, at.AgentVersion)
	if err != nil {
		return nil, err
	}
	l, snap, err := fx.recall(ctx, at)
	if err != nil {
		return nil, err
	}
	row := snap.Session
	if row.RunID != at.RunID || row.Status != cairn.SessionActive || row.Step >= at.Step {
		return fx.after(ctx, a, snap, at)
	}
	if err := fx.renewed(ctx, snap, at.Token); err != nil {
		return nil, err
	}
	fx.SetAgent(l, a, hooksOf(ctx))
	g := &remoteEffect{fx: fx, a: a, l: l, session: row.ID, emit: fx.Journal.Attempt(ctx, l.Row, at.RunID, l.Row.LogSequence, attempt), seen: l.Row.Version}
	l.Drives(g.emit, remote{fx}, l.Row.UpdatedAt)
	over, err := fx.rejoin(l, a, snap.Staged, at.Step)
	if over || err != nil {
		g.leave()
		return &remoteEffect{over: &turn.Committed{}}, err
	}
	l.SetRun(at.RunID)
	if snap.Stop != nil {
		l.RequestStop(*snap.Stop)
	}
	fx.Cache.Join(l)
	return g, nil
}

// rejoin makes the effect's step the step under way, and reports whether that step has ended already.
func (fx *Effects) rejoin(l *session.Live, a *cairn.Agent, staged []driver.Staged, step int) (over bool, err error) {
	if err := l.RestoreDeferred(staged); err != nil {
		return false, err
	}
	switch next := l.NextStep(); {
	case step < next:
		return true, nil
	case step > next:
		return false, behind(l.Row.ID, step)
	}
	return false, l.Restore(staged)
}

// LeaseLeft is the minimum of its lease that a run has left when an effect begins to work.
func (fx *Effects) LeaseLeft() time.Duration { return fx.LeaseTTL * 2 / 3 }

// renewed renews the run's lease unless enough of it is left, as right after a commit. It also renews a lease that
// lapsed, if no other process has taken it since. It returns ErrFenced if the host released the lease: a worker may
// claim the session, and an attempt that the host abandoned comes too late.
func (fx *Effects) renewed(ctx context.Context, snap *driver.Contents, token int64) error {
	row := snap.Session
	if err := (driver.Guard{Token: token}).CheckToken(row); err != nil {
		return err
	}
	if row.Lease.Owner == "" {
		return cairn.Errorf(cairn.ErrFenced, "session %q: its run was released", row.ID)
	}
	if row.Lease.Until.Sub(row.AsOf) >= fx.LeaseLeft() {
		return nil
	}
	stop, err := fx.Store.Renew(ctx, row.ID, token, fx.LeaseTTL)
	if err == nil && stop != nil {
		snap.Stop = stop
	}
	return err
}

// after returns the outcome of a step that is no longer under way.
func (fx *Effects) after(ctx context.Context, a *cairn.Agent, snap *driver.Contents, at turn.Position) (*remoteEffect, error) {
	row := snap.Session
	if row.RunID == at.RunID && row.Status == cairn.SessionActive {
		if err := (driver.Guard{Token: at.Token}).CheckToken(row); err != nil {
			return nil, err
		}
		return &remoteEffect{over: &turn.Committed{}}, nil
	}
	return &remoteEffect{over: &turn.Committed{Committed: host.Committed{Ended: true, Status: snap.Run.Status, Notify: user.HooksOf(fx.Hooks, a, hooksOf(ctx)).WantEnd(snap.Run)}}}, nil
}

// drivenAt reports whether the run of a position drives the session under the position's lease.
func drivenAt(row *cairn.Session, at turn.Position) bool {
	return row.RunID == at.RunID && row.Status == cairn.SessionActive && row.Lease.Token == at.Token
}

// recall returns the session of an effect if its run still drives it, and what a read of the store found: the row with
// everything staged, and the run unless that is in memory. It uses the session in memory if the store has nothing
// newer.
func (fx *Effects) recall(ctx context.Context, at turn.Position) (*session.Live, *driver.Contents, error) {
	known := fx.Cache.Peek(at.SessionID)
	if known != nil && known.Row.Lease.Token == at.Token && known.Run != nil && known.Run.ID == at.RunID {
		snap, err := fx.Store.Read(ctx, at.SessionID, driver.Want{Staged: true})
		if err != nil {
			return nil, nil, err
		}
		if row := snap.Session; row.Version == known.Row.Version && drivenAt(row, at) {
			known.Sees(row, fx.Now())
			return known, snap, nil
		}
	}
	l, snap, err := fx.Refresh(ctx, at.SessionID, at.RunID, known)
	if err != nil || !drivenAt(snap.Session, at) {
		return nil, snap, err
	}
	l.Run = snap.Run
	base, err := l.Fork()
	if err != nil {
		return nil, nil, err
	}
	fx.Cache.Keep(base)
	return l, snap, nil
}

// remoteChild advances a call. If the call's run was asked to stop before the child's run began, it passes the stop on.
func (fx *Effects) remoteChild(ctx context.Context, l *session.Live, a *cairn.Agent, in turn.ChildIn, _ *cairn.Error) (turn.ChildOut, error) {
	out, err := fx.child(ctx, l, a, in, nil)
	if err != nil || out.Drive == nil {
		return out, err
	}
	stop, err := fx.Store.Renew(ctx, l.Row.ID, l.Row.Lease.Token, fx.LeaseTTL)
	if err != nil {
		return turn.ChildOut{}, err
	}
	if stop != nil {
		l.RequestStop(*stop)
	}
	work, key := l.Work(ctx)
	defer l.Release(key)
	fx.passStop(ctx, work, out.Drive.SessionID, out.Drive.RunID)
	return out, nil
}

// lateChild ends a child that was driven for a step that is over.
func (fx *Effects) lateChild(ctx context.Context, in turn.ChildIn, _ turn.Committed) (out turn.ChildOut, err error) {
	if in.Driven != "" {
		err = fx.orphan(ctx, in.ToolIn)
	}
	return out, err
}

// keep caches the session as the effect left it, if it committed a step and the run continues.
func (g *remoteEffect) keep(out any) {
	if end, ok := out.(turn.Committed); !ok || end.Ended || g.l.Row.Version == g.seen {
		return
	}
	if base, err := g.l.Fork(); err == nil { // on failure the next effect loads it
		g.fx.Cache.Keep(base)
	}
}

func (g *remoteEffect) leave() {
	if g.l == nil {
		return
	}
	g.emit.Leave(max(g.fx.CacheSessions, 1))
	g.fx.Cache.Leave(g.session, g.l) // the session may be another run's now
}
