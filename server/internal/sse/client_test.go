package sse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// recorder is a client that notes what is written, and when.
type recorder struct {
	header http.Header
	began  time.Time

	mu      sync.Mutex
	got     []string
	flushes int
	held    chan struct{} // unless nil, writes wait for it
	failure error
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}

func (r *recorder) Write(b []byte) (int, error) {
	if r.held != nil {
		<-r.held
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, fmt.Sprintf("%v %s", time.Since(r.began), strings.TrimSpace(string(b))))
	return len(b), r.failure
}

func (r *recorder) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
	return nil
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, began: time.Now()} }

func (r *recorder) write(ctx context.Context, frames func(context.Context) iter.Seq2[[]byte, error]) error {
	return Write(ctx, r, httptest.NewRequestWithContext(ctx, "GET", "/", nil), frames, Options{KeepAlive: 10 * time.Second})
}

// paced yields frames with pauses before them.
func paced(pauses ...time.Duration) func(context.Context) iter.Seq2[[]byte, error] {
	return func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for i, pause := range pauses {
				if testclock.Pause(ctx, pause) != nil || !yield(fmt.Appendf(nil, "frame %d", i), nil) {
					return
				}
			}
		}
	}
}

func TestSilenceIsFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		if err := r.write(t.Context(), paced(4*time.Second, 25*time.Second, 9*time.Second, 9*time.Second)); err != nil {
			t.Fatal(err)
		}
		want := "4s frame 0, 14s : keep-alive, 24s : keep-alive, 29s frame 1, 38s frame 2, 47s frame 3"
		if got := strings.Join(r.got, ", "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Frames that come together are sent together, and the last ones before Write returns.
func TestFramesAreFlushedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.held = make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- r.write(t.Context(), paced(make([]time.Duration, ahead)...)) }()
		synctest.Wait()
		close(r.held)
		if err := <-ended; err != nil || len(r.got) != ahead || r.flushes != 2 {
			t.Errorf("%d frames with %d flushes, of which one is the header's, %v", len(r.got), r.flushes, err)
		}
	})
}

// A client that is behind holds up the reading of its frames, so that they do not pile up.
func TestFramesWaitForTheirClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.held = make(chan struct{})
		read := 0
		ended := make(chan error, 1)
		go func() {
			ended <- r.write(t.Context(), func(context.Context) iter.Seq2[[]byte, error] {
				return func(yield func([]byte, error) bool) {
					for read < 1000 && yield([]byte("frame"), nil) {
						read++
					}
				}
			})
		}()
		synctest.Wait()
		if read > 2*ahead {
			t.Errorf("%d frames were read for a client that takes none", read)
		}
		close(r.held)
		if err := <-ended; err != nil || len(r.got) != 1000 {
			t.Errorf("the client got %d frames, %v", len(r.got), err)
		}
	})
}

// Frames are read no more once the client cannot be written, or the stream is cancelled.
func TestStreamEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client is gone")
		r := newRecorder()
		r.failure = gone
		if err := r.write(t.Context(), paced(time.Second, time.Hour, time.Hour)); !errors.Is(err, ErrCut) || !errors.Is(err, gone) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(r.began); took != time.Second {
			t.Errorf("the stream ended after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r = newRecorder()
		if err := r.write(ctx, paced(time.Second, time.Hour)); !errors.Is(err, ErrCut) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(r.began); took != time.Minute {
			t.Errorf("the stream ended after %v", took)
		}
		written := len(r.got)
		if testclock.Advance(time.Hour); len(r.got) != written {
			t.Error("the client is written to after the stream has ended")
		}
	})
}

// Nothing uses the response after a handler that panics.
func TestPanicOfFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = r.write(t.Context(), func(context.Context) iter.Seq2[[]byte, error] {
				return func(yield func([]byte, error) bool) {
					yield([]byte("frame"), nil)
					panic("no more frames")
				}
			})
		}()
		written := len(r.got)
		if testclock.Advance(time.Hour); len(r.got) != written {
			t.Error("the client is written to after the handler has returned")
		}
	})
}
