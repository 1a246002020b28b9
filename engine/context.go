package engine

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/store"
)

// SetContext changes a session's user, title, tags, metadata and expiry, whether or not the session is running. Nil
// fields of change keep their values. Entries of Metadata are set one by one, and an empty string or nil removes one. The
// change is one durable write, whatever is written concurrently, and counts as activity. Tools and hooks of a run under
// way see it from the run's next commit on.
//
//	row, err := eng.SetContext(ctx, "session-1", store.ContextChange{
//		Title: new("Order 42"), Metadata: cairn.Metadata{"plan": "pro", "seats": 3},
//	})
//
// User and expiry belong to the whole tree. A new user is also set on the sessions of sub-agents and companions and on
// their pending calls, one session at a time, the root last; if SetContext fails in between, repeat it. The error is
// ErrInvalid for a user or an expiry of a session that is not a root, for an empty change, and for values that cannot
// be stored, and ErrTooLarge for more than [cairn.MaxMetadataBytes] or [cairn.MaxTitleBytes].
func (e *Engine) SetContext(ctx context.Context, id string, change store.ContextChange) (*cairn.Session, error) {
	row, err := e.Session(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case reflect.ValueOf(change).IsZero():
		return nil, cairn.Invalid("context", "nothing is to be changed")
	case row.RootID != id && change.UserID != nil:
		return nil, cairn.Invalid("user_id", "session %q belongs to a sub-agent; its user is that of its root %q", id, row.RootID)
	case row.RootID != id && change.ExpiresAt != nil:
		return nil, cairn.Invalid("expires_at", "session %q belongs to a sub-agent; it expires with its root %q", id, row.RootID)
	}
	change.Apply(row)
	if err := row.ValidateContext(); err != nil {
		return nil, err
	}
	if change.UserID != nil {
		for s, err := range e.reader.sessions(ctx, store.SessionQuery{RootID: id}) {
			if err != nil {
				return nil, err
			}
			if s.ID == id || s.UserID == *change.UserID {
				continue
			}
			if _, err := e.setContext(ctx, s.ID, store.ContextChange{UserID: change.UserID}); err != nil && !store.IsGone(err) {
				return nil, err
			}
		}
	}
	return e.setContext(ctx, id, change)
}

// setContext changes the context of one session, and the user of its pending calls.
func (e *Engine) setContext(ctx context.Context, id string, change store.ContextChange) (*cairn.Session, error) {
	data, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return e.runs.Change(ctx, id, func(row *cairn.Session) (*store.Commit, error) {
		after := *row
		change.Apply(&after)
		if err := after.ValidateContext(); err != nil {
			return nil, err
		}
		c := &store.Commit{Context: &change,
			Publish: &cairn.Event{Type: cairn.EventContextChanged, Name: journal.SessionChanged, Data: data}}
		if after.UserID == row.UserID {
			return c, nil
		}
		for call, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
			return e.store.Calls(ctx, store.CallQuery{RootID: row.RootID, SessionID: id, Cursor: cursor,
				Statuses: []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered}})
		}) {
			if err != nil {
				return nil, err
			}
			// The commit gives the call the session's user.
			c.Calls = append(c.Calls, store.CallWrite{Call: *call, Seen: call.Version})
		}
		return c, nil
	})
}

// addition returns the commit that adds hidden messages to a session. On an active session they enter the queue: the
// run may have seen more than the store has, and its next commit appends them behind that.
func (e *Engine) addition(row *cairn.Session, messages []cairn.Message, published cairn.EventType) (*store.Commit, error) {
	if row.Status == cairn.SessionActive {
		return &store.Commit{Enqueue: &store.QueuedTurn{ID: messages[0].ID, Messages: messages, Context: true, At: row.AsOf}}, e.room(row)
	}
	return &store.Commit{Messages: messages, Publish: &cairn.Event{Type: published}}, nil
}
