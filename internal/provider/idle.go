package provider

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrIdle is the cause with which a call ends that received nothing for too long.
var ErrIdle = errors.New("idle")

// Idle cancels a call when nothing was received for a time. It runs only during reads: time that the caller spends
// on a chunk does not count.
type Idle struct {
	timeout time.Duration
	timer   *time.Timer
}

// WatchIdle returns a context that ends with the cause ErrIdle when the watch, which runs already, fires. The function
// ends both.
func WatchIdle(ctx context.Context, timeout time.Duration) (context.Context, *Idle, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(ErrIdle) })
	return ctx, &Idle{timeout, timer}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Body returns a response body whose reads are watched. The first of them takes over from the wait for the answer.
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
