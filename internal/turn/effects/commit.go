package effects

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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

// Commit ends the step. It gathers what the step produced, decides whether the run continues, and writes everything in
// one commit.
func (fx *Effects) Commit(ctx context.Context, at turn.Position) (turn.Committed, error) {
	l, a, err := fx.hold(at)
	if err != nil {
		return turn.Committed{}, err
	}
	return fx.commit(ctx, l, a, at)
}

func (fx *Effects) commit(ctx context.Context, l *session.Live, a *cairn.Agent, at turn.Position) (turn.Committed, error) {
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
		if err := fx.endChildren(ctx, l, out); err != nil {
			return turn.Committed{}, err
		}
	}
	publish(l, st, out)
	draining := fx.Draining()
	if out.End == nil && !st.Carried && !draining && !define.Durability(a).Due(out.At.Sub(l.LastCommit), out.Checkpoint || out.Summarises()) && !fx.joins(ctx, l) {
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
	if err := l.Emit.Flush(ctx); err != nil {
		return turn.Committed{}, err
	}
	opening := fx.opening(l, st, out)
	stop, err := fx.recordStop(ctx, l, out.End)
	if err != nil {
		return turn.Committed{}, err
	}
	if err := fx.write(ctx, l, st, out); unkeepable(err) {
		return fx.failUnstorable(ctx, a, l, st, err)
	} else if err != nil {
		return turn.Committed{}, err
	}
	if out.End == nil {
		if draining {
			return turn.Committed{Whole: true}, l.Emit.Flush(ctx)
		}
		return turn.Committed{}, nil
	}
	defer fx.Owed.Deliver(ctx, stop)
	return fx.ended(ctx, l, out.End, fx.opened(ctx, l, opening, out)), nil
}

// endChildren ends the sub-agents that the run, which is about to end, left suspended or at work. They end before the
// commit: if the process dies in between, the next lease holder finds them ended. Their last events then precede the
// ends of the calls that consulted them. That holds even if another process, which is stopping the tree, ended a child
// and has yet to publish its end.
func (fx *Effects) endChildren(ctx context.Context, l *session.Live, out *session.Outcome) error {
	err := l.Emit.Flush(ctx)
	if err == nil {
		err = fx.ReapChildren(ctx, l.Row, time.Time{})
	}
	if err == nil && out.Stop != nil {
		err = fx.CompleteBelow(ctx, l.Row, l.Run.StartedAt)
	}
	return err
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

// publish publishes what the step came to, starting with the calls that were closed.
func publish(l *session.Live, st *step.Step, out *session.Outcome) {
	for _, c := range st.Calls {
		if c.Result != nil && c.Result.Closed {
			published := journal.Begun
			if c.Result.Began && !c.Published {
				published = journal.Unpublished
			}
			journal.Call(l.Emit.Event, st, c, published)
		}
	}
	if len(out.Patch) > 0 {
		l.Emit.Event(cairn.Event{Type: cairn.EventStatePatch, Step: st.Number, Patch: out.Patch, Conflicts: out.Conflicts})
	}
	for _, c := range out.Conflicts {
		out.Logger.Warn("a call's write to the state was overwritten by a parallel call", "session", l.Row.ID, "run", l.Run.ID, "step", st.Number,
			"path", c.Path, "lost", c.Lost, "won", c.Won)
	}
	if out.About != nil {
		data, _ := json.Marshal(out.About) // it was made of JSON
		l.Emit.Event(cairn.Event{Type: cairn.EventContextChanged, Step: st.Number, Name: journal.SessionChanged, Data: data})
	}
	usage := out.Usage
	switch {
	case out.Counts:
		l.Emit.Event(cairn.Event{Type: cairn.EventUsage, Step: st.Number, Usage: &usage})
	case paid(usage): // the step leaves nothing else
		l.Emit.Event(cairn.Event{Type: cairn.EventUsage, Usage: &usage})
	}
}

// write commits the step together with the steps deferred before it. If another process has appended to the session
// concurrently, the step is committed on top of that.
func (fx *Effects) write(ctx context.Context, l *session.Live, st *step.Step, out *session.Outcome) error {
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
		if _, err := fx.Publish(ctx, l.Row); err != nil {
			return err
		}
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
		var row *cairn.Session
		tries := 0
		err = fx.persist(ctx, func() (err error) {
			tries++
			row, err = fx.Store.Commit(ctx, l.Row.ID, c)
			return err
		})
		out.Repeated = out.Repeated || tries > 1
		stale := errors.Is(err, cairn.ErrStale)
		if seen := store.Seen(err); stale && out.End != nil && seen != nil && seen.Lease.Owner == "" {
			// No other process releases this lease, so the commit succeeded and its answer was lost.
			row, err, stale, out.Repeated = seen, nil, false, true
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
		first := l.Row.MessageCount
		l.Sees(row, fx.Now())
		l.Append(all)
		l.Deferred, l.Step, l.Judged = session.Deferred{}, nil, nil
		l.LastCommit = out.At
		l.Results.Written()
		added := journal.Added(first, all)
		for _, id := range joined.turns {
			added = append(added, journal.Dequeued(id))
		}
		fx.publishCommit(l, added, steps, c.Checkpoint)
		return nil
	}
}

// publishCommit publishes the commit. Its messages come before the marks of its steps, so a log that has the marks has
// all of it.
func (fx *Effects) publishCommit(l *session.Live, added []cairn.Event, steps []int, cp *cairn.Checkpoint) {
	for _, ev := range added {
		l.Emit.Event(ev)
	}
	for _, n := range steps {
		l.Emit.Event(journal.StepCommitted(n, l.Row.MessageCount))
	}
	if cp != nil {
		l.Emit.Event(journal.Checkpoint(cp.Step, cp.ID, l.Row.MessageCount))
	}
}

func (fx *Effects) build(l *session.Live, messages []cairn.Message, list []cairn.Op, steps []int, usage cairn.Usage, out *session.Outcome) (*store.Commit, error) {
	end := out.End
	c := &store.Commit{
		Guard:    store.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version},
		Messages: messages, Usage: usage, Statements: out.Statements, LogSequence: l.Emit.Position(), DropStaged: true,
		Lease: store.LeaseChange{Action: store.LeaseRenew, TTL: fx.LeaseTTL}, Published: true,
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

// opening returns the calls that become open once the step is committed.
func (fx *Effects) opening(l *session.Live, st *step.Step, out *session.Outcome) []store.CallWrite {
	return slices.DeleteFunc(fx.callWrites(l, st, out.Waits), func(w store.CallWrite) bool { return w.Seen > 0 })
}

// opened returns the calls that a commit opened, with the deadlines that the store computed.
func (fx *Effects) opened(ctx context.Context, l *session.Live, opening []store.CallWrite, out *session.Outcome) []cairn.PendingCall {
	var list []cairn.PendingCall
	for _, w := range opening {
		w.Call.Deadline = w.Deadline(l.Row.UpdatedAt)
		// The commit's answer was lost, and the row may be a later one.
		if w.DeadlineIn > 0 && out.Repeated {
			if kept, err := store.FindCall(ctx, fx.Store, l.Row.RootID, w.Call.ID); err == nil {
				w.Call.Deadline = kept.Deadline
			}
		}
		list = append(list, w.Call)
	}
	return list
}

// ended publishes that the run is over, or suspended until the opened calls are answered, and parks the session. The
// run's end is committed, and nothing here can change it. The result reports whether a separate effect calls the hooks.
func (fx *Effects) ended(ctx context.Context, l *session.Live, run *cairn.Run, opened []cairn.PendingCall) turn.Committed {
	run.EndedAt = l.Row.UpdatedAt // as the store has it
	fx.LogEnd(l.Row, run, opened)
	for _, ev := range journal.Pending(run.Steps, opened) {
		l.Emit.Event(ev)
	}
	for _, ev := range journal.End(run) {
		l.Emit.Event(ev)
	}
	err := l.Emit.Flush(ctx)
	if errors.Is(err, cairn.ErrFenced) { // another process found the end and started to publish it, but may have died
		err = fx.Reconcile(ctx, l.Row, run.ID)
	}
	if err != nil {
		l.LogIncomplete = true
		if l.Row.ParentID != "" {
			fx.Unpublished.Store(l.Row.ID, struct{}{})
		}
		fx.Logger.Warn("the end of a run was not written to the event log; a reader will add it", "session", l.Row.ID, "run", run.ID, "error", err)
	}
	out := turn.Committed{Committed: host.Committed{Ended: true, Status: run.Status}}
	if l.Hooks().WantEnd(run) {
		if out.Notify = fx.Remote; !fx.Remote {
			fx.RunEnded(ctx, l, run)
		}
	}
	l.LogLast = l.Emit.Position()
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
