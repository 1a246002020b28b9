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

// Effect carries out one effect of a run for a host, and returns its output. It needs nothing but the store, but is quicker
// where this process has carried out the effect before. Meanwhile it renews the run's lease, and receives stop requests.
//
// It may be called again with the same input, if its answer was lost: what was done is not done again, but a model or a
// tool that was cut off is called again. If the first call continues although the host has abandoned it, the log gets one
// story and one outcome counts; one of the two may be ErrUnavailable, for the host to try again.
//
// The error is ErrFenced if another process has taken the run over; the host then abandons it. ErrInvalid is for an
// effect that there is not, ErrNotFound for an unknown agent or a session that was deleted, ErrClosed after Close, and
// any other for what may pass.
func (e *Engine) Effect(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	if e.opts.Host == nil {
		return nil, cairn.Invalid("host", "the engine has none")
	}
	var at host.Position
	if err := json.Unmarshal(in, &at); err != nil {
		return nil, cairn.Invalid("effect", "%s: its input does not decode: %s", name, err)
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
	if name != host.EffectNotify { // for which there is no lease any more
		stop = e.beats.start(ctx, cancel, at, asked, e.fx.LeaseLeft()).stop
	}
	out, err := e.fx.Carry(ctx, name, in)
	e.after(ctx, out)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil) // ends a beat under way
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

// after begins what an effect of a host's run has left to be driven: a companion's run, or what follows the end of the run.
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

// hand hands a run that was begun to the host. The caller has entered.
func (e *Engine) hand(ctx context.Context, b host.Run) *Run {
	defer e.driven.Done()
	r := &Run{in: e.reader, stopper: e, id: b.RunID, session: b.SessionID, root: b.RootID, incarnation: b.Incarnation, turn: b.Turn, start: b.StartSequence}
	var err error
	if r.hosted, err = e.opts.Host.Start(context.WithoutCancel(ctx), b); err != nil {
		e.letGo(ctx, b, err) // the turn has begun: a worker takes it over
	}
	return r
}
