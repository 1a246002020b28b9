package lifecycle

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// replace begins a run in the place of an earlier one, in one write: should this process die, either both have happened, or
// neither.
func (r *Runs) replace(ctx context.Context, in BeginIn) (*session.Live, error) {
	l, err := r.read(ctx, in.SessionID, nil)
	if err != nil {
		return nil, err
	}
	row := l.Row
	a, crashed, err := r.admit(ctx, l, &in)
	switch {
	case err != nil:
		return nil, err
	case crashed || row.SuspendedStep != "" || in.Version != 0 && in.Version != row.Version:
		return nil, store.Conflict(cairn.CodeStale, row, "session %q has changed", row.ID)
	}
	replaced, err := store.FindRun(ctx, r.Store, row.ID, in.Replaces)
	if err != nil {
		return nil, err
	}
	// Afterwards nobody knows how many messages there were, should the log lack that.
	if err := r.Reconcile(ctx, row, row.RunID); err != nil {
		return nil, err
	}
	last, err := r.Publish(ctx, row)
	if err != nil {
		return nil, err
	}
	if n := replaced.FirstMessage - l.First; l.Damaged && n >= 0 && n <= len(l.Messages) {
		if m := transcript.Closing(l.Messages[:n]); m != nil {
			in.Messages = append([]cairn.Message{*m}, in.Messages...)
		}
	}
	if _, l.LogLast, err = r.Log.Bounds(ctx, row.Log()); err != nil {
		return nil, err
	}
	c := r.beginning(in, a, max(last, l.LogLast))
	c.Guard = store.Guard{Token: row.Lease.Token, Version: row.Version, Idle: true}
	c.RewindRun, c.DropStaged = in.Replaces, true
	c.Published, c.Publish = false, &cairn.Event{Type: cairn.EventRewound, RunID: in.Replaces, Sequence: l.LogLast}
	begun, err := r.commitBegin(ctx, row.ID, c)
	if err != nil {
		return nil, err
	}
	r.Published(ctx, begun, nil)
	if l, err = r.read(ctx, row.ID, nil); err != nil {
		return nil, err // the run's lease ends, and a worker takes it over
	}
	c.StartRun.FirstMessage = replaced.FirstMessage
	r.started(ctx, a, l, c, in.Hooks)
	return l, nil
}
