package journal

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Drain appends the events of a row's outbox to the log. Any process may call it at any time: a log that is a
// [driver.Fencer] gets them once. An outbox without events is on the log already.
func (g *Log) Drain(ctx context.Context, row *cairn.Session) error {
	box := row.Outbox
	if box == nil || len(box.Events) == 0 {
		return nil
	}
	log := row.Log()
	if slices.ContainsFunc(box.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventStepDiscarded }) {
		// The holder before may be alive. What it appends must not follow.
		if _, err := g.AppendAs(ctx, log, driver.AnySequence, driver.Writer{Session: row.ID, Token: row.Lease.Token}); err != nil && !passed(err) {
			return err
		}
	}
	events := g.Storable(slices.Clone(box.Events)) // it may be a copy from a log that keeps larger ones
	for i := range events {
		if events[i].Time.IsZero() { // the store's server knew it, not the process
			events[i].Time = row.UpdatedAt
		}
	}
	w := driver.Writer{Session: "outbox of " + row.ID, Token: max(row.Lease.Token, 1), ID: "outbox", Batch: box.Version}
	if _, err := g.AppendAs(ctx, log, driver.AnySequence, w, events...); err != nil && !passed(err) {
		return err
	}
	return nil
}

// passed reports whether an append was refused because the session has gone on, which it does once an outbox is
// drained, or is gone.
func passed(err error) bool {
	return errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrDeleted)
}

// owes has an emitter drain the outbox of its session's row before it appends anything that follows.
func (e *Emitter) owes(row *cairn.Session) {
	if row.Outbox == nil || len(row.Outbox.Events) == 0 {
		row = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owed = row
}

// settle drains what the emitter owes.
func (e *Emitter) settle(ctx context.Context) error {
	e.mu.Lock()
	row := e.owed
	e.mu.Unlock()
	if row == nil {
		return nil
	}
	if err := e.g.Drain(ctx, row); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owed == row {
		e.owed = nil
	}
	return nil
}
