package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// localChild drives a child whose session is in the same store as its parent's: a sub-agent or a companion.
type localChild struct {
	*visit
	first func() (turn.Begun, error) // begins the run that the call asks for
}

// Begin implements delegate.Driver.
func (v *localChild) Begin(context.Context) (turn.Begun, error) { return v.first() }

// Resume implements delegate.Driver. The end of a run that it returns is on the log.
func (v *localChild) Resume(ctx context.Context) (turn.Begun, *cairn.Run, error) {
	fx, child := v.fx, v.child
	row, err := driver.Load(ctx, fx.Store, child)
	if err != nil {
		return turn.Begun{}, nil, err
	}
	v.sees(row)
	switch {
	case row.Ending != nil && v.work.Err() == nil:
		return turn.Begun{}, nil, fx.ReapChild(ctx, row, *row.Ending)
	case row.Status == cairn.SessionPaused && v.work.Err() == nil && v.late(row):
		return turn.Begun{}, nil, fx.ReapChild(ctx, row, lifecycle.TimedOut)
	case row.Running(row.AsOf):
		// An attempt whose answer was lost began the run.
		if b := v.c.HandedOver(row.RunID); b != nil && b.Token == row.Lease.Token {
			return *b, nil, nil
		}
		return turn.Begun{}, nil, driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q is already running", row.ID)
	case row.Status == cairn.SessionActive:
		b, err := fx.Recover(ctx, child, v.l.CallHooks())
		return b, nil, err
	case row.Status == cairn.SessionPaused && v.work.Err() == nil:
		what, err := fx.WaitsFor(ctx, row)
		if err != nil {
			return turn.Begun{}, nil, err
		}
		if what == "" {
			b, err := fx.Resume(ctx, lifecycle.Resumption{NewRun: lifecycle.NewRun{SessionID: child, Child: true, RunID: fx.NewID("run"), Hooks: v.l.CallHooks(),
				LogLast: v.l.Emit.Position()}})
			return b, nil, err
		}
	}
	run, err := driver.FindRun(ctx, fx.Store, child, row.RunID)
	if err != nil {
		return turn.Begun{}, nil, err
	}
	return turn.Begun{}, run, fx.persist(ctx, func() error { return fx.Journal.Drain(ctx, row) })
}

// Drive implements delegate.Driver.
func (v *localChild) Drive(ctx context.Context, b turn.Begun) error {
	f := &step.Started{CallID: v.c.Use.CallID, Agent: v.agent, ChildID: v.child, Announced: v.c.Announced(), Run: &b, Writes: v.s.Writes()}
	return v.fx.put(ctx, v.l, f, false)
}

// Stop implements delegate.Driver. It also stops a child whose call has reached its deadline.
func (v *localChild) Stop(ctx context.Context) {
	v.fx.passStop(ctx, v.work, v.child, "")
	if v.work.Err() != nil || v.deadline.IsZero() {
		return
	}
	if row, err := driver.Load(ctx, v.fx.Store, v.child); err == nil && v.late(row) && row.Status == cairn.SessionActive {
		v.fx.timeOut(ctx, v.child, row.RunID)
	}
}

// End implements delegate.Driver. It cancels what the session is suspended for.
func (v *localChild) End(ctx context.Context, _ error) error {
	row, err := driver.Load(ctx, v.fx.Store, v.child)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return nil
	case err != nil || row.Status != cairn.SessionPaused || !v.l.Step.Carried:
		return err
	}
	return v.fx.ReapChild(ctx, row, lifecycle.Leaving)
}
