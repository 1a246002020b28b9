package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/store/driver"
)

// StateOption is an option of SetState.
type StateOption func(*stateOptions)

type stateOptions struct{ version int64 }

// IfVersion makes SetState write only if the session's row still has that Version. Otherwise the error is ErrStale.
func IfVersion(version int64) StateOption { return func(o *stateOptions) { o.version = version } }

// SetState replaces a session's state between turns, also while the session is paused, and returns the session's row.
// state is a value of the agent's state type, or its JSON as a json.RawMessage; without a state type any JSON object
// will do. The members that differ from the stored state are written in one commit, which also publishes them as
// state_patch; an equal state changes nothing. SetState does not read the stored state as the agent's type, so it
// repairs a session whose state can no longer be decoded.
//
// The error is ErrAlreadyRunning while a run holds the session, and ErrNotFound if there is no such session or its
// agent is not registered here. It is ErrState if the new state cannot be decoded as the agent's state type. It is
// ErrInvalid or ErrTooLarge, with the field "state", if the new state is not an object or cannot be stored.
func (e *Engine) SetState(ctx context.Context, id string, state any, opts ...StateOption) (*cairn.Session, error) {
	var o stateOptions
	for _, opt := range opts {
		opt(&o)
	}
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	raw, err := encodeState(state)
	if err != nil {
		return nil, err
	}
	return e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		switch {
		case o.version != 0 && row.Version != o.version:
			return nil, driver.Conflict(cairn.ErrStale, row, "session %q has changed: version %d, now %d", id, o.version, row.Version)
		case row.Running(row.AsOf):
			return nil, driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q is already running", id)
		}
		if err := e.runs.CheckState(ctx, row, raw); err != nil {
			return nil, err
		}
		return e.stateCommit(ctx, row, raw)
	})
}

// maxPatchNote is the largest patch of a verb, in bytes of JSON, that its event has. Of a larger one the event says
// only that the state has changed.
const maxPatchNote = 16 << 10

// stateCommit returns the commit that replaces the state of a session; nil if the state is equal.
func (e *Engine) stateCommit(ctx context.Context, row *cairn.Session, raw json.RawMessage) (*driver.Commit, error) {
	now, err := driver.State(ctx, e.store, row.ID, "")
	if err != nil {
		return nil, err
	}
	list, err := ops.Diff(now, raw)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: stored state: %w", row.ID, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	change, err := driver.NewStateChange(row.State, now, list)
	if err != nil {
		return nil, err
	}
	doc, err := ops.NewDoc(now)
	if err != nil {
		return nil, err
	}
	ev := cairn.Event{Type: cairn.EventStatePatch}
	if ev.Patch, err = doc.Apply(list); err != nil {
		return nil, err
	}
	if note, err := json.Marshal(ev.Patch); err != nil || len(note) > maxPatchNote {
		ev.Patch, ev.Truncated = nil, true
	}
	return &driver.Commit{State: change, Events: []cairn.Event{ev}}, nil
}

// encodeState returns the JSON of a state that the application gives.
func encodeState(state any) (json.RawMessage, error) {
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, cairn.Invalid("state", "cannot be encoded as JSON: %v", err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil, cairn.Invalid("state", "must be a JSON object")
	}
	return raw, cairn.CheckJSON("state", raw)
}

// checkInitial returns the state that the options give to a session that is created for an agent; nil for none.
func (e *Engine) checkInitial(ctx context.Context, agent string, o *runOptions) (json.RawMessage, error) {
	if !o.stated {
		return nil, nil
	}
	raw, err := encodeState(o.state)
	if err != nil {
		return nil, err
	}
	return raw, e.runs.CheckState(ctx, &cairn.Session{Agent: agent}, raw)
}

// UpdateState changes a session's state between turns: it calls change with a copy of the state as an S, the type given
// to the agent's [cairn.StateOf], and stores the outcome as [Engine.SetState] does. If the session changes meanwhile,
// it reads the state and calls change again. It returns the errors of [StateAs], [Engine.SetState] and change.
func UpdateState[S any](ctx context.Context, e *Engine, id string, change func(*S) error) (*cairn.Session, error) {
	for {
		row, err := e.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		state, err := StateAs[S](ctx, e, id)
		if err != nil {
			return nil, err
		}
		if err := change(&state); err != nil {
			return nil, err
		}
		after, err := e.SetState(ctx, id, state, IfVersion(row.Version))
		if !errors.Is(err, cairn.ErrStale) {
			return after, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
