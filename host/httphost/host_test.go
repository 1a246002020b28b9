package httphost_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A run whose caller is lost is left alone for Patience, and then given to Start again by a worker.
func TestLostRunIsStartedAgain(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{0, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			started := make(chan host.Run, 9)
			h, err := httphost.New(&httphost.Options{Patience: patience, Start: func(_ context.Context, run host.Run) error {
				started <- run
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("hello"))}
			eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Host: h})
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close(t.Context())
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go eng.Work(ctx)
			first := <-started
			again := <-started
			want := patience
			if want == 0 {
				want = 10 * time.Minute
			}
			if took := time.Since(began); took < want || took > want+2*time.Minute || again.RunID != first.RunID || again.Token <= first.Token {
				t.Errorf("with a patience of %s, run %+v is started as %+v after %s", want, first, again, took)
			}
			if p, err := eng.Advance(t.Context(), again); err != nil || p.State != engine.AdvanceEnded {
				t.Errorf("%+v, error %v", p, err)
			}
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "hello" {
				t.Errorf("%+v, error %v", res, err)
			}
		})
	}
}

func TestNewNamesBadOptions(t *testing.T) {
	t.Parallel()
	start := func(context.Context, host.Run) error { return nil }
	for field, opts := range map[string]*httphost.Options{"Start": nil, "Patience": {Start: start, Patience: -1}} {
		_, err := httphost.New(opts)
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}
