package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/cairn-agents/cairn"
)

// Want selects what is read of a session beside its row. The zero value is nothing.
type Want struct {
	// Messages asks for the messages from index From on, at most Limit of them; 0 means all. A range beyond the end is
	// empty, and a negative From is 0.
	Messages    bool
	From, Limit int
	// Recent leaves out the messages before those that follow the latest summary, see [Want.First].
	Recent bool
	// Checkpoint asks for the checkpoint of that id, and Run for the run.
	Checkpoint string
	Run        string
	// State asks for the session's state: at Checkpoint, if that is set.
	State bool
	// Staged asks for the staged pieces, in the order they were staged: those of StagedStep, if that is set.
	Staged     bool
	StagedStep string
	// Calls asks for the pending calls of the row's SuspendedStep, the oldest first.
	Calls bool
	// Cache asks for the tool-result cache, by key.
	Cache bool
	// Queue asks for the queued turns, the next one first.
	Queue bool
}

// ToDrive returns what a process needs to drive a session when it has the messages before the index from.
func ToDrive(from int) Want {
	return Want{Messages: true, From: from, Recent: true, State: true, Staged: true, Calls: true, Cache: true}
}

// First returns the index of the first message that is read of a session with a row, if it has that many.
func (w *Want) First(row *cairn.Session) int {
	if w.Recent {
		return max(w.From, row.Summary.From, 0)
	}
	return max(w.From, 0)
}

// Size returns the maximum number of messages.
func (w *Want) Size() int {
	switch {
	case !w.Messages:
		return 0
	case w.Limit <= 0:
		return math.MaxInt32
	}
	return w.Limit
}

// Contents is a session at one point in time: its row, and what Want selected.
type Contents struct {
	Session    *cairn.Session
	Messages   []cairn.Message
	Checkpoint *cairn.Checkpoint
	Run        *cairn.Run
	State      json.RawMessage
	Staged     []Staged
	Calls      []cairn.PendingCall
	Cache      []CacheEntry
	Queue      []QueuedTurn
}

// Load returns a session's row.
func Load(ctx context.Context, st Store, id string) (*cairn.Session, error) {
	snap, err := st.Read(ctx, id, Want{})
	if err != nil {
		return nil, err
	}
	return snap.Session, nil
}

// Exists reports whether there is such a session.
func Exists(ctx context.Context, st Store, id string) (bool, error) {
	_, err := Load(ctx, st, id)
	if errors.Is(err, cairn.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Messages returns at most limit messages from index from on; limit 0 means 100.
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

// FindRun returns one run of a session; ErrNotFound if it has no such run.
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

// FindCheckpoint returns one checkpoint of a session; ErrNotFound if it has no such checkpoint.
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

// FindCall returns the row of a pending call by its tree's root and its id; ErrNotFound if the tree has no such call.
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
	if counter, ok := st.(TreeCounter); ok {
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
	return cairn.Errorf(cairn.CodeNotFound, "session %q has no run %q", session, id)
}

// UnknownCheckpoint returns the error for a checkpoint that a session does not have.
func UnknownCheckpoint(session, id string) error {
	return cairn.Errorf(cairn.CodeNotFound, "session %q has no checkpoint %q", session, id)
}
