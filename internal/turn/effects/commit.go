package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// outcome is what a step comes to: the messages it adds, the state it changes, and whether the run ends with it.
type outcome struct {
	at         time.Time // when it was worked out, by the session's clock
	stop       *cairn.Stop
	final      *step.Call // the one that ends the turn, if any
	reply      *cairn.Message
	results    *cairn.Message // of the calls
	messages   []cairn.Message
	ops        []cairn.Op
	patch      []cairn.PatchOp
	usage      cairn.Usage
	checkpoint bool // somebody asked for one
	counts     bool // the step has something to keep
	waits      bool // calls wait for somebody outside
	end        *cairn.Run
	version    int64 // of the session once the step was written
}

// Commit ends the step: it gathers what the step produced, decides whether the run goes on, and writes all of it at
// once.
func (fx *Effects) Commit(ctx context.Context, at turn.Position) (turn.Committed, error) {
	l, a, err := fx.hold(at)
	if err != nil {
		return turn.Committed{}, err
	}
	return fx.commit(ctx, l, a, at)
}

func (fx *Effects) commit(ctx context.Context, l *live, a *cairn.Agent, at turn.Position) (turn.Committed, error) {
	st := l.step
	if st == nil || st.Number != at.Step {
		if l.row.Step >= at.Step { // an effect that is run again after its answer was lost
			return turn.Committed{}, nil
		}
		return turn.Committed{}, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", at.Step)
	}
	out, err := fx.conclude(ctx, a, l, st)
	if err != nil {
		return turn.Committed{}, err
	}
	if out.end != nil && !out.waits && st.Delegates() {
		// Those that wait go first: should the process die now, the next lease holder finds them ended. What they say then comes
		// before the end of the calls that consulted them.
		if err := l.emit.Flush(ctx); err != nil {
			return turn.Committed{}, err
		}
		if err := fx.leaveChildren(ctx, l.row, time.Time{}); err != nil {
			return turn.Committed{}, err
		}
	}
	out.tell(l, st)
	if out.end == nil && !st.Carried && !a.Durability.Due(out.at.Sub(l.lastCommit), out.checkpoint) {
		e := &step.Ended{Messages: out.messages, Ops: out.ops, Usage: out.usage}
		e.Cache, e.CacheDrop = l.results.writes()
		if _, err := l.sink.keep(ctx, l, e, false); err != nil {
			return turn.Committed{}, err
		}
		l.putOff(st.Number, e)
		return turn.Committed{}, nil
	}
	if err := l.emit.Flush(ctx); err != nil {
		return turn.Committed{}, err
	}
	opening := fx.opening(l, st, out)
	if err := fx.write(ctx, l, st, out); unkeepable(err) {
		return fx.forgo(ctx, a, l, st, err)
	} else if err != nil {
		return turn.Committed{}, err
	}
	if out.end == nil {
		return turn.Committed{}, nil
	}
	tell := fx.ended(ctx, a, l, out.end, fx.opened(ctx, l, opening, out))
	return turn.Committed{Ended: true, Status: out.end.Status, Tell: tell}, nil
}

// tell puts on the log what the step came to, its calls that were closed first.
func (out *outcome) tell(l *live, st *step.Step) {
	for _, c := range st.Calls {
		if c.Result != nil && c.Result.Closed {
			journal.Call(l.emit.Event, st, c, journal.Begun)
		}
	}
	if len(out.patch) > 0 {
		l.emit.Event(cairn.Event{Type: cairn.EventStatePatch, Step: st.Number, Patch: out.patch})
	}
	if out.counts {
		usage := out.usage
		l.emit.Event(cairn.Event{Type: cairn.EventUsage, Step: st.Number, Usage: &usage})
	}
}

// conclude works out what the step comes to, with what user code made of it.
func (fx *Effects) conclude(ctx context.Context, a *cairn.Agent, l *live, st *step.Step) (*outcome, error) {
	out := l.judged
	if out == nil {
		var err error
		if out, err = fx.gather(ctx, a, l, st); err != nil {
			return nil, err
		}
		if st.Judged != nil { // elsewhere
			_ = fx.fold(l, out, &st.Judged.Writes) // logged
		}
	}
	out.at = fx.now(l)
	fx.heed(l, a, st, out)
	if out.reply != nil {
		if !st.Carried {
			out.messages = append(out.messages, *out.reply)
		}
		if out.results != nil {
			out.messages = append(out.messages, *out.results)
		}
		if st.Judged != nil {
			out.messages = append(out.messages, st.Judged.Writes.Context...)
		}
	}
	for _, w := range st.Below(nil) {
		out.hear(w)
	}
	for _, c := range st.Calls {
		out.hear(c.Writes())
	}
	for _, c := range st.Calls {
		if c.Result != nil && c.Result.Feedback != "" {
			out.say(cairn.Context(c.Result.Feedback))
		}
	}
	fx.bound(l, out)
	out.end = fx.ending(a, l, st, out)
	for i := range out.messages {
		m := &out.messages[i]
		m.RunID, m.CreatedAt = l.run.ID, time.Time{} // the commit's
		if m.ID == "" {
			m.ID = st.ID + "/c" + strconv.Itoa(i)
		}
	}
	return out, nil
}

// gather brings together what the step produced.
func (fx *Effects) gather(ctx context.Context, a *cairn.Agent, l *live, st *step.Step) (*outcome, error) {
	if err := fx.look(ctx, st); err != nil {
		return nil, err
	}
	out := &outcome{at: fx.now(l), stop: l.stopRequest()}
	if st.Reply != nil {
		out.usage = st.Reply.Usage
		out.messages = append(make([]cairn.Message, 0, len(st.Reply.Context)+2), st.Reply.Context...)
	}
	for _, w := range st.Below(nil) {
		_ = fx.fold(l, out, w) // logged
	}
	for _, c := range st.Calls {
		if c.Done() {
			out.final = c
		}
	}
	out.waits = out.stop == nil && out.final == nil && st.Failed() == nil && st.Waits()
	out.reply, out.results = fx.messages(l, a, st, out)
	out.counts = out.reply != nil
	return out, nil
}

func (out *outcome) say(m cairn.Message) {
	out.counts = true
	out.messages = append(out.messages, m)
}

// hear says what user code had to say.
func (out *outcome) hear(w *step.Writes) {
	if w == nil {
		return
	}
	for _, m := range w.Context {
		out.say(m)
	}
}

// fold applies writes to the state. What does not fit what other calls of the step wrote is an error of the call, and none of
// its writes are kept.
func (fx *Effects) fold(l *live, out *outcome, w *step.Writes) error {
	fx.count(l, out, w)
	out.checkpoint = out.checkpoint || w.Checkpoint
	if len(w.Ops) == 0 {
		return nil
	}
	var patch []cairn.PatchOp
	err := l.room(out, w.Ops)
	if err == nil {
		l.mu.Lock()
		patch, err = l.doc.Apply(w.Ops)
		l.mu.Unlock()
	}
	if err != nil {
		fx.Logger.Warn("state writes dropped", "session", l.row.ID, "error", err)
		return cairn.Errorf(cairn.CodeState, "the state could not be written: %w", err)
	}
	out.ops = append(out.ops, w.Ops...)
	out.patch = append(out.patch, patch...)
	return nil
}

// messages returns the reply and the message with every call's result. Calls that were not executed are closed, unless
// the step waits and will go on.
func (fx *Effects) messages(l *live, a *cairn.Agent, st *step.Step, out *outcome) (reply, results *cairn.Message) {
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
			if err := fx.include(l, out, results, c.Result); err != nil {
				st.Add(&step.Result{Result: failure(c.Use, err), Began: c.Result.Began, Consulted: c.Result.Consulted})
			}
		case out.waits:
			continue
		default:
			fx.close(l, st, c, out)
		}
		out.count(l, a, st, c)
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: c.Result.Result})
	}
	if len(results.Parts) == 0 {
		return reply, nil
	}
	return reply, results
}

// close closes a call as not executed.
func (fx *Effects) close(l *live, st *step.Step, c *step.Call, out *outcome) {
	why := "not executed: the turn had ended"
	if out.stop != nil && out.final == nil {
		why = "not executed: the run was stopped"
	}
	f := &step.Result{Result: transcript.NotExecuted(c.Use, why), Closed: true}
	if c.Consults() && (c.Announced() || st.Carried) {
		f.Consulted = consulted(l, c)
	}
	st.Add(f)
}

// count adds a call that has its result to the step's usage, and to the tool's cache.
func (out *outcome) count(l *live, a *cairn.Agent, st *step.Step, c *step.Call) {
	out.usage.ToolCalls++
	out.usage.ToolCacheHits += l.remember(a, c, out.at)
	if st.RanChild(c) {
		out.usage.SubAgentRuns++
	}
	if c.Result.Result.IsError {
		out.usage.ToolErrors++
	}
}

// heed has a stop that came while the step was judged end the run, unless the turn has come to its end. Calls that were to wait
// are closed.
func (fx *Effects) heed(l *live, a *cairn.Agent, st *step.Step, out *outcome) {
	if j := st.Judged; out.stop != nil || out.final != nil || j == nil || j.Completion != nil || j.Failed != nil {
		return
	}
	if out.stop = l.stopRequest(); out.stop == nil || !out.waits {
		return
	}
	out.waits = false
	results := &cairn.Message{ID: st.ID + "/results", Role: cairn.RoleTool}
	for _, c := range st.Calls {
		if c.Result == nil {
			fx.close(l, st, c, out)
			out.count(l, a, st, c)
		}
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: c.Result.Result})
	}
	out.results = results
}

// answers reports whether the step is an answer that calls no tools.
func (out *outcome) answers(st *step.Step) bool { return len(st.Calls) == 0 && !st.Carried }

// ending returns the record of the run if it ends with this step, or nil.
func (fx *Effects) ending(a *cairn.Agent, l *live, st *step.Step, out *outcome) *cairn.Run {
	run := *l.run
	run.Steps = st.Number
	if !out.counts {
		run.Steps--
	}
	run.Usage = l.row.RunUsage.Add(l.deferred.usage).Add(out.usage)
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
	stop, final, j := out.stop, out.final, st.Judged
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
		return fail(cairn.ReasonAborted, abortError(*stop))
	case stop != nil:
		run.Status, run.Reason, run.StopReason = cairn.RunInterrupted, cairn.ReasonInterrupted, stop.Reason
		return new(run)
	case st.Failed() != nil:
		return fail(cairn.ReasonError, st.Failed())
	case out.waits:
		run.Status, run.Reason, run.Suspended = st.Status(), cairn.ReasonSuspended, st.Suspension(l.suspendedStep(st))
		return new(run)
	case j.Feedback != "":
		out.say(cairn.Context(j.Feedback))
	case out.answers(st) && a.Output == nil:
		return complete(cairn.Completion{Reason: cairn.ReasonReply, Text: run.Text})
	case out.answers(st):
		out.say(cairn.Context(fmt.Sprintf("Call %s with the final result to end your turn.", cairn.FinishTool)))
	case j.Owes:
		m := cairn.Context(fmt.Sprintf("The turn ends here. Call %s with the final result.", cairn.FinishTool))
		m.Origin = cairn.OriginMustFinish
		out.say(m)
	}
	if st.Number >= a.Steps() {
		return fail(cairn.ReasonError, cairn.Errorf(cairn.CodeMaxSteps, "agent %q used all %d steps of the turn without coming to an end", a.Name, a.Steps()))
	}
	return nil
}

// write commits the step with what was deferred before it. Somebody else may have appended to the session meanwhile;
// then the step goes on top of that.
func (fx *Effects) write(ctx context.Context, l *live, st *step.Step, out *outcome) error {
	messages := out.messages
	if len(l.deferred.messages) > 0 {
		messages = append(l.deferred.messages, messages...)
	}
	list := append(l.deferred.ops, out.ops...)
	steps := l.deferred.steps
	if out.counts {
		steps = append(steps, st.Number)
	}
	for {
		c, err := fx.build(l, messages, list, steps, l.deferred.usage.Add(out.usage), out)
		if err != nil {
			return err
		}
		var row *cairn.Session
		err = fx.persist(ctx, func() (err error) {
			row, err = fx.Store.Commit(ctx, l.row.ID, c)
			return err
		})
		stale := errors.Is(err, cairn.ErrStale)
		if seen := store.Seen(err); stale && out.end != nil && seen != nil && seen.Lease.Owner == "" {
			// Nobody else releases this lease: the commit has happened, but its answer was lost.
			row, err, stale = seen, nil, false
		}
		if stale {
			if list, err = fx.rebase(ctx, l, list); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		l.sees(fx, row)
		out.version = c.Guard.Version + 1
		l.append(messages)
		l.deferred, l.step, l.judged = deferred{}, nil, nil
		l.lastCommit, l.results.changed = out.at, nil
		fx.told(l, steps, c.Checkpoint)
		return nil
	}
}

// told puts the commit on the log.
func (fx *Effects) told(l *live, steps []int, cp *cairn.Checkpoint) {
	for _, n := range steps {
		l.emit.Event(journal.StepCommitted(n, l.row.MessageCount))
	}
	if cp != nil {
		l.emit.Event(journal.Checkpoint(cp.Step, cp.ID, l.row.MessageCount))
	}
}

func (fx *Effects) build(l *live, messages []cairn.Message, list []cairn.Op, steps []int, usage cairn.Usage, out *outcome) (*store.Commit, error) {
	end := out.end
	c := &store.Commit{
		Guard:    store.Guard{Token: l.row.Lease.Token, Version: l.row.Version},
		Messages: messages, Usage: usage, LogSequence: l.emit.Position(), DropStaged: true,
		Lease: store.LeaseChange{Action: store.LeaseRenew, TTL: fx.LeaseTTL},
	}
	if len(list) > 0 {
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, cairn.Errorf(cairn.CodeState, "state: %w", err)
		}
		c.State = &store.StateChange{Ops: list}
		if store.KeyframeDue(l.row.State, len(raw)) {
			c.State.Keyframe = l.doc.Raw()
		}
	}
	if n := len(steps); n > 0 {
		c.Step = steps[n-1]
		id := l.step.ID
		if c.Step != l.step.Number { // the step under way has nothing to keep
			id = step.ID(l.run.ID, c.Step)
		}
		c.Checkpoint = &cairn.Checkpoint{ID: checkpointID(l.run.ID, c.Step), RunID: l.run.ID, StepID: id,
			Step: c.Step, LogSequence: c.LogSequence}
	}
	if end != nil {
		c.EndRun, c.Status = end, sessionStatus(end.Status)
		c.Lease = store.LeaseChange{Action: store.LeaseRelease}
	}
	if out.waits {
		c.Suspend = l.waiting(l.step)
	} else if l.step.Carried {
		c.Suspend = &store.Suspend{}
	}
	c.Cache, c.CacheDrop = l.results.writes()
	c.Calls = fx.callWrites(l, l.step, out.waits)
	return c, nil
}

func checkpointID(runID string, step int) string {
	return "cp_" + strings.TrimPrefix(runID, "run_") + "_" + strconv.Itoa(step)
}

// rebase loads what others did to the session and puts the uncommitted operations on top of it. Operations that no
// longer fit are dropped: whoever changed the state under them was later.
func (fx *Effects) rebase(ctx context.Context, l *live, list []cairn.Op) ([]cairn.Op, error) {
	snap, err := fx.Store.Read(ctx, l.row.ID, store.ToDrive(0))
	if err != nil {
		return nil, err
	}
	if s := snap.Session; s.Lease.Token != l.row.Lease.Token || s.Status != cairn.SessionActive || s.RunID != l.row.RunID {
		return nil, store.Conflict(cairn.CodeFenced, snap.Session, "session %q: the lease was lost", l.row.ID)
	}
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.row.ID, err)
	}
	var fitting []cairn.Op
	for _, op := range list {
		if _, err := doc.Apply([]cairn.Op{op}); err != nil {
			fx.Logger.Warn("state write dropped: the state was changed by somebody else", "session", l.row.ID, "error", err)
			continue
		}
		fitting = append(fitting, op)
	}
	l.sees(fx, snap.Session)
	l.calls = snap.Calls
	if l.step.Carried {
		l.step.Attach(l.calls)
	}
	if err := l.load(doc.Raw(), snap.Messages); err != nil {
		return nil, err
	}
	l.doc = doc
	return fitting, nil
}

// opening lists the calls that can be answered once the step is committed.
func (fx *Effects) opening(l *live, st *step.Step, out *outcome) []store.CallWrite {
	return slices.DeleteFunc(fx.callWrites(l, st, out.waits), func(w store.CallWrite) bool { return w.Seen > 0 })
}

// opened returns the calls that a commit has opened, with the deadlines that the store made for them.
func (fx *Effects) opened(ctx context.Context, l *live, opening []store.CallWrite, out *outcome) []cairn.PendingCall {
	var list []cairn.PendingCall
	for _, w := range opening {
		w.Call.Deadline = w.Deadline(l.row.UpdatedAt)
		if w.DeadlineIn > 0 && l.row.Version != out.version { // the row is a later one, since the commit's answer was lost
			if kept, err := store.FindCall(ctx, fx.Store, l.row.RootID, w.Call.ID); err == nil {
				w.Call.Deadline = kept.Deadline
			}
		}
		list = append(list, w.Call)
	}
	return list
}

// ended tells everybody that the run is over, or suspended until opened calls are answered, and parks the session. The
// run's end is committed: nothing here can change that. It reports whether hooks are to hear of it in an effect of its own.
func (fx *Effects) ended(ctx context.Context, a *cairn.Agent, l *live, run *cairn.Run, opened []cairn.PendingCall) (tell bool) {
	for _, ev := range journal.Pending(run.Steps, opened) {
		l.emit.Event(ev)
	}
	for _, ev := range journal.End(run) {
		l.emit.Event(ev)
	}
	if err := l.emit.Flush(ctx); err != nil {
		l.untold = true
		if l.row.ParentID != "" {
			fx.untoldEnds.Store(l.row.ID, struct{}{})
		}
		fx.Logger.Warn("the end of a run was not written to the event log; a reader will add it", "session", l.row.ID, "run", run.ID, "error", err)
	}
	tell = tells(l.all, run)
	if tell && !fx.Apart {
		fx.tellEnd(ctx, l, run)
	}
	l.logLast = l.emit.Position()
	l.emit.Close()
	row := l.row
	if run.Status.Suspends() || l.spoiled { // what comes next depends on what others answer
		fx.cache.drop(l)
	} else {
		fx.cache.park(l)
	}
	if tell = tell && fx.Apart; !tell && fx.Ended != nil {
		fx.Ended(ctx, run, row)
	}
	return tell
}
