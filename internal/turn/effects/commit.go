package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// Commit ends the step: it gathers what the step produced, decides whether the run continues, and writes all of it at
// once.
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
		if l.Row.Step >= at.Step { // an effect that is run again after its answer was lost
			return turn.Committed{}, nil
		}
		return turn.Committed{}, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", at.Step)
	}
	out, err := fx.conclude(ctx, a, l, st)
	if err != nil {
		return turn.Committed{}, err
	}
	if out.End != nil && !out.Waits && st.Delegates() {
		// Those that wait go first: should the process die now, the next lease holder finds them ended. What they say then comes
		// before the end of the calls that consulted them.
		if err := l.Emit.Flush(ctx); err != nil {
			return turn.Committed{}, err
		}
		if err := fx.ReapChildren(ctx, l.Row, time.Time{}); err != nil {
			return turn.Committed{}, err
		}
	}
	publish(l, st, out)
	draining := fx.Draining()
	if out.End == nil && !st.Carried && !draining && !define.Durability(a).Due(out.At.Sub(l.LastCommit), out.Checkpoint || out.Summarises()) && !fx.steers(ctx, l) {
		e := &step.Ended{Messages: out.Messages, Ops: out.Ops, Usage: out.Usage, Title: out.Title}
		e.Cache, e.CacheDrop = l.Results.Writes()
		if _, err := fx.sink(l).Keep(ctx, l, e, false); err != nil {
			return turn.Committed{}, err
		}
		l.Defer(st.Number, e)
		return turn.Committed{}, nil
	}
	if err := l.Emit.Flush(ctx); err != nil {
		return turn.Committed{}, err
	}
	opening := fx.opening(l, st, out)
	if err := fx.write(ctx, l, st, out); unkeepable(err) {
		return fx.forgo(ctx, a, l, st, err)
	} else if err != nil {
		return turn.Committed{}, err
	}
	if out.End == nil {
		if draining {
			return turn.Committed{Whole: true}, l.Emit.Flush(ctx)
		}
		return turn.Committed{}, nil
	}
	return fx.ended(ctx, l, out.End, fx.opened(ctx, l, opening, out)), nil
}

// publish puts on the log what the step came to, its calls that were closed first.
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
		l.Emit.Event(cairn.Event{Type: cairn.EventStatePatch, Step: st.Number, Patch: out.Patch})
	}
	if out.Title != nil {
		data, _ := json.Marshal(map[string]string{"title": *out.Title}) // which always encodes
		l.Emit.Event(cairn.Event{Type: cairn.EventContextChanged, Step: st.Number, Name: journal.SessionChanged, Data: data})
	}
	if out.Counts {
		usage := out.Usage
		l.Emit.Event(cairn.Event{Type: cairn.EventUsage, Step: st.Number, Usage: &usage})
	}
}

// conclude works out what the step comes to, with what user code made of it.
func (fx *Effects) conclude(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step) (*session.Outcome, error) {
	out := l.Judged
	if out == nil {
		var err error
		if out, err = fx.gather(ctx, a, l, st); err != nil {
			return nil, err
		}
		if st.Judged != nil { // elsewhere
			_ = l.Fold(out, &st.Judged.Writes) // logged
		}
	}
	out.At = l.Now(fx.Now())
	fx.heed(ctx, l, a, st, out)
	if out.Reply != nil {
		if !st.Carried {
			out.Messages = append(out.Messages, *out.Reply)
		}
		if out.Results != nil {
			out.Messages = append(out.Messages, *out.Results)
		}
		if st.Judged != nil {
			out.Messages = append(out.Messages, st.Judged.Writes.Context...)
		}
	}
	for _, w := range st.Below(nil) {
		out.AddWrites(w)
	}
	for _, c := range st.Calls {
		out.AddWrites(c.Writes())
	}
	for _, c := range st.Calls {
		if c.Result != nil && c.Result.Feedback != "" {
			out.Say(cairn.Context(c.Result.Feedback))
		}
	}
	l.Bound(out)
	out.End = fx.ending(a, l, st, out)
	for i := range out.Messages {
		m := &out.Messages[i]
		m.RunID, m.CreatedAt = l.Run.ID, time.Time{} // the commit's
		if m.ID == "" {
			m.ID = st.ID + "/c" + strconv.Itoa(i)
		}
	}
	return out, nil
}

// gather brings together what the step produced.
func (fx *Effects) gather(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step) (*session.Outcome, error) {
	if err := fx.look(ctx, st); err != nil {
		return nil, err
	}
	out := &session.Outcome{Logger: fx.Logger, At: l.Now(fx.Now()), Stop: l.StopRequest()}
	if st.Reply != nil {
		out.Usage = st.Reply.Usage
		out.Messages = append(make([]cairn.Message, 0, len(st.Reply.Context)+2), st.Reply.Context...)
	}
	for _, w := range st.Below(nil) {
		_ = l.Fold(out, w) // logged
	}
	for _, c := range st.Calls {
		if c.Done() {
			out.Final = c
		}
	}
	out.Waits = out.Stop == nil && out.Final == nil && st.Failed() == nil && st.Waits()
	out.Reply, out.Results = fx.messages(ctx, l, a, st, out)
	out.Counts = out.Reply != nil
	return out, nil
}

// messages returns the reply and the message with every call's result. Calls without a result are closed, unless the step
// waits and will be resumed.
func (fx *Effects) messages(ctx context.Context, l *session.Live, a *cairn.Agent, st *step.Step, out *session.Outcome) (reply, results *cairn.Message) {
	if st.Message() == nil || st.Failed() != nil {
		return nil, nil
	}
	reply = st.Message()
	if len(st.Calls) == 0 {
		return reply, nil
	}
	results = &cairn.Message{ID: st.ID + "/results", Role: cairn.RoleTool, Parts: make([]cairn.Part, 0, len(st.Calls))}
	for _, c := range st.Calls {
		switch {
		case c.Result != nil:
			if err := l.Include(out, results, c.Result); err != nil {
				short := failure(c.Use, err)
				short.Edited = c.Result.Result.Edited
				st.Add(&step.Result{Result: short, Began: c.Result.Began, Consulted: c.Result.Consulted})
			}
		default:
			if w := c.Writes(); w != nil { // of the hooks before a call that waits, or does no more
				_ = l.Fold(out, w) // logged
			}
			if out.Waits {
				continue
			}
			fx.close(ctx, l, st, c, out)
		}
		out.Count(l, a, st, c)
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: c.Result.Result})
	}
	if len(results.Parts) == 0 {
		return reply, nil
	}
	return reply, results
}

// close closes a call: as not executed, or as stopped if it was at work.
func (fx *Effects) close(ctx context.Context, l *session.Live, st *step.Step, c *step.Call, out *session.Outcome) {
	why := "not executed: the turn had ended"
	if out.Stop != nil && out.Final == nil {
		why = "not executed: the run was stopped"
	}
	f := &step.Result{Result: transcript.NotExecuted(c.Use, why), Closed: true}
	if st.Begun(c) {
		f.Result, f.Began = transcript.Stopped(c.Use), !c.Consults() && !c.Continues()
	}
	if w := c.Writes(); w != nil {
		f.Writes = *w
	}
	if c.Consults() && (c.Announced() || st.Carried) {
		f.Consulted = fx.consulted(ctx, l, c)
	}
	st.Add(f)
}

// heed has a stop that came while the step was judged end the run, unless the turn has come to its end. Calls that were to wait
// are closed.
func (fx *Effects) heed(ctx context.Context, l *session.Live, a *cairn.Agent, st *step.Step, out *session.Outcome) {
	if j := st.Judged; out.Stop != nil || out.Final != nil || j == nil || j.Completion != nil || j.Failed != nil {
		return
	}
	if out.Stop = l.StopRequest(); out.Stop == nil || !out.Waits {
		return
	}
	out.Waits = false
	results := &cairn.Message{ID: st.ID + "/results", Role: cairn.RoleTool}
	for _, c := range st.Calls {
		if c.Result == nil {
			fx.close(ctx, l, st, c, out)
			out.Count(l, a, st, c)
		}
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: c.Result.Result})
	}
	out.Results = results
}

// ending returns the record of the run if it ends with this step, or nil.
func (fx *Effects) ending(a *cairn.Agent, l *session.Live, st *step.Step, out *session.Outcome) *cairn.Run {
	run := *l.Run
	run.Steps = st.Number
	if !out.Counts {
		run.Steps--
	}
	run.Usage = l.Row.RunUsage.Add(l.Deferred.Usage).Add(out.Usage)
	if m := st.Message(); m != nil {
		run.Text = m.Text()
	}
	fail := func(reason cairn.Reason, err *cairn.Error) *cairn.Run {
		run.Status, run.Reason, run.Error = cairn.RunFailed, reason, journal.Storable(err)
		return new(run)
	}
	complete := func(c cairn.Completion) *cairn.Run {
		run.Status, run.Reason, run.Text, run.Output = cairn.RunCompleted, c.Reason, c.Text, c.Output
		return new(run)
	}
	stop, final, j := out.Stop, out.Final, st.Judged
	if j == nil {
		j = &step.Judgement{} // user code has no say
	}
	switch {
	case final != nil && final.Result.Failed != nil:
		return fail(cairn.ReasonError, final.Result.Failed)
	case final != nil && final.Done():
		return complete(*final.Result.Completion)
	case j.Failed != nil:
		return fail(cairn.ReasonError, j.Failed)
	case j.Completion != nil:
		return complete(*j.Completion)
	case stop != nil && stop.Kind == cairn.StopAbort:
		run.StopReason = stop.Reason
		return fail(cairn.ReasonAborted, lifecycle.Aborted(*stop))
	case stop != nil:
		run.Status, run.Reason, run.StopReason = cairn.RunInterrupted, cairn.ReasonInterrupted, stop.Reason
		return new(run)
	case st.Failed() != nil:
		return fail(cairn.ReasonError, st.Failed())
	case out.Waits:
		run.Status, run.Reason, run.Suspended = st.Status(), cairn.ReasonSuspended, st.Suspension(l.SuspendedStep(st))
		return new(run)
	case j.Feedback != "":
		out.Say(cairn.Context(j.Feedback))
	case out.Answers(st) && a.Output == nil:
		return complete(cairn.Completion{Reason: replyReason(st.Message()), Text: run.Text})
	case out.Answers(st):
		out.Say(cairn.Context(fmt.Sprintf("Call %s with the final result to end your turn.", cairn.FinishTool)))
	case j.Owes:
		m := cairn.Context(fmt.Sprintf("The turn ends here. Call %s with the final result.", cairn.FinishTool))
		m.Origin = cairn.OriginMustFinish
		out.Say(m)
	}
	if st.Number >= define.Steps(a) {
		return fail(cairn.ReasonError, cairn.Errorf(cairn.CodeMaxSteps, "agent %q used all %d steps of the turn without coming to an end", a.Name, define.Steps(a)))
	}
	return nil
}

// write commits the step with what was deferred before it. Another process may have appended to the session meanwhile;
// then the step is committed on top of that.
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
		c.Dequeue = joined.turns
		var row *cairn.Session
		err = fx.persist(ctx, func() (err error) {
			row, err = fx.Store.Commit(ctx, l.Row.ID, c)
			return err
		})
		stale := errors.Is(err, cairn.ErrStale)
		if seen := store.Seen(err); stale && out.End != nil && seen != nil && seen.Lease.Owner == "" {
			// Nobody else releases this lease: the commit has happened, but its answer was lost.
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
		first := l.Row.MessageCount
		l.Sees(row, fx.Now())
		out.Version = c.Guard.Version + 1
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

// publishCommit publishes the commit. Its messages come before the marks of its steps: a log that has those has all of it.
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
		if c.Step != l.Step.Number { // the step under way has nothing to keep
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
	if title := cmp.Or(out.Title, l.Deferred.Title); title != nil && *title != l.Row.Title {
		c.Context = &store.ContextChange{Title: title}
	}
	c.Cache, c.CacheDrop = l.Results.Writes()
	c.Calls = fx.callWrites(l, l.Step, out.Waits)
	return c, nil
}

// rebase loads what others did to the session and puts the uncommitted operations on top of it. Operations that no
// longer fit are dropped: the change of the state under them was later.
func (fx *Effects) rebase(ctx context.Context, l *session.Live, list []cairn.Op) ([]cairn.Op, error) {
	snap, err := fx.Store.Read(ctx, l.Row.ID, store.ToDrive(0))
	if err != nil {
		return nil, err
	}
	if s := snap.Session; s.Lease.Token != l.Row.Lease.Token || s.Status != cairn.SessionActive || s.RunID != l.Row.RunID {
		return nil, store.Conflict(cairn.CodeFenced, snap.Session, "session %q: the lease was lost", l.Row.ID)
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

// opening lists the calls that can be answered once the step is committed.
func (fx *Effects) opening(l *session.Live, st *step.Step, out *session.Outcome) []store.CallWrite {
	return slices.DeleteFunc(fx.callWrites(l, st, out.Waits), func(w store.CallWrite) bool { return w.Seen > 0 })
}

// opened returns the calls that a commit has opened, with the deadlines that the store made for them.
func (fx *Effects) opened(ctx context.Context, l *session.Live, opening []store.CallWrite, out *session.Outcome) []cairn.PendingCall {
	var list []cairn.PendingCall
	for _, w := range opening {
		w.Call.Deadline = w.Deadline(l.Row.UpdatedAt)
		if w.DeadlineIn > 0 && l.Row.Version != out.Version { // the row is a later one, since the commit's answer was lost
			if kept, err := store.FindCall(ctx, fx.Store, l.Row.RootID, w.Call.ID); err == nil {
				w.Call.Deadline = kept.Deadline
			}
		}
		list = append(list, w.Call)
	}
	return list
}

// ended publishes that the run is over, or suspended until opened calls are answered, and parks the session. The
// run's end is committed: nothing here can change that. It reports whether hooks are notified in an effect of its own.
func (fx *Effects) ended(ctx context.Context, l *session.Live, run *cairn.Run, opened []cairn.PendingCall) turn.Committed {
	run.EndedAt = l.Row.UpdatedAt // as the store has it
	for _, ev := range journal.Pending(run.Steps, opened) {
		l.Emit.Event(ev)
	}
	for _, ev := range journal.End(run) {
		l.Emit.Event(ev)
	}
	if err := l.Emit.Flush(ctx); err != nil {
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
	if run.Status.Suspends() || l.Spoiled { // what comes next depends on what others answer
		fx.Cache.Drop(l)
	} else {
		fx.Cache.Park(l)
	}
	return out
}
