package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

// heartbeat renews a run's lease and brings back stop requests. Between beats it costs no goroutine.
type heartbeat struct {
	of      *heartbeats
	ctx     context.Context // the run's; its end ends a beat under way
	cancel  context.CancelCauseFunc
	session string
	token   int64

	again   atomic.Bool // a beat is asked for, whenever the last one was
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	until   time.Time // when the lease runs out
}

// heartbeats are those of an engine. Stop requests reach runs through them, and sooner where the store has a watch.
type heartbeats struct {
	store  store.Store
	runs   *lifecycle.Runs
	logger *slog.Logger
	ttl    time.Duration // of leases
	hosted bool          // a host drives the runs
	watch  sync.Once

	mu     sync.Mutex
	all    map[*heartbeat]struct{}
	missed time.Time // when stop requests may have been missed
}

// beat has every run look at once whether it is to stop, also one that begins just now.
func (hs *heartbeats) beat() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.missed = time.Now()
	for h := range hs.all {
		h.soon()
	}
}

// add counts a heartbeat in. Its run was not asked to stop before a time.
func (hs *heartbeats) add(h *heartbeat, since time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.all == nil {
		hs.all = map[*heartbeat]struct{}{}
	}
	hs.all[h] = struct{}{}
	if !hs.missed.Before(since) {
		h.soon()
	}
}

func (hs *heartbeats) remove(h *heartbeat) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.all, h)
}

// start begins to renew a lease that was taken, renewed or read not before asked, and was good for a time then. Where it cannot be
// renewed it cancels the run by the end of that, because another process may have the session from there on.
func (hs *heartbeats) start(ctx context.Context, cancel context.CancelCauseFunc, at host.Position, asked time.Time, good time.Duration) *heartbeat {
	h := &heartbeat{of: hs, ctx: ctx, cancel: cancel, session: at.SessionID, token: at.Token, until: asked.Add(good)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.wait(), h.beat)
	hs.add(h, asked)
	return h
}

// soon makes the next beat come at once.
func (h *heartbeat) soon() {
	h.again.Store(true)
	h.timer.Reset(0)
}

// wait returns how long it is to the next beat.
func (h *heartbeat) wait() time.Duration { return min(h.of.ttl/3, time.Until(h.until)) }

func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.again.Store(false)
	hs, asked := h.of, time.Now()
	call, done := context.WithTimeout(h.ctx, min(hs.ttl/3, h.until.Sub(asked)))
	stop, err := hs.store.Renew(call, h.session, h.token, hs.ttl)
	done()
	switch {
	case err == nil:
		h.until = asked.Add(hs.ttl)
		if stop != nil {
			hs.runs.RequestStop(h.session, *stop)
		}
	case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound):
		h.cancel(err)
		return
	case h.ctx.Err() != nil: // the run has ended
		return
	case !time.Now().Before(h.until):
		code := cairn.CodeFenced
		if hs.hosted { // which tries again, and has the lease still if nobody took it
			code = cairn.CodeUnavailable
		}
		h.cancel(cairn.Errorf(code, "session %q: the lease ran out: %w", h.session, err))
		return
	default:
		hs.logger.Warn("lease not renewed, trying again", "session", h.session, "error", err)
	}
	h.timer.Reset(h.wait())
	if h.again.Load() { // asked for meanwhile
		h.timer.Reset(0)
	}
}

// stop ends the heartbeat and waits for a beat under way, which the end of the run's context cuts short.
func (h *heartbeat) stop() {
	h.of.remove(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
}

// watchStops listens, from the first call on, for stop requests that other processes make, until ctx ends. wg counts the
// goroutine.
func (hs *heartbeats) watchStops(ctx context.Context, wg *sync.WaitGroup) {
	w, ok := hs.store.(store.StopWatcher)
	if !ok {
		return
	}
	hs.watch.Do(func() {
		wg.Go(func() {
			for ctx.Err() == nil {
				hs.watchOnce(ctx, w)
				timer := time.NewTimer(rewatch)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
			}
		})
	})
}

// rewatch is how long after a failure stop requests are watched again.
const rewatch = 200 * time.Millisecond

// watchOnce passes stop requests on until the watch fails or ctx ends.
func (hs *heartbeats) watchOnce(ctx context.Context, w store.StopWatcher) {
	for n, err := range w.WatchStops(ctx) {
		switch {
		case err != nil:
			hs.logger.Warn("stop requests are not watched; heartbeats find them", "error", err)
			return
		case n.SessionID == "":
			hs.beat()
		default:
			hs.runs.RequestStop(n.SessionID, n.Stop)
		}
	}
}
