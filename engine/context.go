package engine

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// SetContext changes a session's user, title, tags, metadata and expiry, and archives it or makes it current again,
// whether or not the session is running. Nil fields of change keep their values. Entries of Metadata are set one by
// one, and an empty string or nil removes one. The change is one durable write, which concurrent writes do not prevent,
// and counts as activity. Tools and hooks of a run under way see it from the run's next commit on.
//
//	row, err := eng.SetContext(ctx, "session-1", store.ContextChange{
//		Title: new("Order 42"), Metadata: cairn.Metadata{"plan": "pro", "seats": 3},
//	})
//
// User and expiry belong to the whole tree. A new user is also set on the sessions of sub-agents and companions and on
// their pending calls, one session at a time, the root last; if SetContext fails in between, repeat it. The error is
// ErrInvalid for a user of another tenant, and for a user or an expiry of a session that is not a root. It is
// ErrInvalid, too, for an empty change, and for values that cannot be stored. It is ErrTooLarge for more than
// [cairn.MaxMetadataBytes] or [cairn.MaxTitleBytes].
//
// Archived hides a conversation from lists that ask for current sessions, with store.SessionQuery.Archived; nothing
// else about it changes. It is set on a root, and on the other sessions of its thread that have the same user, one at a
// time, the root last. To archive an archived session writes nothing. The next message of the user in the session makes
// it current, in the write that adds the message to the session or its queue. In a new session of the thread, a message
// makes the thread current. The error is ErrInvalid for a session that is not a root.
func (e *Engine) SetContext(ctx context.Context, id string, change store.ContextChange) (*cairn.Session, error) {
	row, err := e.Session(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case reflect.ValueOf(change).IsZero():
		return nil, cairn.Invalid("context", "no change given")
	case row.RootID != id && change.UserID != nil:
		return nil, cairn.Invalid("user_id", "session %q belongs to a sub-agent; set the user of its root %q", id, row.RootID)
	case row.RootID != id && change.ExpiresAt != nil:
		return nil, cairn.Invalid("expires_at", "session %q belongs to a sub-agent; set the expiry of its root %q", id, row.RootID)
	case row.RootID != id && change.Archived != nil:
		return nil, cairn.Invalid("archived", "session %q belongs to a sub-agent; archive its root %q", id, row.RootID)
	}
	owner := row.UserID
	if change.UserID != nil {
		user, err := qualify("user_id", id, *change.UserID)
		if err != nil {
			return nil, err
		}
		change.UserID = &user
	}
	change.Apply(row)
	if err := row.ValidateContext(); err != nil {
		return nil, err
	}
	if change.Archived != nil {
		if err := e.archiveThread(ctx, row.ThreadID, id, owner, *change.Archived); err != nil {
			return nil, err
		}
	}
	if change.UserID != nil {
		for s, err := range e.reader.sessions(ctx, store.SessionQuery{RootID: id}) {
			if err != nil {
				return nil, err
			}
			if s.ID == id || s.UserID == *change.UserID {
				continue
			}
			if _, err := e.setContext(ctx, s.ID, store.ContextChange{UserID: change.UserID}); err != nil && !driver.IsGone(err) {
				return nil, err
			}
		}
	}
	return e.setContext(ctx, id, change)
}

// archiveThread archives the sessions of a user in a thread, or makes them current, except for one session.
func (e *Engine) archiveThread(ctx context.Context, thread, but, user string, archived bool) error {
	for s, err := range e.reader.sessions(ctx, store.SessionQuery{ThreadID: thread, Archived: new(!archived)}) {
		if err != nil {
			return err
		}
		if s.ID == but || s.UserID != user {
			continue
		}
		if _, err := e.setContext(ctx, s.ID, store.ContextChange{Archived: &archived}); err != nil && !driver.IsGone(err) {
			return err
		}
	}
	return nil
}

// setContext changes the context of one session, and the user of its pending calls.
func (e *Engine) setContext(ctx context.Context, id string, change store.ContextChange) (*cairn.Session, error) {
	data, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	archives := change.Archived != nil && reflect.DeepEqual(change, store.ContextChange{Archived: change.Archived})
	return e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		if archives && *change.Archived != row.ArchivedAt.IsZero() {
			return nil, nil // it is as wanted
		}
		after := *row
		change.Apply(&after)
		if err := after.ValidateContext(); err != nil {
			return nil, err
		}
		c := &driver.Commit{Context: &change,
			Events: []cairn.Event{{Type: cairn.EventContextChanged, Name: journal.SessionChanged, Data: data}}}
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
			c.Calls = append(c.Calls, driver.CallWrite{Call: *call, Seen: call.Version})
		}
		return c, nil
	})
}

// addition returns the commit that adds hidden messages to a session. The error is ErrQueueFull if they would enter a
// queue that can take no further entry.
func (e *Engine) addition(row *cairn.Session, messages []cairn.Message) (*driver.Commit, error) {
	c := &driver.Commit{}
	if add(c, row, messages); c.Enqueue != nil {
		return c, e.room(row)
	}
	return c, nil
}

// add adds hidden messages to a session with a commit. On an active session they enter the queue, however full: the run
// may have seen more than the store has, and its next commit appends them behind that.
func add(c *driver.Commit, row *cairn.Session, messages []cairn.Message) {
	if row.Status == cairn.SessionActive {
		c.Enqueue = &store.QueuedTurn{ID: messages[0].ID, Messages: messages, Context: true, At: row.AsOf}
		return
	}
	c.Messages, c.Events = messages, journal.Added(row.MessageCount, messages)
}
