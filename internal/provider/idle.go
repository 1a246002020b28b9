package provider

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// Grace is how long a server may take for what follows a complete reply, such as its usage.
	Grace = 2 * time.Second
	// closing is how long it may take to end the stream, without which the connection cannot be used again.
	closing = 100 * time.Millisecond
)

// ErrIdle is the cancellation cause of a call that received nothing for too long.
var ErrIdle = errors.New("idle")

// Idle cancels a call when nothing was received for a time. It runs only during reads: time that the caller spends
// on a chunk does not count.
type Idle struct {
	timeout time.Duration
	timer   *time.Timer
	rest    *time.Timer // of a complete reply
	cancel  context.CancelCauseFunc
}

// WatchIdle returns a context that is cancelled with the cause ErrIdle when the watch fires. The watch runs from
// the beginning. The function ends both.
func WatchIdle(ctx context.Context, timeout time.Duration) (context.Context, *Idle, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(ErrIdle) })
	watch := &Idle{timeout: timeout, timer: timer, cancel: cancel}
	return ctx, watch, func() {
		timer.Stop()
		if watch.rest != nil {
			watch.rest.Stop()
		}
		cancel(nil)
	}
}

// Expect cancels the call after a time, whether bytes are received or not, unless it is called again before.
func (w *Idle) Expect(within time.Duration) {
	if w.rest != nil {
		w.rest.Reset(within)
		return
	}
	w.rest = time.AfterFunc(within, func() { w.cancel(ErrIdle) })
}

// Body returns a response body whose reads are watched. The first read takes over from the wait for the response.
func (w *Idle) Body(rc io.ReadCloser) io.ReadCloser {
	return &watchedBody{rc, w}
}

type watchedBody struct {
	io.ReadCloser
	watch *Idle
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.timer.Reset(b.watch.timeout)
	defer b.watch.timer.Stop()
	return b.ReadCloser.Read(p)
}
