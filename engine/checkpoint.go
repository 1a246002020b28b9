package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// FindCheckpoint returns one of a session's checkpoints. The error is ErrNotFound if the session does not have it.
func (e *Engine) FindCheckpoint(ctx context.Context, id, checkpointID string) (*cairn.Checkpoint, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	return driver.FindCheckpoint(ctx, e.store, id, checkpointID)
}

// Checkpoint makes a checkpoint of a session between turns and returns it: a point to branch from or rewind to, in
// addition to the checkpoints that steps make. [Engine.Checkpoints] lists it, and it is the session's latest one. A
// session that waits for people can have one; a branch or a rewind closes its calls there. The error is
// ErrAlreadyRunning while a run holds the session; the run's steps make checkpoints themselves. It is ErrStale if
// another caller rewinds or deletes the session before Checkpoint returns.
func (e *Engine) Checkpoint(ctx context.Context, id string) (*cairn.Checkpoint, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	name := e.opts.NewID("cp")
	_, err := e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		return &driver.Commit{Guard: driver.Guard{Idle: true},
			Events:     []cairn.Event{{Type: cairn.EventCheckpoint, CheckpointID: name, MessageCount: row.MessageCount}},
			Checkpoint: &cairn.Checkpoint{ID: name, RunID: row.RunID, StepID: name, Step: row.Step, LogSequence: row.LogSequence}}, nil
	})
	if err != nil {
		return nil, err
	}
	cp, err := driver.FindCheckpoint(ctx, e.store, id, name)
	if errors.Is(err, cairn.ErrNotFound) {
		return nil, cairn.Errorf(cairn.ErrStale, "session %q has changed: it was rewound or deleted after the checkpoint was made", id)
	}
	return cp, err
}
