package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/retry"
)

const (
	// handWait bounds how long a caller waits for the host to take a run, which the store has by then.
	handWait = 500 * time.Millisecond
	// handRest is how long callers do not wait at all after a host that was slow.
	handRest = 5 * time.Second
	// handTry bounds one attempt to hand over a run.
	handTry = 5 * time.Second
	// handFirst and handLast are the first and the longest pause between two attempts.
	handFirst, handLast = 100 * time.Millisecond, 2 * time.Second
)

// handover hands a run to the host. While the host is unavailable, it keeps the run's lease and repeats the attempt, so
// that no worker takes the run over time and again. If the run is asked to stop or the engine is closed, it releases
// the run.
type handover struct {
	e     *Engine
	of    host.Run
	first chan struct{} // closed after the first attempt
	over  chan struct{} // closed when there is nothing left to do; wait and err are set before
	wait  func(context.Context) error
	err   error
}

// hand hands a run to the host. It waits for the host for a moment only; the rest happens in the background. The run's
// lease was taken no earlier than asked. The caller has called enter.
func (e *Engine) hand(ctx context.Context, b host.Run, asked time.Time) *Run {
	r := &Run{in: e.reader, stopper: e, id: b.RunID, session: b.SessionID, root: b.RootID, incarnation: b.Incarnation, turn: b.Turn, start: b.StartSequence}
	h := &handover{e: e, of: b, first: make(chan struct{}), over: make(chan struct{})}
	e.background.Add(1) // before Close waits for it, since it first waits for what has called enter
	e.crew.run(func() {
		defer e.background.Done()
		h.run(context.WithoutCancel(ctx), asked)
	})
	if h.settled() {
		r.hosted = h.wait
		return r
	}
	r.hosted = h.await
	return r
}

// settled waits for the first attempt, unless the host is slow, and reports whether the handover is over.
func (h *handover) settled() bool {
	limit := h.e.slow.left(handWait)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.first:
	case <-timer.C:
		h.e.slow.note(handRest)
		return false
	}
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// await waits until the host has stopped driving the run, as the function that Host.Start returns.
func (h *handover) await(ctx context.Context) error {
	select {
	case <-h.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case errors.Is(h.err, cairn.ErrClosed):
		return h.err
	case h.wait == nil:
		return nil
	}
	return h.wait(ctx)
}

// run makes attempts until the host has the run or it is released. ctx has the values of the call that began it.
func (h *handover) run(ctx context.Context, asked time.Time) {
	e, b := h.e, h.of
	own, cancel := context.WithCancelCause(e.ctx)
	beat := e.beats.start(own, cancel, b.Position, asked, e.opts.LeaseTTL)
	tried := sync.OnceFunc(func() {
		close(h.first)
		e.driven.Done()
	})
	defer tried()
	defer close(h.over)
	h.wait, h.err = h.attempt(own, ctx)
	for n := 0; errors.Is(h.err, cairn.ErrUnavailable) && own.Err() == nil; n++ {
		if n == 0 {
			e.slow.note(handRest)
			e.opts.Logger.Warn("host did not accept the run; retrying", "session", b.SessionID, "run", b.RunID, "error", h.err)
		}
		tried()
		if h.err = h.pause(own, n); h.err == nil {
			h.wait, h.err = h.attempt(own, ctx)
		}
	}
	if h.err != nil && own.Err() != nil {
		h.err = context.Cause(own)
	}
	cancel(nil) // ends a heartbeat under way
	beat.stop()
	if h.err != nil { // the turn has begun: a worker takes it over
		e.releaseUndriven(ctx, b, h.err)
	}
}

// attempt asks the host once. The context that the host gets has the values of ctx. It ends only if the attempt fails,
// since a host may keep it.
func (h *handover) attempt(own, ctx context.Context) (func(context.Context) error, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(handTry, func() { cancel(context.DeadlineExceeded) })
	closed := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	wait, err := h.e.opts.Host.Start(ctx, h.of)
	late.Stop()
	closed()
	if err != nil {
		cancel(nil)
	}
	return wait, err
}

// errStopped ends a handover whose run was asked to stop: the caller that asked ends the released run.
var errStopped = errors.New("run stopped before the host accepted it")

// pause waits before the next attempt. The error says why there is to be none.
func (h *handover) pause(own context.Context, n int) error {
	if err := retry.Sleep(own, retry.Backoff(handFirst, handLast, n)); err != nil {
		return err
	}
	stop, err := h.e.store.Renew(own, h.of.SessionID, h.of.Token, h.e.opts.LeaseTTL)
	switch {
	case err == nil && stop != nil:
		return errStopped
	case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound):
		return err
	}
	return nil // the heartbeat reports a store that is away
}
