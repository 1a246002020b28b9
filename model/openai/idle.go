package openai

import (
	"context"
	"errors"
	"io"
	"time"
)

var errIdle = errors.New("idle")

// idleWatch cancels a call when nothing was received for a time. It runs only during reads: time that the caller spends
// on a chunk does not count.
type idleWatch struct {
	timeout time.Duration
	timer   *time.Timer
}

// watchIdle returns a context that ends with the cause errIdle when the watch, which runs already, fires.
func watchIdle(ctx context.Context, timeout time.Duration) (context.Context, *idleWatch, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(errIdle) })
	return ctx, &idleWatch{timeout, timer}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// body returns a response body whose reads are watched. The first of them takes over from the wait for the answer.
func (w *idleWatch) body(rc io.ReadCloser) io.ReadCloser {
	return &watchedBody{rc, w}
}

type watchedBody struct {
	io.ReadCloser
	watch *idleWatch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.timer.Reset(b.watch.timeout)
	defer b.watch.timer.Stop()
	return b.ReadCloser.Read(p)
}
