package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/memstore"
)

// patience is how long a test waits for something that should take milliseconds.
const patience = 10 * time.Second

// mute is a server whose responses do not end: it sends nothing, or a piece of a stream.
type mute struct {
	url     string
	arrived chan struct{}  // a request has arrived, and the piece is being sent
	ended   chan time.Time // the request's context has ended
}

func newMute(t testing.TB, piece string) *mute {
	t.Helper()
	m := &mute{arrived: make(chan struct{}, 1), ended: make(chan time.Time, 1)}
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // the server notices the end of a connection only after reading the body
		if piece != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
		m.arrived <- struct{}{}
		select {
		case <-r.Context().Done():
			m.ended <- time.Now()
		case <-done:
		}
	}))
	t.Cleanup(func() { close(done); server.Close() })
	m.url = server.URL
	return m
}

// within returns the next value of a channel.
func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

// cancel ends the context of a call before its response and during its stream. The provider's request must end with
// it.
func (a Adapter[Q, R]) cancel(t *testing.T) {
	for _, piece := range []string{"", a.Piece} {
		server := newMute(t, piece)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := Ask(ctx, a.Model("m", Endpoint{BaseURL: server.url}), Hello())
			failed <- err
		}()
		within(t, "the request", server.arrived)
		cancel()
		within(t, "the end of the provider's request", server.ended)
		err := within(t, "the end of the call", failed)
		if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrAborted || !errors.Is(err, context.Canceled) {
			t.Errorf("after %q: %+v", piece, e)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	m, server := a.serve(t, a.Text("no", Wire{}))
	_, err := Ask(ctx, m, Hello())
	if e := cairn.AsError(err); e.Code != cairn.ErrTimeout || !errors.Is(err, context.DeadlineExceeded) || len(server.Requests()) > 0 {
		t.Errorf("a context that ended before: %+v", e)
	}
}

// timeout tests a deadline while the stream is silent. The call must end at that moment of the bubble's clock.
func (a Adapter[Q, R]) timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Ask(ctx, a.through(slow(time.Second, a.Piece)), Hello())
		if took := time.Since(began); took != 30*time.Second || cairn.AsError(err).Code != cairn.ErrTimeout {
			t.Errorf("the call ended after %v, %v", took, err)
		}
	})
}

// stop stops a run before and during its response. The provider's request must end with it.
func (a Adapter[Q, R]) stop(t *testing.T) {
	for _, piece := range []string{"", a.Piece} {
		a.stopped(t, newMute(t, piece))()
	}
}

// stopped begins a run that calls a server. It returns a function that stops the run and returns how much longer
// the provider's request lasted.
func (a Adapter[Q, R]) stopped(t testing.TB, server *mute) func() time.Duration {
	t.Helper()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: a.Model("m", Endpoint{BaseURL: server.url})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Hello"))
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the request", server.arrived)
	return func() time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		began := time.Now()
		if err := run.Interrupt(ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		took := within(t, "the end of the provider's request", server.ended).Sub(began)
		if res, err := run.Wait(ctx); err != nil || res.Status != cairn.RunInterrupted {
			t.Fatalf("the run ended as %+v, %v", res, err)
		}
		if err := eng.Close(ctx); err != nil {
			t.Fatal(err)
		}
		return took
	}
}

// BenchmarkStop stops runs during a response, in memory and over loopback. stop-ms is the mean time from the call
// of Interrupt to the end of the request at the provider, and worst-ms the longest. They should be less than 100.
func (a Adapter[Q, R]) BenchmarkStop(b *testing.B) {
	server := newMute(b, a.Piece)
	var sum, worst time.Duration
	for b.Loop() {
		took := a.stopped(b, server)()
		sum, worst = sum+took, max(worst, took)
	}
	b.ReportMetric(0, "ns/op") // would include the whole run
	b.ReportMetric(sum.Seconds()*1e3/float64(b.N), "stop-ms")
	b.ReportMetric(worst.Seconds()*1e3, "worst-ms")
}
