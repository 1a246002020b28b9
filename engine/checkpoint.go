package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Checkpoint makes a checkpoint of a session as it is, between turns, and returns it: one to branch from or to rewind to,
// beside those that steps make. It is listed by [Engine.Checkpoints] and is the session's latest one. A session that waits for
// people can have one; a branch and a rewind close its calls there. The error is ErrAlreadyRunning while a run holds the
// session, whose steps make checkpoints themselves.
func (e *Engine) Checkpoint(ctx context.Context, id string) (*cairn.Checkpoint, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	name := e.opts.NewID("cp")
	_, err := e.runs.Change(ctx, id, func(row *cairn.Session) (*store.Commit, error) {
		return &store.Commit{Guard: store.Guard{Idle: true}, Publish: &cairn.Event{Type: cairn.EventCheckpoint, CheckpointID: name},
			Checkpoint: &cairn.Checkpoint{ID: name, RunID: row.RunID, StepID: name, Step: row.Step, LogSequence: row.LogSequence}}, nil
	})
	if err != nil {
		return nil, err
	}
	return store.FindCheckpoint(ctx, e.store, id, name)
}
