package driver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
)

// Load returns a session's row.
func Load(ctx context.Context, st Store, id string) (*cairn.Session, error) {
	snap, err := st.Read(ctx, id, Want{})
	if err != nil {
		return nil, err
	}
	return snap.Session, nil
}

// Exists reports whether a session exists.
func Exists(ctx context.Context, st Store, id string) (bool, error) {
	_, err := Load(ctx, st, id)
	if errors.Is(err, cairn.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Messages returns at most limit messages, starting at index from; limit 0 means 100.
func Messages(ctx context.Context, st Store, id string, from, limit int) ([]cairn.Message, error) {
	snap, err := st.Read(ctx, id, Want{Messages: true, From: from, Limit: PageSize(limit)})
	if err != nil {
		return nil, err
	}
	return snap.Messages, nil
}

// AllMessages returns every message of a session, read in pages.
func AllMessages(ctx context.Context, st Store, id string) ([]cairn.Message, error) {
	var all []cairn.Message
	for {
		page, err := Messages(ctx, st, id, len(all), 1000)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < 1000 {
			return all, nil
		}
	}
}

// State returns a session's state, at a checkpoint if checkpointID is not empty.
func State(ctx context.Context, st Store, id, checkpointID string) (json.RawMessage, error) {
	snap, err := st.Read(ctx, id, Want{State: true, Checkpoint: checkpointID})
	if err != nil {
		return nil, err
	}
	return snap.State, nil
}

// StagedOf returns the staged pieces of one step, or of all steps if stepID is empty.
func StagedOf(ctx context.Context, st Store, id, stepID string) ([]Staged, error) {
	snap, err := st.Read(ctx, id, Want{Staged: true, StagedStep: stepID})
	if err != nil {
		return nil, err
	}
	return snap.Staged, nil
}

// Queue returns the queued turns, the next one first.
func Queue(ctx context.Context, st Store, id string) ([]QueuedTurn, error) {
	snap, err := st.Read(ctx, id, Want{Queue: true})
	if err != nil {
		return nil, err
	}
	return snap.Queue, nil
}

// FindRun returns one run of a session. The error is ErrNotFound if the session has no such run.
func FindRun(ctx context.Context, st Store, id, runID string) (*cairn.Run, error) {
	if runID == "" {
		return nil, UnknownRun(id, runID)
	}
	snap, err := st.Read(ctx, id, Want{Run: runID})
	if err != nil {
		return nil, err
	}
	return snap.Run, nil
}

// FindCheckpoint returns one checkpoint of a session. The error is ErrNotFound if the session has no such checkpoint.
func FindCheckpoint(ctx context.Context, st Store, id, checkpointID string) (*cairn.Checkpoint, error) {
	if checkpointID == "" {
		return nil, UnknownCheckpoint(id, checkpointID)
	}
	snap, err := st.Read(ctx, id, Want{Checkpoint: checkpointID})
	if err != nil {
		return nil, err
	}
	return snap.Checkpoint, nil
}

// FindCall returns the row of a pending call by its tree's root and its id. The error is ErrNotFound if the tree has no
// such call.
func FindCall(ctx context.Context, st Store, root, callID string) (*cairn.PendingCall, error) {
	if root == "" || callID == "" {
		return nil, UnknownCall(root, callID)
	}
	page, err := st.Calls(ctx, CallQuery{RootID: root, ID: callID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == 1 {
		return &page.Items[0], nil
	}
	if _, err := Load(ctx, st, root); err != nil && (IsGone(err) || !errors.Is(err, cairn.ErrNotFound)) {
		return nil, err
	}
	return nil, UnknownCall(root, callID)
}

// CountTree returns how many sessions a tree has, its root included; 0 if there is no such tree.
func CountTree(ctx context.Context, st Store, root string) (n int, err error) {
	if counter, ok := As[TreeCounter](st); ok {
		return counter.CountTree(ctx, root)
	}
	for _, err := range All(func(cursor string) (Page[cairn.Session], error) {
		return st.List(ctx, SessionQuery{RootID: root, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// UnknownRun returns the error for a run that a session does not have.
func UnknownRun(session, id string) error {
	return cairn.Errorf(cairn.ErrNotFound, "session %q has no run %q", session, id)
}

// UnknownCheckpoint returns the error for a checkpoint that a session does not have.
func UnknownCheckpoint(session, id string) error {
	return cairn.Errorf(cairn.ErrNotFound, "session %q has no checkpoint %q", session, id)
}
