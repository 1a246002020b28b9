package effects

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// A call that is left because the run is to stop has no result, though the lease is lost or the engine closed by then: the
// stop request is not what ended the effect.
func TestStopIsNoErrorOfAnEffect(t *testing.T) {
	t.Parallel()
	e, _ := newTestEmitter(t, 1<<20, time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	work, stop := context.WithCancelCause(ctx)
	v := &visit{fx: e.fx, ctx: ctx, work: work, l: &live{emit: e, step: &step.Step{}}, c: &step.Call{}}
	result, err := v.advance(func() (turn.Begun, error) {
		stop(&stopped{cairn.Stop{Kind: cairn.StopInterrupt}})
		cancel(cairn.ErrClosed)
		return turn.Begun{}, context.Cause(work)
	})
	if result != nil || err != nil {
		t.Errorf("the call has the result %v and the error %v", result, err)
	}
}
