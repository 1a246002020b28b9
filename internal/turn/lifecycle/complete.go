package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Completion is how far the log of a tree is known to be complete. It is kept between calls of [Runs.Complete].
type Completion struct {
	// Root is the tree's.
	Root string
	// since is a time before the last change of every session that is still to be checked.
	since time.Time
	begun bool
	// older selects the sessions that have not changed since, a page at a time; nil once all were checked.
	older *store.SessionQuery
	// done has the versions of those sessions whose end the log has, and late of those whose end it lacked at the last
	// look.
	done, late map[string]int64
	runs       map[string]int64 // the versions of sessions at which runs that are not their last were completed, by run
	published  map[string]int64 // the versions of what verbs did that the log is known to have, by session
}

// Complete adds what the log of a tree lacks of the sessions that no process drives. Each call checks the sessions that
// have changed since the root's last run began, and a page of the others until all were checked once: the end of a
// companion may have been lost in an earlier turn. The process that ended a run may be about to append its end. So an
// end is added only if two calls in a row find it missing, with a pause that the caller makes. For a session that has
// not changed since the root's last run began, it is added at once. runs are further runs that readers wait for, by
// session.
func (r *Runs) Complete(ctx context.Context, c *Completion, runs map[string]string) error {
	if !c.begun {
		if err := r.beginCompletion(ctx, c); err != nil || !c.begun {
			return err
		}
	}
	rows, err := r.changed(ctx, c)
	if err != nil {
		return err
	}
	if len(rows) == 0 { // nothing has changed, or there is no such tree any more
		if _, err := store.Load(ctx, r.Store, c.Root); err != nil {
			return err
		}
	}
	done, late := map[string]int64{}, map[string]int64{}
	since := c.since
	var errs error
	for _, row := range rows {
		if since.Before(row.UpdatedAt) {
			since = row.UpdatedAt
		}
		errs = errors.Join(errs, r.completeVerb(ctx, c, row))
		if row.Status == cairn.SessionActive || row.RunID == "" {
			continue
		}
		ok := c.done[row.ID] == row.Version
		if !ok {
			if ok, err = r.endPublished(ctx, row); err == nil && !ok && c.late[row.ID] == row.Version {
				err = r.completeEnds(ctx, row, row.Turn)
				ok = err == nil
			}
			errs = errors.Join(errs, err)
		}
		if ok {
			done[row.ID] = row.Version
		} else {
			late[row.ID] = row.Version
		}
	}
	if c.done, c.late = done, late; len(late) == 0 {
		c.since = since
	}
	return errors.Join(errs, r.completeRuns(ctx, c, rows, runs), r.completeOlder(ctx, c))
}

// completeOlder adds the ends that the log lacks of the next page of sessions that have not changed since the root's
// last run began.
func (r *Runs) completeOlder(ctx context.Context, c *Completion) error {
	if c.older == nil {
		return nil
	}
	page, err := r.Store.List(ctx, *c.older)
	if err != nil {
		return err
	}
	var errs error
	for i := range page.Items {
		row := &page.Items[i]
		errs = errors.Join(errs, r.completeVerb(ctx, c, row))
		if row.Status == cairn.SessionActive || row.RunID == "" {
			continue
		}
		ok, err := r.endPublished(ctx, row)
		if err == nil && !ok {
			err = r.completeEnds(ctx, row, row.Turn)
		}
		errs = errors.Join(errs, err)
	}
	if c.older.Cursor = page.Next; page.Next == "" {
		c.older = nil
	}
	return errs
}

// completeVerb publishes a change made outside of runs that the log lacks.
func (r *Runs) completeVerb(ctx context.Context, c *Completion, row *cairn.Session) error {
	if row.Unpublished == nil || c.published[row.ID] == row.Unpublished.Version {
		return nil
	}
	if _, err := r.Publish(ctx, row); err != nil {
		return err
	}
	if c.published == nil {
		c.published = map[string]int64{}
	}
	c.published[row.ID] = row.Unpublished.Version
	return nil
}

// beginCompletion sets the time from which on the tree's changes are checked.
func (r *Runs) beginCompletion(ctx context.Context, c *Completion) error {
	root, err := store.Load(ctx, r.Store, c.Root)
	if err != nil {
		return err
	}
	if root.RunID != "" {
		run, err := store.FindRun(ctx, r.Store, root.ID, root.RunID)
		if err != nil {
			return err
		}
		c.since = run.StartedAt
		c.older = &store.SessionQuery{RootID: root.ID, UpdatedBefore: c.since, Limit: 50}
	}
	c.begun = true
	return nil
}

// changed lists the sessions of a tree that may have changed, each after those below it.
func (r *Runs) changed(ctx context.Context, c *Completion) ([]*cairn.Session, error) {
	var rows []*cairn.Session
	for row, err := range store.All(func(cursor string) (store.Page[cairn.Session], error) {
		return r.Store.List(ctx, store.SessionQuery{RootID: c.Root, UpdatedAfter: c.since, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	above := make(map[string]string, len(rows))
	for _, row := range rows {
		above[row.ID] = row.ParentID
	}
	depth := func(row *cairn.Session) (n int) {
		for id := row.ParentID; id != ""; id = above[id] {
			n++
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b *cairn.Session) int { return depth(b) - depth(a) })
	return rows, nil
}

// completeRuns completes the log for runs that are not the last of their sessions.
func (r *Runs) completeRuns(ctx context.Context, c *Completion, rows []*cairn.Session, runs map[string]string) error {
	if c.runs == nil {
		c.runs = map[string]int64{}
	}
	var errs error
	for run, session := range runs {
		var row *cairn.Session
		if i := slices.IndexFunc(rows, func(r *cairn.Session) bool { return r.ID == session }); i >= 0 {
			row = rows[i]
		}
		seen, looked := c.runs[run]
		if looked && (row == nil || row.Version == seen) {
			continue
		}
		if row == nil {
			var err error
			if row, err = store.Load(ctx, r.Store, session); err != nil {
				errs = errors.Join(errs, err)
				continue
			}
		}
		if row.RunID != run {
			if err := r.Reconcile(ctx, row, run); err != nil && !errors.Is(err, cairn.ErrNotFound) { // not found: queued
				errs = errors.Join(errs, err)
				continue
			}
		}
		c.runs[run] = row.Version
	}
	return errs
}
