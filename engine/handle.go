package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Run returns a handle on one of a session's runs, wherever it is or was driven. The error is ErrNotFound if the
// session has no such run. See [Engine.Attach] for the latest run.
func (e *Engine) Run(ctx context.Context, sessionID, runID string) (*Run, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	return e.handle(ctx, row, runID)
}

// Attach returns a handle on a session's latest run, wherever it is or was driven.
func (e *Engine) Attach(ctx context.Context, sessionID string) (*Run, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	if row.RunID == "" {
		return nil, cairn.Errorf(cairn.ErrNotFound, "session %q has no runs yet", sessionID)
	}
	return e.handle(ctx, row, row.RunID)
}

func (e *Engine) handle(ctx context.Context, row *cairn.Session, runID string) (*Run, error) {
	e.mu.Lock()
	r := e.driving[runKey{row.ID, runID}]
	e.mu.Unlock()
	if r != nil {
		return r, nil
	}
	record, err := driver.FindRun(ctx, e.store, row.ID, runID)
	if err != nil {
		return nil, err
	}
	return &Run{in: e.reader, stopper: e, id: record.ID, session: row.ID, root: row.RootID, incarnation: row.Incarnation, turn: record.Turn, start: record.StartSequence}, nil
}

// Record returns the run's record. For a run under way, steps and usage are as of its last commit. The error is
// ErrNotFound while the run is queued.
func (r *Run) Record(ctx context.Context) (*cairn.Run, error) {
	row, err := r.in.session(ctx, r.session)
	if err != nil {
		return nil, err
	}
	id, err := r.carriedBy(ctx)
	if err != nil {
		return nil, err
	}
	record, err := driver.FindRun(ctx, r.in.store, r.session, id)
	if err != nil {
		return nil, err
	}
	asOf(record, row)
	return record, nil
}

// Session returns a session's row. The error is ErrNotFound if there is no such session.
func (e *Engine) Session(ctx context.Context, id string) (*cairn.Session, error) {
	return e.reader.session(ctx, id)
}

// named returns the run or queued turn of a session that the options name, or the run that its messages joined; nil if
// there is none. The error is ErrNotFound if the session is not of the user that the options name.
func (e *Engine) named(ctx context.Context, sessionID string, o *runOptions) (*Run, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		if errors.Is(err, cairn.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	if err := o.mayUse(row); err != nil {
		return nil, err
	}
	runID := o.runID
	if run, err := e.handle(ctx, row, runID); !errors.Is(err, cairn.ErrNotFound) {
		return found(run), err
	}
	snap, err := e.store.Read(ctx, sessionID, driver.Want{Queue: true, Messages: true, From: max(0, row.MessageCount-joinedWithin)})
	if err != nil {
		return nil, err
	}
	r := &Run{in: e.reader, stopper: e, id: runID, session: row.ID, root: row.RootID, incarnation: row.Incarnation, start: row.LogSequence, queued: true, found: true}
	for i := range snap.Queue {
		if t := &snap.Queue[i]; t.ID == runID {
			if t.Steer {
				r.message, r.from = t.Messages[0].ID, row.MessageCount
			}
			return r, nil
		}
	}
	joined := slices.IndexFunc(snap.Messages, func(m cairn.Message) bool { return strings.HasPrefix(m.ID, runID+"/in") })
	if joined < 0 {
		return nil, nil
	}
	run, err := e.handle(ctx, row, snap.Messages[joined].RunID)
	return found(run), err
}

// found returns a handle for a call that did not begin the run. The one of the call that did stays as it is.
func found(run *Run) *Run {
	if run == nil {
		return nil
	}
	there := *run
	there.found = true
	return &there
}

// joinedWithin is how many of a session's last messages are searched for those that joined a run with another id.
const joinedWithin = 200
