package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store"
)

// enter counts a run in before it begins, so that Close knows of it; leave undoes it.
func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed()
	}
	e.runs.Add(1)
	return nil
}

func errClosed() error { return cairn.Errorf(cairn.CodeClosed, "the engine is closed") }

// drive runs a turn that was begun, not before asked, in a goroutine of the engine. The caller has entered. The
// context's values go along, its end does not: a client that goes away does not stop a run.
func (e *Engine) drive(ctx context.Context, b turn.Begun, asked time.Time) *Run {
	r := &Run{eng: e, id: b.RunID, session: b.SessionID, root: b.RootID, turn: b.Turn, start: b.StartSequence, done: make(chan struct{})}
	e.mu.Lock()
	e.driving[r.id] = r
	e.mu.Unlock()
	e.watchStops()
	go func() {
		defer e.runs.Done()
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		unhook := context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })
		defer unhook()

		beat := e.startHeartbeat(ctx, cancel, b, asked.Add(e.opts.LeaseTTL))
		_, err := turn.Loop(e.fx.Direct(ctx), b)
		beat.stop()
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			e.letGo(ctx, b, err)
		}
		e.mu.Lock()
		e.abandoned = e.abandoned || errors.Is(err, cairn.ErrClosed)
		if e.driving[r.id] == r { // else this process has taken the run over from itself
			delete(e.driving, r.id)
		}
		e.mu.Unlock()
		r.err = err
		close(r.done)
	}()
	return r
}

// letGo leaves a run that could not be driven on to whoever takes it over.
func (e *Engine) letGo(ctx context.Context, b turn.Begun, cause error) {
	e.fx.Forget(b.Position)
	e.opts.Logger.Warn("run let go", "session", b.SessionID, "run", b.RunID, "error", cause)
	if errors.Is(cause, cairn.ErrFenced) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := e.store.Commit(ctx, b.SessionID, &store.Commit{
		Guard: store.Guard{Token: b.Token}, Lease: store.LeaseChange{Action: store.LeaseRelease}})
	if err != nil {
		e.opts.Logger.Warn("lease not released; it will run out", "session", b.SessionID, "error", err)
	}
}

// ended hears from the effects how a run came out.
func (e *Engine) ended(record *cairn.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.driving[record.ID]; r != nil {
		r.record = record
	}
}

// heartbeat renews a run's lease and brings back stop requests. Between beats it costs no goroutine.
type heartbeat struct {
	cancel context.CancelFunc // ends a beat under way

	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

// startHeartbeat begins to renew a lease that is good until a time. Where it cannot be renewed it cancels the run by
// then, because somebody else may have the session from there on.
func (e *Engine) startHeartbeat(ctx context.Context, cancel context.CancelCauseFunc, b turn.Begun, until time.Time) *heartbeat {
	h := &heartbeat{}
	ctx, h.cancel = context.WithCancel(ctx)
	interval := e.opts.LeaseTTL / 3
	beat := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.stopped {
			return
		}
		asked := time.Now()
		call, done := context.WithTimeout(ctx, min(interval, until.Sub(asked)))
		stop, err := e.store.Renew(call, b.SessionID, b.Token, e.opts.LeaseTTL)
		done()
		switch {
		case err == nil:
			until = asked.Add(e.opts.LeaseTTL)
			if stop != nil {
				e.fx.RequestStop(b.SessionID, *stop)
			}
		case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound):
			cancel(err)
			return
		case ctx.Err() != nil: // the run has ended
			return
		case !time.Now().Before(until):
			cancel(cairn.Errorf(cairn.CodeFenced, "session %q: the lease ran out: %w", b.SessionID, err))
			return
		default:
			e.opts.Logger.Warn("lease not renewed, trying again", "session", b.SessionID, "error", err)
		}
		h.timer.Reset(min(interval, time.Until(until)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(min(interval, time.Until(until)), beat)
	return h
}

// stop ends the heartbeat and waits for a beat under way.
func (h *heartbeat) stop() {
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
}

// watchStops listens, from the first run on, for stop requests that other processes make.
func (e *Engine) watchStops() {
	w, ok := e.store.(store.StopWatcher)
	if !ok {
		return
	}
	e.watch.Do(func() {
		e.background.Go(func() {
			for n, err := range w.WatchStops(e.ctx) {
				if err != nil {
					e.opts.Logger.Warn("stop requests are not watched any more; heartbeats find them", "error", err)
					return
				}
				e.fx.RequestStop(n.SessionID, n.Stop)
			}
		})
	})
}
