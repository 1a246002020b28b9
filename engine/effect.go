package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
)

// effect implements host.Engine.
func (e *Engine) effect(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	if e.opts.Host == nil {
		return nil, cairn.Invalid("host", "engine has no host")
	}
	var at host.Position
	if err := json.Unmarshal(in, &at); err != nil {
		return nil, cairn.Invalid("effect", "%s: decode input: %s", name, err)
	}
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.driven.Done()
	e.beats.watchStops(e.ctx, &e.background)
	asked := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })()
	stop := func() {}
	if name != host.EffectNotify { // the run's lease has ended by then
		stop = e.beats.start(ctx, cancel, at, asked, e.fx.LeaseLeft()).stop
	}
	out, err := e.fx.Carry(ctx, name, in)
	e.after(ctx, out)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil) // ends a heartbeat under way
	stop()
	if errors.Is(err, cairn.ErrClosed) {
		e.mu.Lock()
		e.abandoned = true
		e.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// after begins what an effect of a host's run leaves to be driven: a companion's run, or what follows the end of the
// run.
func (e *Engine) after(ctx context.Context, out any) {
	switch out := out.(type) {
	case turn.ChildOut:
		e.launch(ctx, out.Launch)
	case turn.Committed:
		e.next(ctx, out.Ending)
	case turn.Notified:
		e.next(ctx, out.Ending)
	}
}
