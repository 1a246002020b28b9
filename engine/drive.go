package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/valued"
	"github.com/cairn-agents/cairn/store"
)

// enter counts a run in before it begins, so that Close knows of it; leave undoes it.
func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed()
	}
	e.driven.Add(1)
	return nil
}

// drive runs a turn that was begun, not before asked, in a goroutine of the engine, or hands it to the host. The caller has entered. The
// context's values go along, its end does not: a client that goes away does not stop a run.
func (e *Engine) drive(ctx context.Context, b host.Run, asked time.Time) *Run {
	if e.opts.Host != nil {
		return e.hand(ctx, b)
	}
	r := &Run{in: e.reader, stopper: e, id: b.RunID, session: b.SessionID, root: b.RootID, incarnation: b.Incarnation, turn: b.Turn, start: b.StartSequence, token: b.Token, done: make(chan struct{})}
	r.lost, r.lose = context.WithCancel(context.Background())
	e.mu.Lock()
	if later := e.driving[r.id]; later == nil || later.token < r.token { // else this process has taken the run over from itself meanwhile
		e.driving[r.id] = r
	}
	e.mu.Unlock()
	e.beats.watchStops(e.ctx, &e.background)
	e.crew.run(func() {
		defer e.driven.Done()
		beyond := valued.Join(e.ctx, ctx) // it ends with the engine
		ctx, cancel := context.WithCancelCause(beyond)
		end, err := e.loop(ctx, cancel, b, asked, false)
		e.mu.Lock()
		e.abandoned = e.abandoned || errors.Is(err, cairn.ErrClosed) && !errors.Is(err, errDrained)
		if e.driving[r.id] == r { // else this process has taken the run over from itself
			delete(e.driving, r.id)
		}
		e.mu.Unlock()
		r.record, r.err = end.Run, err
		close(r.done)
		if r.record == nil {
			r.lose()
		} else {
			e.next(beyond, end.Ending)
		}
	})
	return r
}

// loop drives a run to its end, or releases it, see [direct] for within. It ends ctx.
func (e *Engine) loop(ctx context.Context, cancel context.CancelCauseFunc, b host.Run, asked time.Time, within bool) (turn.Committed, error) {
	beat := e.beats.start(ctx, cancel, b.Position, asked, e.opts.LeaseTTL)
	end, err := turn.Loop(direct{ctx, e, within}, b)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil) // ends a beat under way
	beat.stop()
	if err != nil {
		e.letGo(ctx, b, err)
	}
	return end, err
}

// launch drives the run of a companion's session by itself, if there is one.
func (e *Engine) launch(ctx context.Context, b *host.Run) {
	if b == nil {
		return
	}
	if err := e.enter(); err != nil {
		e.letGo(ctx, *b, err)
		return
	}
	e.drive(ctx, *b, time.Now())
}

// next begins what follows a run that has come to its end here: the next turn of the queue or, for one that was suspended, its
// resume, if it can be resumed already. A sub-agent's run is followed by what its parent does.
func (e *Engine) next(ctx context.Context, end turn.Ending) {
	if end.Run == nil || end.Session.ParentID != "" {
		return
	}
	switch row, suspended := end.Session, end.Run.Suspended; {
	case row.Queued > 0 && !end.Run.Status.Suspends():
		e.followOn(ctx, row.ID)
	case e.opts.AutoResume && suspended != nil && (row.Ready() || len(suspended.Children) > 0):
		// Its calls, or a sub-agent's, may have had their answers before the session began to wait for them.
		e.resumeSoon(ctx, row.ID)
	}
}

// direct is the scheduler that carries out effects at once, in goroutines where they are parallel.
type direct struct {
	ctx context.Context // that of the one loop the scheduler is for
	e   *Engine
	// within says that the run is driven as part of another run's step, which would be lost if this run was released.
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
var errDrained = fmt.Errorf("the run was released behind its last step, for another process to continue it: %w", errClosed())

func (d direct) All(n int, branch func(host.Scheduler, int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { errs[i] = branch(d, i) })
	}
	errs[0] = branch(d, 0)
	wg.Wait()
	return errors.Join(errs...)
}

// Child drives the run of a child's session as part of its parent's, whose stop requests it receives.
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

// letGo leaves a run that could not be driven on to the next lease holder.
func (e *Engine) letGo(ctx context.Context, b host.Run, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if errors.Is(cause, errDrained) {
		e.opts.Logger.Info("run released behind its step", "session", b.SessionID, "run", b.RunID)
	} else {
		e.opts.Logger.Warn("run released", "session", b.SessionID, "run", b.RunID, "error", cause)
	}
	if errors.Is(cause, cairn.ErrFenced) {
		if err := e.fx.Orphan(ctx, b.Position); err != nil {
			e.opts.Logger.Warn("sub-agents of a lost run may still wait", "session", b.SessionID, "run", b.RunID, "error", err)
		}
		e.runs.Forget(b.Position)
		return
	}
	e.runs.Forget(b.Position)
	_, err := e.store.Commit(ctx, b.SessionID, &store.Commit{
		Guard: store.Guard{Token: b.Token}, Lease: store.LeaseChange{Action: store.LeaseRelease}})
	if err != nil {
		e.opts.Logger.Warn("lease not released; it will run out", "session", b.SessionID, "error", err)
	}
}

// isClosed reports whether Close was called.
func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}
