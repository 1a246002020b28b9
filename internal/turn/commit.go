package turn

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
	"github.com/cairn-agents/cairn/store"
)

// outcome is what a step comes to: the messages it adds, the state it changes, and whether the run ends with it.
type outcome struct {
	at         time.Time // when it was worked out, by the session's clock
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
func (fx *Effects) Commit(ctx context.Context, at Position) (Committed, error) {
	l, a, err := fx.hold(at)
	if err != nil {
		return Committed{}, err
	}
	return fx.commit(ctx, l, a, at)
}

func (fx *Effects) commit(ctx context.Context, l *live, a *cairn.Agent, at Position) (Committed, error) {
	st := l.step
	if st == nil || st.number != at.Step {
		if l.row.Step >= at.Step { // an effect that is run again after its answer was lost
			return Committed{}, nil
		}
		return Committed{}, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", at.Step)
	}
	if err := fx.look(ctx, st); err != nil {
		return Committed{}, err
	}
	out := &outcome{at: fx.now(l), usage: st.usage}
	fx.gather(ctx, a, l, st, out)
	if len(out.patch) > 0 {
		l.emit.event(cairn.Event{Type: cairn.EventStatePatch, Step: st.number, Patch: out.patch})
	}
	if out.counts {
		usage := out.usage
		l.emit.event(cairn.Event{Type: cairn.EventUsage, Step: st.number, Usage: &usage})
	}
	if out.end == nil && !st.told && !a.Durability.Due(out.at.Sub(l.lastCommit), out.checkpoint) {
		if fx.Apart {
			return Committed{}, fx.stageDeferred(ctx, l, st, out)
		}
		l.put(st.number, out)
		return Committed{}, nil
	}
	if err := l.emit.flush(ctx); err != nil {
		return Committed{}, err
	}
	if out.end != nil && !out.waits && slices.ContainsFunc(st.calls, (*call).delegates) {
		// Those that wait go first: should the process die now, whoever takes over finds them ended.
		if err := fx.leaveChildren(ctx, l.row, time.Time{}); err != nil {
			return Committed{}, err
		}
	}
	opening := fx.opening(l, st, out)
	if err := fx.write(ctx, l, st, out); unkeepable(err) {
		return fx.forgo(ctx, a, l, st, err)
	} else if err != nil {
		return Committed{}, err
	}
	if out.end == nil {
		return Committed{}, nil
	}
	fx.ended(ctx, a, l, out.end, fx.opened(ctx, l, opening, out))
	return Committed{Ended: true, Status: out.end.Status}, nil
}

// put keeps a step for a later commit.
func (l *live) put(number int, out *outcome) {
	d := &l.deferred
	for i := range out.messages {
		l.note(&out.messages[i])
	}
	d.messages = append(d.messages, out.messages...)
	d.ops = append(d.ops, out.ops...)
	d.usage = d.usage.Add(out.usage)
	d.steps = append(d.steps, number)
	l.step, l.opening = nil, nil
}

// gather works out what the step comes to.
func (fx *Effects) gather(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome) {
	stop := l.stopRequest()
	for _, s := range [...]*scope{l.opening, st.scope} {
		s.end()
		_ = fx.fold(l, out, s) // logged
	}
	out.messages = append(make([]cairn.Message, 0, len(st.context)+2), st.context...)

	var final *call
	for _, c := range st.calls {
		if c.done {
			final = c
		}
	}
	out.waits = stop == nil && final == nil && st.failed == nil && st.waits()
	reply, results := fx.messages(l, st, out, stop, final)
	if reply != nil {
		out.counts = true
		if !st.told {
			out.messages = append(out.messages, *reply)
		}
		said := fx.announce(ctx, a, l, st, out, reply, results)
		if results != nil {
			out.messages = append(out.messages, *results)
		}
		out.messages = append(out.messages, said...)
	}
	out.hear(l.opening)
	out.hear(st.scope)
	for _, c := range st.calls {
		out.hear(c.scope)
	}
	for _, c := range st.calls {
		if c.feedback != "" {
			out.say(cairn.Context(c.feedback))
		}
	}
	fx.bound(l, out)
	out.end = fx.decide(ctx, a, l, st, out, stop, final)
	for i := range out.messages {
		m := &out.messages[i]
		m.RunID, m.CreatedAt = l.run.ID, time.Time{} // the commit's
		if m.ID == "" {
			m.ID = st.id + "/c" + strconv.Itoa(i)
		}
	}
}

func (out *outcome) say(m cairn.Message) {
	out.counts = true
	out.messages = append(out.messages, m)
}

// hear says what a scope was given to say.
func (out *outcome) hear(s *scope) {
	for _, m := range s.writes().Context {
		out.say(m)
	}
}

// fold applies a scope's writes to the state. What does not fit what other calls of the step wrote is an error of the
// call, and none of its writes are kept.
func (fx *Effects) fold(l *live, out *outcome, s *scope) error {
	w := s.writes()
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
func (fx *Effects) messages(l *live, st *step, out *outcome, stop *cairn.Stop, final *call) (reply, results *cairn.Message) {
	if st.reply == nil || st.failed != nil {
		return nil, nil
	}
	reply = st.reply
	if !st.told {
		reply.ID = st.id + "/reply"
	}
	if len(st.calls) == 0 {
		return reply, nil
	}
	results = &cairn.Message{ID: st.id + "/results", Role: cairn.RoleTool, Parts: make([]cairn.Part, 0, len(st.calls))}
	for _, c := range st.calls {
		if c.result == nil {
			if out.waits {
				continue
			}
			why := "not executed: the turn had ended"
			if stop != nil && final == nil {
				why = "not executed: the run was stopped"
			}
			c.result, c.scope = notExecuted(c.use, why), nil
			l.emit.event(c.ended(st.number))
		} else if err := fx.include(l, out, results, c); err != nil {
			c.result, c.scope, c.done = failure(c.use, err), nil, false
		}
		out.usage.ToolCalls++
		out.usage.ToolCacheHits += l.remember(c, out.at)
		if c.consults() {
			out.usage.SubAgentRuns++
		}
		if c.result.IsError {
			out.usage.ToolErrors++
		}
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: c.result})
	}
	if len(results.Parts) == 0 {
		return reply, nil
	}
	return reply, results
}

// announce calls OnMessage for the reply, then OnMessage and AfterTool for each result, in call order. What the hooks
// write is part of the step; the context they add is returned.
func (fx *Effects) announce(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome, reply, results *cairn.Message) []cairn.Message {
	if !fx.hooked(l, a) {
		return nil
	}
	after := fx.newScope(l, st.number)
	_ = fx.hooks(l, a, func(h *cairn.Hooks) error {
		if h.OnMessage != nil && !st.told {
			h.OnMessage(ctx, l.handle(after), reply)
		}
		return nil
	})
	if results != nil {
		for i := range results.Parts {
			c := st.call(results.Parts[i].Result.CallID)
			one := cairn.Message{ID: results.ID, Role: cairn.RoleTool, Parts: results.Parts[i : i+1]}
			_ = fx.hooks(l, a, func(h *cairn.Hooks) error {
				if h.OnMessage != nil {
					h.OnMessage(ctx, l.handle(after), &one)
				}
				return nil
			})
			_ = fx.hooks(l, a, func(h *cairn.Hooks) error {
				if h.AfterTool != nil {
					h.AfterTool(ctx, l.callHandle(c, after), c.result)
				}
				return nil
			})
		}
	}
	after.end()
	_ = fx.fold(l, out, after) // logged
	return after.writes().Context
}

// decide returns the record of the run if it ends with this step, or nil.
func (fx *Effects) decide(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome, stop *cairn.Stop, final *call) *cairn.Run {
	run := *l.run
	run.Steps = st.number
	if !out.counts {
		run.Steps--
	}
	run.Usage = l.row.RunUsage.Add(l.deferred.usage).Add(out.usage)
	if st.reply != nil {
		run.Text = st.reply.Text()
	}
	fail := func(reason cairn.Reason, err *cairn.Error) *cairn.Run {
		run.Status, run.Reason, run.Error = cairn.RunFailed, reason, storable(err)
		return new(run)
	}
	complete := func(c cairn.Completion) *cairn.Run {
		run.Status, run.Reason, run.Text, run.Output = cairn.RunCompleted, c.Reason, c.Text, c.Output
		return new(run)
	}
	switch {
	case final != nil && final.failed != nil:
		return fail(cairn.ReasonError, final.failed)
	case final != nil && final.done:
		return complete(final.completion)
	case stop != nil && stop.Kind == cairn.StopAbort:
		return fail(cairn.ReasonAborted, abortError(*stop))
	case stop != nil:
		run.Status, run.Reason = cairn.RunInterrupted, cairn.ReasonInterrupted
		return new(run)
	case st.failed != nil:
		return fail(cairn.ReasonError, st.failed)
	case out.waits:
		run.Status, run.Reason, run.Suspended = suspendedStatus(st), cairn.ReasonSuspended, l.suspension(st)
		return new(run)
	}
	if len(st.calls) == 0 && !st.told {
		done := cairn.Completion{Reason: cairn.ReasonReply, Text: run.Text}
		ended, err := fx.reply(ctx, a, l, st, out, &done)
		switch {
		case err != nil:
			return fail(cairn.ReasonError, err)
		case ended:
			return complete(done)
		}
	} else if fx.stopWhen(ctx, a, l, st) {
		return complete(cairn.Completion{Reason: cairn.ReasonStopCondition, Text: run.Text})
	}
	if st.number >= a.Steps() {
		return fail(cairn.ReasonError, cairn.Errorf(cairn.CodeMaxSteps, "agent %q used all %d steps of the turn without coming to an end", a.Name, a.Steps()))
	}
	return nil
}

// reply deals with an answer that calls no tools: it ends the turn, unless a typed output is still owed or the guard
// sends the model back.
func (fx *Effects) reply(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome, done *cairn.Completion) (ended bool, failed *cairn.Error) {
	if a.Output != nil {
		out.say(cairn.Context(fmt.Sprintf("Call %s with the final result to end your turn.", cairn.FinishTool)))
		return false, nil
	}
	v, failed := fx.judge(ctx, a, l, st.number, *done)
	if failed != nil {
		return false, failed
	}
	if v.Feedback != "" {
		out.say(cairn.Context(v.Feedback))
		return false, nil
	}
	v.apply(done)
	return true, nil
}

func (fx *Effects) stopWhen(ctx context.Context, a *cairn.Agent, l *live, st *step) (stop bool) {
	if a.StopWhen == nil {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			fx.Logger.Error("stop condition panicked", "agent", a.Name, "panic", v)
			stop = false
		}
	}()
	return a.StopWhen(ctx, l.handle(fx.frozenScope(l, st.number, "by a stop condition")))
}

// write commits the step with what was deferred before it. Somebody else may have appended to the session meanwhile;
// then the step goes on top of that.
func (fx *Effects) write(ctx context.Context, l *live, st *step, out *outcome) error {
	messages := out.messages
	if len(l.deferred.messages) > 0 {
		messages = append(l.deferred.messages, messages...)
	}
	list := append(l.deferred.ops, out.ops...)
	steps := l.deferred.steps
	if out.counts {
		steps = append(steps, st.number)
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
		if seen := store.Seen(err); stale && out.end != nil && seen != nil && seen.Lease.Until.IsZero() {
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
		l.deferred, l.step, l.opening = deferred{}, nil, nil
		l.lastCommit, l.results.changed = out.at, nil
		fx.told(l, steps, c.Checkpoint)
		return nil
	}
}

// told puts the commit on the log.
func (fx *Effects) told(l *live, steps []int, cp *cairn.Checkpoint) {
	for _, n := range steps {
		l.emit.event(cairn.Event{Type: cairn.EventStepCommitted, Step: n, MessageCount: l.row.MessageCount})
	}
	if cp != nil {
		l.emit.event(cairn.Event{Type: cairn.EventCheckpoint, Step: cp.Step, CheckpointID: cp.ID, MessageCount: l.row.MessageCount})
	}
}

func (fx *Effects) build(l *live, messages []cairn.Message, list []cairn.Op, steps []int, usage cairn.Usage, out *outcome) (*store.Commit, error) {
	end := out.end
	c := &store.Commit{
		Guard:    store.Guard{Token: l.row.Lease.Token, Version: l.row.Version},
		Messages: messages, Usage: usage, LogSequence: l.emit.position(), DropStaged: true,
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
		id := l.step.id
		if c.Step != l.step.number { // the step under way has nothing to keep
			id = stepID(l.run.ID, c.Step)
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
	} else if l.step.told {
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
	snap, err := fx.Store.Snapshot(ctx, l.row.ID, 0)
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
	if l.step.told {
		l.step.attach(l.calls)
	}
	if err := l.load(doc.Raw(), snap.Messages); err != nil {
		return nil, err
	}
	l.doc = doc
	return fitting, nil
}

// opening lists the calls that can be answered once the step is committed.
func (fx *Effects) opening(l *live, st *step, out *outcome) []store.CallWrite {
	return slices.DeleteFunc(fx.callWrites(l, st, out.waits), func(w store.CallWrite) bool { return w.Seen > 0 })
}

// opened returns the calls that a commit has opened, with the deadlines that the store made for them.
func (fx *Effects) opened(ctx context.Context, l *live, opening []store.CallWrite, out *outcome) []cairn.PendingCall {
	var list []cairn.PendingCall
	for _, w := range opening {
		w.Call.Deadline = w.Deadline(l.row.UpdatedAt)
		if w.DeadlineIn > 0 && l.row.Version != out.version { // the row is a later one, since the commit's answer was lost
			if kept, err := fx.Store.Call(ctx, l.row.RootID, w.Call.ID); err == nil {
				w.Call.Deadline = kept.Deadline
			}
		}
		list = append(list, w.Call)
	}
	return list
}

// ended tells everybody that the run is over, or suspended until opened calls are answered, and parks the session. The
// run's end is committed: nothing here can change that.
func (fx *Effects) ended(ctx context.Context, a *cairn.Agent, l *live, run *cairn.Run, opened []cairn.PendingCall) {
	for _, ev := range pendingEvents(run.Steps, opened) {
		l.emit.event(ev)
	}
	for _, ev := range endEvents(run) {
		l.emit.event(ev)
	}
	if err := l.emit.flush(ctx); err != nil {
		l.untold = true
		if l.row.ParentID != "" {
			fx.untoldEnds.Store(l.row.ID, struct{}{})
		}
		fx.Logger.Warn("the end of a run was not written to the event log; a reader will add it", "session", l.row.ID, "run", run.ID, "error", err)
	}
	if fx.hooked(l, a) {
		handle := l.handle(fx.frozenScope(l, run.Steps, "after the run has ended"))
		_ = fx.hooks(l, a, func(h *cairn.Hooks) error {
			switch {
			case run.Status == cairn.RunCompleted && h.RunComplete != nil:
				h.RunComplete(ctx, handle, run.Result())
			case run.Status == cairn.RunFailed && h.RunFail != nil:
				h.RunFail(ctx, handle, run.Result())
			case run.Status.Suspends() && h.RunSuspended != nil:
				h.RunSuspended(ctx, handle, run.Result())
			}
			return nil
		})
	}
	l.logLast = l.emit.position()
	l.emit.close()
	row := l.row
	if run.Status.Suspends() || l.spoiled { // what comes next depends on what others answer
		fx.cache.drop(l)
	} else {
		fx.cache.park(l)
	}
	if fx.Ended != nil {
		fx.Ended(ctx, run, row)
	}
}

// endEvents tells how a run came out.
func endEvents(run *cairn.Run) []cairn.Event {
	list := make([]cairn.Event, 0, 3)
	if run.Error != nil {
		list = append(list, cairn.Event{Type: cairn.EventError, Step: run.Steps, Error: run.Error})
	}
	if len(run.Output) > 0 {
		list = append(list, cairn.Event{Type: cairn.EventOutput, Step: run.Steps, Data: run.Output})
	}
	usage := run.Usage
	return append(list, cairn.Event{Type: cairn.EventRunEnd, Step: run.Steps, Status: run.Status, Reason: run.Reason, Error: run.Error, Usage: &usage})
}
