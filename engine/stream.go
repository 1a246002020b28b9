package engine

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// Stream is the extent of the event log of a session's tree.
type Stream struct {
	// First and Last are the sequences of the first event that is left and of the last event. First is Last+1 if no event
	// is left, and Last is 0 if there never was one.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Cursor is the place of the last event: what [Engine.Events] yields after it is new.
	Cursor cairn.Cursor `json:"cursor"`
	// Ended reports whether no run of the session is under way or about to begin: events follow only if another request
	// is made. A session that waits for people has ended until the last of its answers is there.
	Ended bool `json:"ended"`
}

// Stream returns the extent of the event log of a session's tree.
func (e *Engine) Stream(ctx context.Context, id string) (Stream, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return Stream{}, err
	}
	first, last, err := e.log.Bounds(ctx, row.Log())
	if err != nil {
		return Stream{}, err
	}
	ended := row.Status != cairn.SessionActive && !row.Ready() && row.Ending == nil && row.Queued == 0
	return Stream{First: first, Last: last, Cursor: cairn.Cursor{Incarnation: row.Incarnation, Sequence: last}, Ended: ended}, nil
}

// Emit publishes a custom event on the log of a session's tree, with data encoded as JSON, as [cairn.Step.Emit] does
// from within a run. It belongs to no run and may be called at any time. The event is on the log when Emit returns; a
// call whose error leaves that open may be repeated, which may publish it twice. The error is ErrInvalid for a name
// that breaks the rules of ids and for data that cannot be encoded as JSON. It is ErrTooLarge for an event that the log
// does not accept, and ErrNotFound if the session does not exist.
func (e *Engine) Emit(ctx context.Context, id, name string, data any) error {
	if problem := ids.Check(name); problem != "" {
		return cairn.Invalid("name", "event name %s", problem)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return cairn.Invalid("data", "event %q: %v", name, err)
	}
	if err := cairn.CheckJSON("data", raw); err != nil {
		return err
	}
	row, err := e.Session(ctx, id)
	if err != nil {
		return err
	}
	ev := cairn.Event{Type: cairn.EventCustom, SessionID: id, Agent: row.Agent, Time: row.AsOf, Name: name, Data: raw}
	if err := driver.CheckEvent(&ev, e.log.MaxEvent()); err != nil {
		return err
	}
	_, err = e.log.Append(ctx, row.Log(), driver.AnySequence, ev)
	return err
}
