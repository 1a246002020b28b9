package effects

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A call that ends early because the run is to stop has no result, even if the lease is lost or the engine is closed by
// then: the effect does not fail with the stop request.
func TestStopIsNoErrorOfAnEffect(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	opts := &settings.Options{Log: st.EventLog(), Now: time.Now, Coalesce: time.Second, Logger: slog.New(slog.DiscardHandler)}
	fx := New(lifecycle.New(lifecycle.Config{Options: opts, Store: st, OwnLog: true}), nil)
	e := fx.Journal.Emitter(t.Context(), &cairn.Session{ID: "s", RootID: "s"}, "run", 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	work, stop := context.WithCancelCause(ctx)
	v := &visit{fx: fx, ctx: ctx, work: work, l: &session.Live{Emit: e, Step: &step.Step{}}, c: &step.Call{}}
	result, err := v.advance(func() (turn.Begun, error) {
		stop(&session.Stopped{Stop: cairn.Stop{Kind: cairn.StopInterrupt}})
		cancel(cairn.ErrClosed)
		return turn.Begun{}, context.Cause(work)
	})
	if result != nil || err != nil {
		t.Errorf("the call has the result %v and the error %v", result, err)
	}
}
