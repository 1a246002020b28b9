package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/store"
)

// Change commits a change to a session outside of its runs, as [store.Update] does, and publishes the commit's Publish
// event. It first publishes the event of an earlier change that the log may lack. After the commit, a failure to
// publish is not an error: the next process that uses the session publishes the event.
func (r *Runs) Change(ctx context.Context, id string, change func(*cairn.Session) (*store.Commit, error)) (*cairn.Session, error) {
	var written *store.Commit
	row, err := store.Update(ctx, r.Store, id, func(row *cairn.Session) (*store.Commit, error) {
		c, err := change(row)
		written = c
		if err != nil || c == nil || c.Publish == nil {
			return c, err
		}
		c.Publish.Sequence, err = r.Publish(ctx, row)
		return c, err
	})
	if err == nil && written != nil && written.Publish != nil {
		r.Published(ctx, row, written.Messages)
	}
	return row, err
}

// Published publishes the event that a commit with the given messages has left on a session's row. It only logs errors.
func (r *Runs) Published(ctx context.Context, row *cairn.Session, messages []cairn.Message) {
	if row.Unpublished == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	if _, err := r.publish(ctx, row, unpublished(row.Unpublished, messages)); err != nil {
		r.Logger.Warn("what was done to a session is not on its log; a reader will add it", "session", row.ID, "event", row.Unpublished.Type, "error", err)
	}
}

// Publish publishes a change to a session outside of its runs, if the row has one that the log lacks. Any process may
// call it at any time; the log gets the event once. last is then the log's last sequence; 0 if there was nothing to
// publish.
func (r *Runs) Publish(ctx context.Context, row *cairn.Session) (last int64, err error) {
	if row.Unpublished == nil {
		return 0, nil
	}
	var messages []cairn.Message
	if note := row.Unpublished; ofMessages(note) {
		for at := note.Index; at < note.MessageCount; at = note.Index + len(messages) {
			page, err := store.Messages(ctx, r.Store, row.ID, at, note.MessageCount-at)
			if err != nil {
				return 0, err
			}
			if len(page) == 0 {
				break
			}
			messages = append(messages, page...)
		}
	}
	return r.publish(ctx, row, unpublished(row.Unpublished, messages))
}

func (r *Runs) publish(ctx context.Context, row *cairn.Session, all []cairn.Event) (last int64, err error) {
	after := max(row.LogSequence, row.Unpublished.Sequence) // the note may know a later place to look from
	for {
		after, err = r.Journal.EachSince(ctx, row.Log(), after, func(ev *cairn.Event) {
			if ev.SessionID == row.ID && ev.Version == row.Unpublished.Version {
				all = slices.DeleteFunc(all, func(one cairn.Event) bool { return one.Type == ev.Type && one.Index == ev.Index })
			}
		})
		if err != nil || len(all) == 0 {
			return after, err
		}
		_, end, err := r.Log.Bounds(ctx, row.Log())
		if err != nil {
			return 0, err
		}
		after = min(after, end)
		last, err := r.Journal.Publish(ctx, row, after, all)
		if !errors.Is(err, cairn.ErrStale) { // else others wrote meanwhile
			return last, err
		}
	}
}

// ofMessages reports whether a note stands for the events of messages that its commit added.
func ofMessages(note *cairn.Event) bool {
	return note.Type == cairn.EventContextAdded || note.Type == cairn.EventCompacted || note.Type == cairn.EventContextChanged && note.MessageCount > note.Index
}

// unpublished returns the events that a row's note stands for.
func unpublished(note *cairn.Event, messages []cairn.Message) (list []cairn.Event) {
	if ofMessages(note) {
		list = journal.Added(note.Index, messages)
	} else {
		ev := *note
		ev.Sequence, ev.Index = 0, 0
		switch ev.Type {
		case cairn.EventRewound: // not those that the commit added
			ev.MessageCount = note.Index
		case cairn.EventBranched, cairn.EventCheckpoint:
		default:
			ev.MessageCount = 0
		}
		list = append(list, ev)
	}
	for i := range list {
		list[i].Version = note.Version
	}
	return list
}
