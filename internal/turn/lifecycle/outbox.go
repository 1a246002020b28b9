package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/store/driver"
)

// Write commits c to a session that was seen as before, or that c creates. The events of c are on the log with the
// commit if the log is the store's own. Otherwise they are kept on the row and appended right after the commit, by this
// process or by the next one that writes to the session, reads its log, or finds it due.
func (r *Runs) Write(ctx context.Context, id string, before *cairn.Session, c *driver.Commit) (*cairn.Session, error) {
	if err := r.box(ctx, before, c); err != nil {
		return nil, err
	}
	row, err := r.Store.Commit(ctx, id, c)
	if err != nil {
		return row, err
	}
	return r.Settle(ctx, row), nil
}

// Change commits a change to a session outside of its runs, as [driver.Update] does. The events of the commit get the
// session's ids and the version of the change.
func (r *Runs) Change(ctx context.Context, id string, change func(*cairn.Session) (*driver.Commit, error)) (*cairn.Session, error) {
	row, err := driver.Update(ctx, r.Store, id, func(row *cairn.Session) (*driver.Commit, error) {
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
// on the log. A session that was copied to a store with a log of its own may have one, too.
func (r *Runs) box(ctx context.Context, before *cairn.Session, c *driver.Commit) error {
	if len(c.Events) == 0 {
		return nil
	}
	c.Outbox = !r.Journal.Own
	if before == nil || before.Outbox == nil {
		return nil
	}
	c.Drained = before.Outbox.Version
	return r.Journal.Drain(ctx, before)
}

// Settle brings the events of a commit to the log and returns the session's row. It only logs errors: another process
// finds what is left. If the row still has an outbox whose events are on the log, the returned one has it without them.
func (r *Runs) Settle(ctx context.Context, row *cairn.Session) *cairn.Session {
	if row.Outbox == nil {
		return row
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	err := retry.Storage(ctx, r.Logger, func() (err error) { row, err = r.Empty(ctx, row); return err })
	if err != nil {
		r.Logger.Warn("events of a commit not published yet; the session's row keeps them", "session", row.ID, "error", err)
	}
	return row
}

// Empty drains a row's outbox and, unless a run is under way, whose next commit does it, removes it from the row. Until
// then, the returned row has the outbox without events, so that the run does not append them again.
func (r *Runs) Empty(ctx context.Context, row *cairn.Session) (*cairn.Session, error) {
	if err := r.Journal.Drain(ctx, row); err != nil || row.Outbox == nil {
		return row, err
	}
	if row.Status == cairn.SessionActive {
		drained := *row
		drained.Outbox = &cairn.Outbox{Version: row.Outbox.Version}
		return &drained, nil
	}
	cleared, err := r.Store.Commit(ctx, row.ID, &driver.Commit{Guard: driver.Guard{Version: row.Version}, Drained: row.Outbox.Version})
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
// changed since the last look: until then, the process that filled one is about to drain it. A log that is no
// [driver.Fencer] would get the events of an active run twice, so that run's own process drains them as long as it lives.
func (r *Runs) Look(ctx context.Context, b *Outboxes) error {
	root, err := driver.Load(ctx, r.Store, b.Root)
	if err != nil || r.Journal.Own {
		return err
	}
	since, seen := root.AsOf, map[string]int64{}
	_, once := driver.LogAs[driver.Fencer](r.Log)
	var errs error
	for row, err := range r.list(ctx, driver.SessionQuery{RootID: b.Root, UpdatedAfter: b.since}) {
		switch {
		case err != nil:
			return err
		case row.Outbox == nil:
			continue
		case b.seen[row.ID] == row.Outbox.Version && (once || !row.Running(row.AsOf)):
			if _, err = r.Empty(ctx, row); err == nil {
				continue // until it changes
			}
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
