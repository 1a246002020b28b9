package effects

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// later defers the commit of a step to that of a later one. Its marks are live events.
func (fx *Effects) later(ctx context.Context, l *session.Live, out *session.Outcome) error {
	closedCalls(l)
	e := l.Ended(out)
	if _, err := fx.sink(l).Keep(ctx, l, e, false); err != nil {
		return err
	}
	l.Defer(e)
	return nil
}

// write commits the step together with the steps deferred before it, and with their events: what is not on the log yet,
// then what the step came to. It returns the run if it has ended, with the calls that it opened, see [Effects.onTop].
func (fx *Effects) write(ctx context.Context, l *session.Live, out *session.Outcome) (run *cairn.Run, opened []cairn.PendingCall, finish func(context.Context), err error) {
	if out.End != nil && !out.Waits && l.Step.Delegates() {
		if err := fx.endChildren(ctx, l); err != nil {
			return nil, nil, nil, err
		}
	}
	closedCalls(l)
	handed, err := l.Emit.Hand(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	due, marks, end := l.Due(out), l.Marks(out), l.End()
	var c *driver.Commit
	row, finish, err := fx.onTop(ctx, l, &due.Ops, func() (*driver.Commit, error) {
		if l.End() != end { // others have added messages
			due.Messages = session.Unsummarised(due.Messages, end)
		}
		joined, err := fx.joining(ctx, l, out)
		if err != nil {
			return nil, err
		}
		all := due
		all.Messages = append(due.Messages[:len(due.Messages):len(due.Messages)], joined.messages...)
		if c, err = fx.build(l, all, out); err != nil {
			return nil, err
		}
		c.Dequeue = joined.entries
		handed.With(marks...)
		c.Events = fx.follows(handed, l, c, joined.turns, due.Steps, out)
		return c, nil
	})
	if err != nil {
		handed.Back()
		return nil, nil, nil, err
	}
	handed.Done(row)
	l.Committed(row, fx.Now(), c.Messages, out.At)
	return out.End, out.Opened, finish, nil
}

// endChildren ends the sub-agents that the run, which is about to end, left suspended or at work. They end before the
// commit: if the process dies in between, the next lease holder finds them ended, and their last events precede the ends
// of the calls that consulted them.
func (fx *Effects) endChildren(ctx context.Context, l *session.Live) error {
	if err := l.Emit.Flush(ctx); err != nil {
		return err
	}
	return fx.ReapChildren(ctx, l.Row, time.Time{})
}

// closedCalls publishes the calls of the step that were closed.
func closedCalls(l *session.Live) {
	for _, c := range l.Step.Calls {
		if c.Result != nil && c.Result.Closed {
			published := journal.Begun
			if c.Result.Began && !c.Published {
				published = journal.NotBegun
			}
			journal.Call(l.Emit.Event, l.Step, c, published)
		}
	}
}

// onTop commits what build returns. If another process has appended to the session concurrently, it commits on top of
// that: the session is rebased, with what still fits of ops, and build is called again. If build returns no commit, nothing
// is written and row is nil. The end of a run is recorded before the commit that ends it; the caller calls finish
// last, see [lifecycle.Runs.RecordEnd].
func (fx *Effects) onTop(ctx context.Context, l *session.Live, ops *[]cairn.Op, build func() (*driver.Commit, error)) (row *cairn.Session, finish func(context.Context), err error) {
	for {
		c, err := build()
		if err != nil || c == nil {
			return nil, nil, err
		}
		err = fx.persist(ctx, func() (err error) {
			if c.EndRun != nil && finish == nil {
				if finish, err = fx.RecordEnd(ctx, c.EndRun, l.Row); err != nil {
					return err
				}
			}
			row, err = fx.Write(ctx, l.Row.ID, l.Row, c)
			return err
		})
		if !errors.Is(err, cairn.ErrStale) {
			return row, finish, err
		}
		if seen := driver.Seen(err); c.EndRun != nil && seen != nil && seen.Lease.Owner == "" {
			return seen, finish, nil // no other process releases this lease: the commit succeeded and its answer was lost
		}
		if *ops, err = fx.rebase(ctx, l, *ops); err != nil {
			return nil, nil, err
		}
	}
}

// follows adds the events that follow from a commit of steps: its messages, the marks of the steps, and the end of the run
// if it ends. It returns all events of the commit.
func (fx *Effects) follows(to *journal.Handed, l *session.Live, c *driver.Commit, turns []string, steps []int, out *session.Outcome) []cairn.Event {
	count := l.Row.MessageCount + len(c.Messages)
	all := to.And(journal.Added(l.Row.MessageCount, c.Messages)...)
	for _, id := range turns {
		all = to.And(journal.Dequeued(id))
	}
	for _, n := range steps {
		all = to.And(journal.StepCommitted(n, count))
	}
	if cp := c.Checkpoint; cp != nil {
		all = to.And(journal.Checkpoint(cp.Step, cp.ID, count))
	}
	if out.End == nil {
		return all
	}
	out.Opened = nil
	for _, w := range c.Calls {
		if w.Call.Status == cairn.CallOpen && (w.Seen == 0 || w.Call.Kind == cairn.CallEffect) {
			out.Opened = append(out.Opened, w.Call)
		}
	}
	to.And(journal.Pending(out.End.Steps, out.Opened)...)
	return to.And(journal.End(out.End)...)
}

// build returns the commit of the deferred steps and of the step under way, without its events.
func (fx *Effects) build(l *session.Live, due session.Deferred, out *session.Outcome) (*driver.Commit, error) {
	end, list, steps := out.End, due.Ops, due.Steps
	c := &driver.Commit{
		Guard:    driver.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version},
		Messages: due.Messages, Usage: due.Usage.Usage, UsageEntries: due.Usage.Entries, Statements: out.Statements, LogSequence: l.Emit.Position(), DropStaged: true,
		Lease: driver.LeaseChange{Action: driver.LeaseRenew, TTL: fx.LeaseTTL},
	}
	if len(list) > 0 {
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrState, "state: %w", err)
		}
		c.State = &driver.StateChange{Ops: list}
		if driver.KeyframeDue(l.Row.State, len(raw)) {
			c.State.Keyframe = l.State()
		}
	}
	if n := len(steps); n > 0 {
		c.Step = steps[n-1]
		id := l.Step.ID
		if c.Step != l.Step.Number { // the step under way added nothing
			id = step.ID(l.Run.ID, c.Step)
		}
		c.Checkpoint = &cairn.Checkpoint{ID: step.CheckpointID(l.Run.ID, c.Step), RunID: l.Run.ID, StepID: id,
			Step: c.Step, LogSequence: c.LogSequence}
	}
	if end != nil {
		c.EndRun, c.Status = end, lifecycle.StatusAfter(end.Status)
		c.Lease = driver.LeaseChange{Action: driver.LeaseRelease}
	}
	if out.Waits {
		c.Suspend = l.Waiting(l.Step)
	} else if l.Step.Carried || l.Step.Budget != nil {
		c.Suspend = &driver.Suspend{}
	}
	if c.Context = due.About; c.Context != nil {
		if err := l.CheckAbout(c.Context); err != nil { // another writer has filled the row meanwhile
			fx.Logger.Warn("title, tags and metadata not set", "session", l.Row.ID, "error", err)
			c.Context = nil
		}
	}
	c.Cache, c.CacheDrop = l.CacheWrites()
	c.Calls = fx.callWrites(l, l.Step, out.Waits)
	return c, nil
}

// rebase loads what other writers did to the session, and applies the uncommitted operations on top of it. Operations
// that no longer fit are dropped: the other writer changed the state first.
func (fx *Effects) rebase(ctx context.Context, l *session.Live, list []cairn.Op) ([]cairn.Op, error) {
	snap, err := fx.Store.Read(ctx, l.Row.ID, driver.ToDrive(0))
	if err != nil {
		return nil, err
	}
	if s := snap.Session; s.Lease.Token != l.Row.Lease.Token || s.Status != cairn.SessionActive || s.RunID != l.Row.RunID {
		return nil, driver.Conflict(cairn.ErrFenced, snap.Session, "session %q: the lease was lost", l.Row.ID)
	}
	if snap.Session.Step < l.Row.Step || !l.Within(snap) {
		return nil, behind(l.Row.ID, l.Row.Step+1)
	}
	return l.Rebase(snap, fx.Now(), list, func(err error) {
		fx.Logger.Warn("state write dropped: the state was changed by another writer", "session", l.Row.ID, "error", err)
	})
}
