package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ctxjoin"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store/driver"
)

// drive drives a run in a goroutine of the engine, or hands it to the host. The run's lease was taken no earlier than
// asked. The caller has called enter. The run keeps ctx's values but not its cancellation: a client that disconnects
// does not stop a run.
func (e *Engine) drive(ctx context.Context, b host.Run, asked time.Time) *Run {
	if e.opts.Host != nil {
		return e.hand(ctx, b, asked)
	}
	r := &Run{in: e.reader, stopper: e, id: b.RunID, session: b.SessionID, root: b.RootID, incarnation: b.Incarnation, turn: b.Turn, start: b.StartSequence, token: b.Token, done: make(chan struct{}), end: &runEnd{}}
	r.lost, r.lose = context.WithCancel(context.Background())
	e.mu.Lock()
	// A later drive stays: this process has taken the run over from itself in the meantime.
	if later := e.driving[r.key()]; later == nil || later.token < r.token {
		e.driving[r.key()] = r
	}
	e.mu.Unlock()
	e.beats.watchStops(e.ctx, &e.background)
	e.crew.run(func() {
		defer e.driven.Done()
		beyond := ctxjoin.Join(e.ctx, ctx) // ends with the engine
		ctx, cancel := context.WithCancelCause(beyond)
		end, err := e.loop(ctx, cancel, b, asked, false)
		e.mu.Lock()
		e.abandoned = e.abandoned || errors.Is(err, cairn.ErrClosed) && !errors.Is(err, errDrained)
		if e.driving[r.key()] == r { // otherwise this process has taken the run over from itself
			delete(e.driving, r.key())
		}
		e.mu.Unlock()
		*r.end = runEnd{end.Run, err}
		close(r.done)
		if end.Run == nil {
			r.lose()
		} else {
			e.next(beyond, end.Ending)
		}
	})
	return r
}

// loop drives a run to its end, or releases it. It ends ctx. See [direct] for within.
func (e *Engine) loop(ctx context.Context, cancel context.CancelCauseFunc, b host.Run, asked time.Time, within bool) (turn.Committed, error) {
	beat := e.beats.start(ctx, cancel, b.Position, asked, e.opts.LeaseTTL)
	end, err := turn.Loop(direct{ctx, e, within}, b)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil) // ends a heartbeat under way
	beat.stop()
	if err != nil {
		e.releaseUndriven(ctx, b, err)
	}
	return end, err
}

// launch drives a companion's run on its own. It does nothing if b is nil.
func (e *Engine) launch(ctx context.Context, b *host.Run) {
	if b == nil {
		return
	}
	if err := e.enter(); err != nil {
		e.releaseUndriven(ctx, *b, err)
		return
	}
	e.drive(ctx, *b, time.Now())
}

// next begins what follows a run that has ended in this process: the next queued turn, or the resume of a suspended run
// if it can be resumed already. A child's run is followed up by its parent.
func (e *Engine) next(ctx context.Context, end turn.Ending) {
	if end.Run == nil || end.Session.ParentID != "" {
		return
	}
	switch row, suspended := end.Session, end.Run.Suspended; {
	case row.Queued > 0 && end.Run.Status != cairn.RunSuspended:
		e.beginQueued(ctx, row.ID)
	case e.opts.AutoResume && suspended != nil && (row.Ready() || len(suspended.Children) > 0):
		// Its calls, or a sub-agent's, may have been answered before the session was paused.
		e.resumeSoon(ctx, row.ID)
	}
}

// direct is the scheduler that carries out effects at once, and parallel ones in goroutines.
type direct struct {
	ctx context.Context // of the one loop that the scheduler serves
	e   *Engine
	// within reports that the run is driven as part of another run's step, which would be lost if this run were
	// released.
	within bool
}

func (d direct) Do(e host.Effect) error {
	err := d.e.fx.Run(d.ctx, e)
	switch out := e.Out.(type) {
	case *turn.ChildOut:
		d.e.launch(d.ctx, out.Launch)
	case *turn.Committed:
		if err == nil && out.Whole && !d.within {
			err = errDrained
		}
	}
	return err
}

// errDrained ends the loop of a run that is released behind a step.
var errDrained = fmt.Errorf("run released after its last step; another process continues it: %w", errClosed())

func (d direct) All(n int, branch func(host.Scheduler, int) error) error {
	return together(d, n, branch)
}

// together runs n branches of the loop in goroutines.
func together(s host.Scheduler, n int, branch func(host.Scheduler, int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { errs[i] = branch(s, i) })
	}
	errs[0] = branch(s, 0)
	wg.Wait()
	return errors.Join(errs...)
}

// Child drives a child's run as part of its parent's, and passes on the parent's stop requests.
func (d direct) Child(of host.Call, b host.Run) error {
	end, err := d.e.fx.PassStops(d.ctx, of, b)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancelCause(d.ctx)
	_, err = d.e.loop(ctx, cancel, b, time.Now(), d.within || !d.e.fx.Lasting(of.Position))
	return err
}

// releaseUndriven releases a run that this process cannot drive to its end, for the next lease holder.
func (e *Engine) releaseUndriven(ctx context.Context, b host.Run, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if errors.Is(cause, errDrained) {
		e.opts.Logger.Info("run released after its step", "session", b.SessionID, "run", b.RunID)
	} else {
		e.opts.Logger.Warn("run released", "session", b.SessionID, "run", b.RunID, "error", cause)
	}
	behind := errors.Is(cause, cairn.ErrStoreBehind)
	if behind {
		e.runs.StoreBehind.Add(1)
	}
	if errors.Is(cause, cairn.ErrFenced) && !behind {
		if err := e.fx.Orphan(ctx, b.Position); err != nil {
			e.opts.Logger.Warn("sub-agents of a lost run may still wait", "session", b.SessionID, "run", b.RunID, "error", err)
		}
		e.runs.Forget(b.Position)
		return
	}
	if err := e.fx.Leave(ctx, b.Position); err != nil {
		e.opts.Logger.Warn("usage of repeated model calls not stored", "session", b.SessionID, "run", b.RunID, "error", err)
	}
	e.runs.Forget(b.Position)
	_, err := e.store.Commit(ctx, b.SessionID, &driver.Commit{
		Guard: driver.Guard{Token: b.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	if err != nil && !(behind && errors.Is(err, cairn.ErrFenced)) { // the store may have lost the lease as well
		e.opts.Logger.Warn("lease not released; it will lapse", "session", b.SessionID, "error", err)
	}
}

// isClosed reports whether Close was called.
func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}
