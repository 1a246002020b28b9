package effects

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/owed"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// commit ends the step. It gathers what the step produced, decides whether the run continues, and writes everything in
// one commit.
func (fx *Effects) commit(ctx context.Context, l *session.Live, a *cairn.Agent, at turn.Position, _ *cairn.Error) (turn.Committed, error) {
	st := l.Step
	if st == nil || st.Number != at.Step {
		if l.Row.Step >= at.Step { // a repeated effect, whose first answer was lost
			return turn.Committed{}, nil
		}
		return turn.Committed{}, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", at.Step)
	}
	out, err := fx.conclude(ctx, a, l, st)
	if err != nil {
		return turn.Committed{}, err
	}
	if out.End != nil && !out.Waits && st.Delegates() {
		if err := fx.endChildren(ctx, l); err != nil {
			return turn.Committed{}, err
		}
	}
	closedCalls(l, st)
	marks := came(l, st, out)
	draining := fx.draining()
	if out.End == nil && !st.Carried && !draining && !define.Durability(a).Due(out.At.Sub(l.LastCommit), out.Checkpoint || out.Summarises()) && !fx.joins(ctx, l) {
		for _, ev := range marks {
			l.Emit.Event(ev)
		}
		e := &step.Ended{Messages: out.Messages, Ops: out.Ops, Usage: out.Usage, About: out.About}
		e.Cache, e.CacheDrop = l.Results.Writes()
		if l.Sink != nil { // the process that continues publishes nothing more of this step
			if err := l.Emit.Flush(ctx); err != nil {
				return turn.Committed{}, err
			}
		}
		if _, err := fx.sink(l).Keep(ctx, l, e, false); err != nil {
			return turn.Committed{}, err
		}
		if st.Reply != nil {
			l.Deferred.Paid = l.Deferred.Paid.Add(st.Reply.Usage)
		}
		l.Defer(st.Number, e)
		return turn.Committed{}, nil
	}
	stop, err := fx.recordStop(ctx, l, out.End)
	if err != nil {
		return turn.Committed{}, err
	}
	if err := fx.write(ctx, l, st, out, marks); unkeepable(err) {
		return fx.failUnstorable(ctx, a, l, st, err)
	} else if err != nil {
		return turn.Committed{}, err
	}
	if out.End == nil {
		return turn.Committed{Whole: draining}, nil
	}
	defer fx.Owed.Deliver(ctx, stop)
	return fx.ended(ctx, l, out.End, out.Opened), nil
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

// recordStop records the stop that a run that is about to end owes to work elsewhere, see [owed.Stops.Record]. It does
// nothing if run is nil: the run then continues.
func (fx *Effects) recordStop(ctx context.Context, l *session.Live, run *cairn.Run) (stop *owed.Stop, err error) {
	if run == nil {
		return nil, nil
	}
	err = fx.persist(ctx, func() (err error) { stop, err = fx.Owed.Record(ctx, run, l.Row.ID); return err })
	return stop, err
}

// closedCalls publishes the calls of the step that were closed.
func closedCalls(l *session.Live, st *step.Step) {
	for _, c := range st.Calls {
		if c.Result != nil && c.Result.Closed {
			published := journal.Begun
			if c.Result.Began && !c.Published {
				published = journal.NotBegun
			}
			journal.Call(l.Emit.Event, st, c, published)
		}
	}
}

// came returns the events of what the step came to, and logs what parallel calls overwrote.
func came(l *session.Live, st *step.Step, out *session.Outcome) []cairn.Event {
	list := make([]cairn.Event, 0, 3)
	if len(out.Patch) > 0 {
		list = append(list, cairn.Event{Type: cairn.EventStatePatch, Step: st.Number, Patch: out.Patch, Conflicts: out.Conflicts})
	}
	for _, c := range out.Conflicts {
		out.Logger.Warn("a call's write to the state was overwritten by a parallel call", "session", l.Row.ID, "run", l.Run.ID, "step", st.Number,
			"path", c.Path, "lost", c.Lost, "won", c.Won)
	}
	if out.About != nil {
		data, _ := json.Marshal(out.About) // it was made of JSON
		list = append(list, cairn.Event{Type: cairn.EventContextChanged, Step: st.Number, Name: journal.SessionChanged, Data: data})
	}
	usage := out.Usage
	switch {
	case out.Counts:
		list = append(list, cairn.Event{Type: cairn.EventUsage, Step: st.Number, Usage: &usage})
	case paid(usage): // the step leaves nothing else
		list = append(list, cairn.Event{Type: cairn.EventUsage, Usage: &usage})
	}
	return list
}

// write commits the step together with the steps deferred before it, and with their events: what is not on the log yet,
// then came. If another process has appended to the session concurrently, the step is committed on top of that.
func (fx *Effects) write(ctx context.Context, l *session.Live, st *step.Step, out *session.Outcome, came []cairn.Event) (err error) {
	handed, err := l.Emit.Hand(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			handed.Back()
		}
	}()
	messages := out.Messages
	if len(l.Deferred.Messages) > 0 {
		messages = append(l.Deferred.Messages, messages...)
	}
	list := append(l.Deferred.Ops, out.Ops...)
	steps := l.Deferred.Steps
	if out.Counts {
		steps = append(steps, st.Number)
	}
	for {
		joined, err := fx.joining(ctx, l, out)
		if err != nil {
			return err
		}
		all := append(messages[:len(messages):len(messages)], joined.messages...)
		c, err := fx.build(l, all, list, steps, l.Deferred.Usage.Add(out.Usage), out)
		if err != nil {
			return err
		}
		c.Dequeue = joined.entries
		handed.With(came...)
		c.Events = fx.follows(handed, l, c, all, joined.turns, steps, out)
		var row *cairn.Session
		err = fx.persist(ctx, func() (err error) {
			row, err = fx.Write(ctx, l.Row.ID, l.Row, c)
			return err
		})
		stale := errors.Is(err, cairn.ErrStale)
		if seen := store.Seen(err); stale && out.End != nil && seen != nil && seen.Lease.Owner == "" {
			// No other process releases this lease, so the commit succeeded and its answer was lost.
			row, err, stale = seen, nil, false
		}
		if stale {
			end := l.End()
			if list, err = fx.rebase(ctx, l, list); err == nil {
				messages = session.Moved(messages, end, l.End()-end)
				continue
			}
		}
		if err != nil {
			return err
		}
		handed.Done(row)
		l.Sees(row, fx.Now())
		l.Append(all)
		l.Deferred, l.Step, l.Judged = session.Deferred{}, nil, nil
		l.LastCommit = out.At
		l.Results.Written()
		return nil
	}
}

// follows adds the events that follow from a commit of steps: its messages, the marks of the steps, and the end of the run
// if it ends. It returns all events of the commit.
func (fx *Effects) follows(to *journal.Handed, l *session.Live, c *store.Commit, messages []cairn.Message, turns []string, steps []int, out *session.Outcome) []cairn.Event {
	count := l.Row.MessageCount + len(messages)
	all := to.And(journal.Added(l.Row.MessageCount, messages)...)
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
		if w.Seen == 0 {
			out.Opened = append(out.Opened, w.Call)
		}
	}
	to.And(journal.Pending(out.End.Steps, out.Opened)...)
	return to.And(journal.End(out.End)...)
}

func (fx *Effects) build(l *session.Live, messages []cairn.Message, list []cairn.Op, steps []int, usage cairn.Usage, out *session.Outcome) (*store.Commit, error) {
	end := out.End
	c := &store.Commit{
		Guard:    store.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version},
		Messages: messages, Usage: usage, Statements: out.Statements, LogSequence: l.Emit.Position(), DropStaged: true,
		Lease: store.LeaseChange{Action: store.LeaseRenew, TTL: fx.LeaseTTL},
	}
	if len(list) > 0 {
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, cairn.Errorf(cairn.CodeState, "state: %w", err)
		}
		c.State = &store.StateChange{Ops: list}
		if store.KeyframeDue(l.Row.State, len(raw)) {
			c.State.Keyframe = l.Doc.Raw()
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
		c.Lease = store.LeaseChange{Action: store.LeaseRelease}
	}
	if out.Waits {
		c.Suspend = l.Waiting(l.Step)
	} else if l.Step.Carried {
		c.Suspend = &store.Suspend{}
	}
	if c.Context = l.Deferred.About.Then(out.About); c.Context != nil {
		if err := l.CheckAbout(c.Context); err != nil { // another writer has filled the row meanwhile
			fx.Logger.Warn("title, tags and metadata not set", "session", l.Row.ID, "error", err)
			c.Context = nil
		}
	}
	c.Cache, c.CacheDrop = l.Results.Writes()
	c.Calls = fx.callWrites(l, l.Step, out.Waits)
	return c, nil
}

// rebase loads what other writers did to the session, and applies the uncommitted operations on top of it. Operations
// that no longer fit are dropped: the other writer changed the state first.
func (fx *Effects) rebase(ctx context.Context, l *session.Live, list []cairn.Op) ([]cairn.Op, error) {
	snap, err := fx.Store.Read(ctx, l.Row.ID, store.ToDrive(0))
	if err != nil {
		return nil, err
	}
	if s := snap.Session; s.Lease.Token != l.Row.Lease.Token || s.Status != cairn.SessionActive || s.RunID != l.Row.RunID {
		return nil, store.Conflict(cairn.CodeFenced, snap.Session, "session %q: the lease was lost", l.Row.ID)
	}
	if snap.Session.Step < l.Row.Step || !l.Within(snap) {
		return nil, behind(l.Row.ID, l.Row.Step+1)
	}
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	var fitting []cairn.Op
	for _, op := range list {
		if _, err := doc.Apply([]cairn.Op{op}); err != nil {
			fx.Logger.Warn("state write dropped: the state was changed by another writer", "session", l.Row.ID, "error", err)
			continue
		}
		fitting = append(fitting, op)
	}
	l.Sees(snap.Session, fx.Now())
	l.Calls = snap.Calls
	l.Results.Lost(snap.Cache)
	if l.Step.Carried {
		l.Step.Attach(l.Calls)
	}
	if err := l.Load(doc.Raw(), snap.Messages); err != nil {
		return nil, err
	}
	l.Doc = doc
	return fitting, nil
}

// ended parks the session of a run that is over, or suspended until the opened calls are answered. The run's end is
// committed, and nothing here can change it. The result reports whether a separate effect calls the hooks.
func (fx *Effects) ended(ctx context.Context, l *session.Live, run *cairn.Run, opened []cairn.PendingCall) turn.Committed {
	run.EndedAt = l.Row.UpdatedAt // as the store has it
	fx.LogEnd(l.Row, run, opened)
	out := turn.Committed{Committed: host.Committed{Ended: true, Status: run.Status}}
	if l.Hooks().WantEnd(run) {
		if out.Notify = fx.Remote(); !fx.Remote() {
			fx.RunEnded(ctx, l, run)
		}
	}
	l.Emit.Close()
	if !out.Notify {
		out.Run, out.Session = run, l.Row
	}
	if run.Status.Suspends() || l.Spoiled { // what follows depends on the answers of others
		fx.Cache.Drop(l)
	} else {
		fx.Cache.Park(l)
	}
	return out
}
