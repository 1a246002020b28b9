package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
)

// WithRunID names the run and makes an Execute, Resume or Retry idempotent: if the session has had a run of that id, has it
// queued, or had its messages join another run, see [BusySteer], that is returned and nothing else is done. It holds in any
// process, and for calls at the same time. No other run of any session may have the id. A Resume that takes over a run whose
// process died keeps that run's id. The error is ErrInvalid for an id that breaks the rules of [cairn.CheckSessionID].
func WithRunID(id string) RunOption { return func(o *runOptions) { o.runID = id } }

// once does what begins a run, unless the session has the run that the options name.
func (e *Engine) once(ctx context.Context, sessionID string, o *runOptions, begin func() (*Run, error)) (*Run, error) {
	if o.runID == "" {
		return begin()
	}
	if problem := ids.Check(o.runID); problem != "" {
		return nil, cairn.Invalid("run_id", "%s", problem)
	}
	if there, err := e.named(ctx, sessionID, o.runID); there != nil || err != nil {
		return there, err
	}
	run, err := begin()
	if err == nil {
		return run, nil
	}
	if there, _ := e.named(ctx, sessionID, o.runID); there != nil { // another caller was faster
		return there, nil
	}
	return nil, err
}

// named returns a run or a queued turn of a session by its id, or the run that its messages joined; nil if there is none.
func (e *Engine) named(ctx context.Context, sessionID, runID string) (*Run, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		if errors.Is(err, cairn.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	run, err := e.handle(ctx, row, runID)
	if !errors.Is(err, cairn.ErrNotFound) {
		return run, err
	}
	snap, err := e.store.Read(ctx, sessionID, store.Want{Queue: true, Messages: true, From: max(0, row.MessageCount-joinedWithin)})
	if err != nil {
		return nil, err
	}
	r := &Run{eng: e, id: runID, session: row.ID, root: row.RootID, incarnation: row.Incarnation, start: row.LogSequence, queued: true}
	for i := range snap.Queue {
		if t := &snap.Queue[i]; t.ID == runID {
			if t.Steer {
				r.message, r.from = t.Messages[0].ID, row.MessageCount
			}
			return r, nil
		}
	}
	joined := slices.IndexFunc(snap.Messages, func(m cairn.Message) bool { return strings.HasPrefix(m.ID, runID+"/in") })
	if joined >= 0 {
		return e.handle(ctx, row, snap.Messages[joined].RunID)
	}
	return nil, nil
}

// joinedWithin is how many of a session's last messages are looked through for those that joined a run under another one's id.
const joinedWithin = 200
