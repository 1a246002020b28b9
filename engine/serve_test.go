package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// Serve lets runs of any caller end if they end in time, and releases the others for the next process at once.
func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace, takes time.Duration
		code         cairn.Code
		ends         time.Duration // after the context is done
	}{
		"in time":                {time.Minute, 30 * time.Second, "", 29 * time.Second},
		"too late":               {10 * time.Second, time.Hour, cairn.ErrTimeout, 10 * time.Second},
		"the default":            {0, time.Hour, cairn.ErrTimeout, 20 * time.Second},
		"no time is left at all": {-1, time.Hour, cairn.ErrTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				slow := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
					return scripted.Reply(scripted.Pause(c.takes), scripted.Text("done"))
				})
				eng := open(t, st, bot(slow), with(func(o *engine.Options) { o.CloseGrace = c.grace }))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				run, began := start(t, eng, "s", "go"), time.Now()
				err := eng.Serve(ctx)
				if got := time.Since(began) - time.Second; got != c.ends {
					t.Errorf("it took %s to end, want %s", got, c.ends)
				}
				if _, refused := eng.Execute(t.Context(), "other", "bot", cairn.Text("go")); cairn.AsError(refused).Code != cairn.ErrClosed {
					t.Errorf("another turn after Serve: %v, want it refused", refused)
				}
				if c.code == "" {
					if err != nil {
						t.Errorf("serve: %v", err)
					}
					wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
					return
				}
				if e := cairn.AsError(err); e == nil || e.Code != c.code {
					t.Errorf("serve: %v, want %s", err, c.code)
				}
				next := open(t, st, bot(scripted.New(scripted.Text("done"))), named("next"))
				resumed, err := next.Resume(t.Context(), "s")
				if err != nil {
					t.Fatalf("the next process, at once: %v", err)
				}
				wantStatus(t, wait(t, resumed), cairn.RunCompleted, cairn.ReasonReply)
			})
		})
	}
}

// Close by another part of the program ends Serve, and is no error.
func TestServeEndsWhenTheEngineIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, tapOn(nil), bot(scripted.New()))
		done := make(chan error)
		go func() { done <- eng.Serve(t.Context()) }()
		synctest.Wait()
		leave(t, eng)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}
