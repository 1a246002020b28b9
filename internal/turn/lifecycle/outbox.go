package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Write commits c to a session that was seen as before, or that c creates. The events of c are on the log with the
// commit if the log is the store's own. Otherwise they are kept on the row and appended right after the commit, by this
// process or by the next one that writes to the session, reads its log, or finds it due.
func (r *Runs) Write(ctx context.Context, id string, before *cairn.Session, c *store.Commit) (*cairn.Session, error) {
	if err := r.box(ctx, before, c); err != nil {
		return nil, err
	}
	row, err := r.Store.Commit(ctx, id, c)
	if err != nil {
		return row, err
	}
	return r.Settle(ctx, row), nil
}

// Change commits a change to a session outside of its runs, as [store.Update] does. The events of the commit get the
// session's ids and the version of the change.
func (r *Runs) Change(ctx context.Context, id string, change func(*cairn.Session) (*store.Commit, error)) (*cairn.Session, error) {
	row, err := store.Update(ctx, r.Store, id, func(row *cairn.Session) (*store.Commit, error) {
		c, err := change(row)
		if err != nil || c == nil || len(c.Events) == 0 {
			return c, err
		}
		c.Events = r.Marks(row, "", c.Events...)
		for i := range c.Events {
			c.Events[i].Version = 1 // the store sets it
		}
		return c, r.box(ctx, row, c)
	})
	if err != nil {
		return row, err
	}
	return r.Settle(ctx, row), nil
}

// box makes a commit keep its events on the row unless the log is the store's own. The outbox of the row before is then
// on the log.
func (r *Runs) box(ctx context.Context, before *cairn.Session, c *store.Commit) error {
	if r.Journal.Own || len(c.Events) == 0 {
		return nil
	}
	c.Outbox = true
	if before == nil || before.Outbox == nil {
		return nil
	}
	c.Drained = before.Outbox.Version
	return r.Drain(ctx, before)
}

// Settle brings the events of a commit to the log and returns the session's row. It only logs errors: another process
// finds what is left.
func (r *Runs) Settle(ctx context.Context, row *cairn.Session) *cairn.Session {
	if row.Outbox == nil {
		return row
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	row, err := r.Empty(ctx, row)
	if err != nil {
		r.Logger.Warn("events of a commit are not on the log yet; the session's row keeps them", "session", row.ID, "error", err)
	}
	return row
}

// Drain appends the events of a row's outbox to the log. Any process may call it at any time: a log that is a
// [store.Fencer] gets them once.
func (r *Runs) Drain(ctx context.Context, row *cairn.Session) error {
	box := row.Outbox
	if box == nil {
		return nil
	}
	log := row.Log()
	if slices.ContainsFunc(box.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventStepDiscarded }) {
		// The holder before may be alive. What it appends must not follow.
		if _, err := r.Journal.AppendAs(ctx, log, store.AnySequence, store.Writer{Session: row.ID, Token: row.Lease.Token}); err != nil && !passed(err) {
			return err
		}
	}
	events := slices.Clone(box.Events)
	for i := range events {
		if events[i].Time.IsZero() { // the store's server knew it, not the process
			events[i].Time = row.UpdatedAt
		}
	}
	w := store.Writer{Session: "outbox of " + row.ID, Token: max(row.Lease.Token, 1), ID: "outbox", Batch: box.Version}
	if _, err := r.Journal.AppendAs(ctx, log, store.AnySequence, w, events...); err != nil && !passed(err) {
		return err
	}
	return nil
}

// passed reports whether an append was refused because the session has gone on, which it does once an outbox is
// drained, or is gone.
func passed(err error) bool {
	return errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrDeleted)
}

// Empty drains a row's outbox and, unless a run is under way, whose next commit does it, removes it from the row.
func (r *Runs) Empty(ctx context.Context, row *cairn.Session) (*cairn.Session, error) {
	if err := r.Drain(ctx, row); err != nil || row.Outbox == nil || row.Status == cairn.SessionActive {
		return row, err
	}
	cleared, err := r.Store.Commit(ctx, row.ID, &store.Commit{Guard: store.Guard{Version: row.Version}, Drained: row.Outbox.Version})
	if errors.Is(err, cairn.ErrStale) { // another writer has gone on
		return row, nil
	}
	if err != nil {
		return row, err
	}
	return cleared, nil
}

// Marks returns the events that follow from a commit to a session, for the commit.
func (r *Runs) Marks(row *cairn.Session, runID string, events ...cairn.Event) []cairn.Event {
	return r.Journal.Marks(row.ID, row.Agent, runID, events)
}

// Rewound completes the event of a session that is taken back, in the commit that does it. The store sets its Version.
func Rewound(ev cairn.Event) cairn.Event {
	ev.Type, ev.Version = cairn.EventRewound, 1
	return ev
}

// Outboxes are those of a tree's sessions. They are kept between calls of [Runs.Look].
type Outboxes struct {
	// Root is the tree's.
	Root string
	// since is a time before the last change of every session that is still to be looked at, and seen the versions of the
	// outboxes at the last look, by session.
	since time.Time
	seen  map[string]int64
}

// Look returns an error if a tree is gone. If its log is not the store's own, it also drains outboxes that have not
// changed since the last look: until then, the process that filled one is about to drain it.
func (r *Runs) Look(ctx context.Context, b *Outboxes) error {
	root, err := store.Load(ctx, r.Store, b.Root)
	if err != nil || r.Journal.Own {
		return err
	}
	since, seen := root.AsOf, map[string]int64{}
	var errs error
	for row, err := range r.list(ctx, store.SessionQuery{RootID: b.Root, UpdatedAfter: b.since}) {
		switch {
		case err != nil:
			return err
		case row.Outbox == nil:
			continue
		case b.seen[row.ID] == row.Outbox.Version:
			_, err = r.Empty(ctx, row)
			errs = errors.Join(errs, err)
		}
		seen[row.ID] = row.Outbox.Version
		if row.UpdatedAt.Before(since) {
			since = row.UpdatedAt
		}
	}
	b.since, b.seen = since, seen
	return errs
}
