package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// heartbeat renews a run's lease and delivers stop requests to the run. It holds no goroutine between beats.
type heartbeat struct {
	of      *heartbeats
	ctx     context.Context // the run's; its end cuts a beat under way short
	cancel  context.CancelCauseFunc
	session string
	token   int64

	again   atomic.Bool // requests a beat, however recent the last one is
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	until   time.Time // end of the lease
}

// heartbeats are the heartbeats of an engine's runs. They deliver stop requests, sooner if the store has a watch.
type heartbeats struct {
	store store.Store
	runs  *lifecycle.Runs
	watch sync.Once

	mu     sync.Mutex
	all    map[*heartbeat]struct{}
	missed time.Time // last time that stop requests may have been missed
}

// beat makes every run check for a stop request at once, including a run that is about to begin.
func (hs *heartbeats) beat() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.missed = time.Now()
	for h := range hs.all {
		h.soon()
	}
}

// add registers a heartbeat. Its run cannot have been asked to stop before the time since.
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

func (hs *heartbeats) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.all)
}

// start begins to renew a lease that was taken, renewed or read no earlier than asked, and was good for the duration
// good then. If the lease cannot be renewed in that time, it cancels the run, because another process may take the
// session afterwards.
func (hs *heartbeats) start(ctx context.Context, cancel context.CancelCauseFunc, at host.Position, asked time.Time, good time.Duration) *heartbeat {
	h := &heartbeat{of: hs, ctx: ctx, cancel: cancel, session: at.SessionID, token: at.Token, until: asked.Add(good)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.wait(), h.beat)
	hs.add(h, asked)
	return h
}

// soon triggers the next beat at once.
func (h *heartbeat) soon() {
	h.again.Store(true)
	h.timer.Reset(0)
}

// wait returns the time until the next beat.
func (h *heartbeat) wait() time.Duration { return min(h.of.runs.LeaseTTL/3, time.Until(h.until)) }

func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.again.Store(false)
	hs, asked := h.of, time.Now()
	call, done := context.WithTimeout(h.ctx, min(hs.runs.LeaseTTL/3, h.until.Sub(asked)))
	stop, err := hs.store.Renew(call, h.session, h.token, hs.runs.LeaseTTL)
	done()
	switch {
	case err == nil:
		h.until = asked.Add(hs.runs.LeaseTTL)
		if stop != nil {
			hs.runs.RequestStop(h.session, *stop)
		}
	case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound):
		h.cancel(err)
		return
	case h.ctx.Err() != nil: // the run has ended
		return
	case !time.Now().Before(h.until):
		code := cairn.ErrFenced
		// The host retries, and still holds the lease unless another process took it.
		if hs.runs.Remote() {
			code = cairn.ErrUnavailable
		}
		h.cancel(cairn.Errorf(code, "session %q: the lease lapsed: %w", h.session, err))
		return
	default:
		hs.runs.Logger.Warn("lease not renewed; retrying", "session", h.session, "error", err)
	}
	h.timer.Reset(h.wait())
	if h.again.Load() { // requested during this beat
		h.timer.Reset(0)
	}
}

// stop ends the heartbeat and waits for a beat under way, which is cut short when the run's context ends.
func (h *heartbeat) stop() {
	h.of.remove(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
}

// watchStops watches for stop requests of other processes until ctx ends. Only the first call starts the goroutine,
// which wg counts.
func (hs *heartbeats) watchStops(ctx context.Context, wg *sync.WaitGroup) {
	w, ok := driver.As[driver.StopWatcher](hs.store)
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

// rewatch is the delay before a failed watch of stop requests is restarted.
const rewatch = 200 * time.Millisecond

// watchOnce delivers stop requests until the watch fails or ctx ends.
func (hs *heartbeats) watchOnce(ctx context.Context, w driver.StopWatcher) {
	for n, err := range w.WatchStops(ctx) {
		switch {
		case err != nil:
			hs.runs.Logger.Warn("cannot watch for stop requests; heartbeats will find them", "error", err)
			return
		case n.SessionID == "":
			hs.beat()
		default:
			hs.runs.RequestStop(n.SessionID, n.Stop)
		}
	}
}
