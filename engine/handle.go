package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Run returns a handle on one of a session's runs, wherever it is or was driven. The error is ErrNotFound if the session has
// no such run. See [Engine.Attach] for the latest.
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
		return nil, cairn.Errorf(cairn.CodeNotFound, "session %q has no runs yet", sessionID)
	}
	return e.handle(ctx, row, row.RunID)
}

func (e *Engine) handle(ctx context.Context, row *cairn.Session, runID string) (*Run, error) {
	e.mu.Lock()
	r := e.driving[runID]
	e.mu.Unlock()
	if r != nil && r.session == row.ID {
		return r, nil
	}
	record, err := store.FindRun(ctx, e.store, row.ID, runID)
	if err != nil {
		return nil, err
	}
	return &Run{eng: e, id: record.ID, session: row.ID, root: row.RootID, incarnation: row.Incarnation, turn: record.Turn, start: record.StartSequence}, nil
}

// Record returns the run's record: of a run that is under way, steps and usage are as of its last commit. The error is
// ErrNotFound while the run is queued.
func (r *Run) Record(ctx context.Context) (*cairn.Run, error) {
	row, err := r.eng.Session(ctx, r.session)
	if err != nil {
		return nil, err
	}
	id, err := r.carriedBy(ctx)
	if err != nil {
		return nil, err
	}
	record, err := store.FindRun(ctx, r.eng.store, r.session, id)
	if err != nil {
		return nil, err
	}
	asOf(record, row)
	return record, nil
}

// asOf completes the record of a run that is under way with what its session's row says of it.
func asOf(r *cairn.Run, row *cairn.Session) {
	if r.ID == row.RunID && r.Status == cairn.RunRunning {
		r.Steps, r.Usage = row.Step, row.RunUsage
	}
}
