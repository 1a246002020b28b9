package provider

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrIdle is the cancellation cause of a call that received nothing for too long.
var ErrIdle = errors.New("idle")

// Idle cancels a call when nothing was received for a time. It runs only during reads: time that the caller spends
// on a chunk does not count.
type Idle struct {
	timeout time.Duration
	timer   *time.Timer
}

// WatchIdle returns a context that is cancelled with the cause ErrIdle when the watch fires. The watch runs from
// the beginning. The function ends both.
func WatchIdle(ctx context.Context, timeout time.Duration) (context.Context, *Idle, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(ErrIdle) })
	return ctx, &Idle{timeout, timer}, func() {
		timer.Stop()
		cancel(nil)
	}
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
