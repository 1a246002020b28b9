package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// perform runs one call of the step. It does nothing for a call that has a result. If abandoned is set, the host has
// abandoned the effect: perform records abandoned as the call's failure without calling the tool.
func (fx *Effects) perform(ctx context.Context, l *session.Live, a *cairn.Agent, in turn.ToolIn, abandoned *cairn.Error) (turn.ToolOut, error) {
	c, err := l.Calling(in)
	if err != nil {
		return turn.ToolOut{}, err
	}
	switch {
	case c.Result != nil:
		if l.Emit.Again() {
			journal.Call(l.Emit.Event, l.Step, c, journal.NotBegun)
		}
		return toolOut(c), nil
	case c.Waits():
		return toolOut(c), nil
	}
	below := l.Step.Below(c)
	t := &trial{fx: fx, ctx: ctx, a: a, l: l, c: c, below: below}
	t.s.Init(&fx.User, l, l.Emit, l.Step.Number, below)
	var key int
	t.work, key = l.Work(ctx)
	defer l.Release(key)
	result, effect := fx.answered(l, c)
	t.effect = effect
	if result != nil {
		t.made = l.Now(fx.Now()) // for the cache of a client tool
	}
	if result == nil && ctx.Err() == nil && t.work.Err() != nil { // the run was stopped before the call began
		return turn.ToolOut{}, nil
	}
	if result == nil && (l.Step.Carried || c.Delegates()) { // possibly planned by another version of the agent
		if over, err := t.endOutdated(); over || err != nil {
			return turn.ToolOut{}, err
		}
	}
	if result == nil {
		if q := fx.asksFirst(t.work, l, c); q != nil && !c.Unresolved() {
			err = t.wait(cairn.CallApproval, q)
			return toolOut(c), err
		}
		if t.began, c.Published = !c.Continues(), true; t.began {
			l.Emit.Event(journal.CallBegan(l.Step, c))
		}
		if err := l.Emit.Lost(); err != nil {
			return turn.ToolOut{}, err
		}
		if abandoned != nil {
			result = t.abandoned(abandoned)
		} else {
			result = t.execute()
		}
		switch {
		case t.lost != nil:
			return turn.ToolOut{}, t.lost
		case t.waits != "":
			err = t.wait(t.waits, t.asked)
			return toolOut(c), err
		}
	}
	if err := t.conclude(result); err != nil {
		return turn.ToolOut{}, err
	}
	return toolOut(c), nil
}

// trial is one attempt at a tool call. It lasts as long as the effect.
type trial struct {
	fx        *Effects
	ctx, work context.Context // of the effect; work is cancelled when the run is stopped
	a         *cairn.Agent
	l         *session.Live
	c         *step.Call
	s         user.Scope
	below     []*step.Writes
	began     bool             // the tool was called for the first time
	waits     cairn.CallKind   // what the call waits for from outside; empty if it does not
	asked     *define.Question // the question that the call waits for
	lost      error            // why the start of an attempt could not be recorded
	attempts  int              // at the tool, if more than one
	took      time.Duration    // in the tool's function
	hit       bool
	made      time.Time
	effect    *cairn.PendingCall // the row of an effectful call as it is now; nil if it is as the step has it
}

// wait makes the call wait for an answer. It fails if those who may answer are unknown to the session.
func (t *trial) wait(kind cairn.CallKind, asked *define.Question) error {
	var row *cairn.PendingCall
	if kind == cairn.CallEffect {
		row = t.askEffect()
	} else {
		asks, refused := t.fx.pend(t.l, t.c, kind, asked)
		if refused != nil {
			return t.conclude(failure(t.c.Use, refused))
		}
		row = asks
	}
	// Without the wait, the next lease holder would take the attempt that led to it for one without an outcome.
	return t.fx.put(t.ctx, t.l, &step.Wait{CallID: t.c.Use.CallID, Pending: row, Writes: t.s.End()}, t.c.Sent != nil)
}

// conclude records the result as the call's, unless the process is shutting down or the run was stopped before there
// was a result.
func (t *trial) conclude(result *cairn.ToolResult) error {
	cause := context.Cause(t.ctx)
	if cause != nil { // the process is shutting down
		if !t.fx.sink(t.l).Lasting(t.a) && t.effect == nil || result == nil || result.IsError || errors.Is(cause, cairn.ErrFenced) || errors.Is(cause, cairn.ErrUnavailable) {
			return cause // another attempt will make the call again, or already does
		}
		var cancel context.CancelFunc
		t.ctx, cancel = context.WithTimeout(context.WithoutCancel(t.ctx), leaveTime)
		defer cancel()
		t.work = t.ctx
	}
	if result == nil { // stopped before there was a result
		return nil
	}
	f := &step.Result{Result: result, Began: t.began, Attempts: t.attempts, Took: t.took, Hit: t.hit, Made: t.made, Effect: t.effect, Writes: t.s.End()}
	below := t.below
	if !f.Writes.Empty() {
		below = append(below, &f.Writes)
	}
	if t.c.Finishing() && !result.IsError && !t.finish(f, below) {
		return cause
	}
	if len(f.Writes.Ops) > 0 {
		t.fx.Scope(t.l, t.l.Step.Number, below...).Freeze("here").Observe(t.work, "OnStateChange", func(h *cairn.Hooks) user.Hook {
			if h.OnStateChange == nil {
				return nil
			}
			written := slices.Clone(f.Writes.Ops)
			return user.CallHook(t.c, func(ctx context.Context, call *cairn.Call) error { h.OnStateChange(ctx, call, written); return nil })
		})
	}
	// The result of an effect outlasts this process, which could not ask for it again.
	return t.fx.record(t.ctx, t.a, t.l, f, define.Durability(t.a).Stages() || cause != nil && t.effect != nil)
}

// endOutdated ends a call of a continued step if its tool is no longer the one the call was made for. It reports
// whether the call ended so.
func (t *trial) endOutdated() (over bool, err error) {
	result := outdated(t.c)
	f := &step.Result{Result: result}
	switch {
	case result != nil:
	case len(t.c.Rows()) == 0:
		v := &visit{fx: t.fx, ctx: t.ctx, work: t.work, a: t.a, l: t.l, c: t.c, s: &t.s}
		if result, err = v.gone(); err != nil {
			return false, err
		}
		if result == nil && t.c.Delegates() { // planned as another kind of call
			result = changed(t.c.Use)
		}
		if result == nil {
			return false, nil
		}
		f = v.end(result)
		f.Began = false // its tool was not called
	default:
		return false, nil
	}
	f.Writes = t.s.End()
	return true, t.fx.concluded(t.ctx, t.a, t.l, f)
}

// abandoned returns the result of a call that the host has abandoned because of why; nil if the outcome of its effect is
// unknown, so that a person is asked.
func (t *trial) abandoned(why *cairn.Error) *cairn.ToolResult {
	if !t.c.Unresolved() {
		return failure(t.c.Use, why)
	}
	t.l.Emit.Event(journal.EffectSent(t.l.Step.Number, t.c.Sent.Row))
	row := inbox.Unknown(*t.ledger(), why.Message, t.l.Now(t.fx.Now()))
	t.effect, t.waits = &row, cairn.CallEffect
	t.l.Emit.Event(journal.EffectUnknown(t.l.Step.Number, &row, why.Message))
	return nil
}

// execute runs the call and returns its result; nil if the run was stopped before there was one, or if the call waits.
func (t *trial) execute() *cairn.ToolResult {
	fx, a, l, c := t.fx, t.a, t.l, t.c
	if c.Unresolved() {
		l.Emit.Event(journal.EffectSent(l.Step.Number, c.Sent.Row)) // a takeover has discarded it
		result, again := t.resolve("the process that made the call did not record its outcome")
		if !again {
			return result
		}
	}
	if c.Ends(a) {
		if result := premature(l, c); result != nil {
			return result
		}
	}
	if c.Use.Tool == cairn.FinishTool && a.Output != nil {
		err := cmp.Or(cutShort(l, a, c), notStored(c.Use.Input))
		if err == nil {
			err = fx.checkOutput(t.work, a, c.Use.Input)
		}
		if err != nil {
			return failure(c.Use, err)
		}
		return &cairn.ToolResult{CallID: c.Use.CallID, Tool: c.Use.Tool, Output: json.RawMessage(`"finished"`)}
	}
	if c.Off {
		return transcript.Failed(c.Use, cairn.ErrToolOff, fmt.Sprintf("the tool %q is switched off", c.Use.Tool))
	}
	if c.Tool == nil {
		return transcript.Failed(c.Use, cairn.ErrUnknownTool, unknownTool(l, a, c.Use.Tool))
	}
	if err := checkInput(l, a, c); err != nil {
		return failure(c.Use, err)
	}
	if c.Continues() { // the hooks saw the call when it was made
		return t.invoke()
	}
	err := t.s.Veto(t.work, "BeforeTool", func(h *cairn.Hooks) user.Hook {
		if h.BeforeTool == nil {
			return nil
		}
		return user.CallHook(c, h.BeforeTool)
	})
	if err != nil {
		return vetoed(c.Use, err)
	}
	if c.Tool.Wait.Kind == cairn.CallClientTool {
		if result := t.remembered(); result != nil {
			return result
		}
		t.waits = cairn.CallClientTool
		return nil
	}
	return t.cached()
}

func unknownTool(l *session.Live, a *cairn.Agent, name string) string {
	var names []string
	for _, t := range l.Listed(l.Step.Reply.Context) {
		if !l.Index().Off(t.Name()) {
			names = append(names, t.Name())
		}
	}
	if a.Output != nil {
		names = append(names, cairn.FinishTool)
	}
	if len(names) == 0 {
		return fmt.Sprintf("unknown tool %q; no tools are available", name)
	}
	return fmt.Sprintf("unknown tool %q; the tools are: %s", name, strings.Join(names, ", "))
}

// finish completes the turn with the call, unless the output check or the guard rejects that. It reports false if the
// run was stopped before the guard decided.
func (t *trial) finish(f *step.Result, state []*step.Writes) (decided bool) {
	a, use := t.a, t.c.Use
	done := cairn.Completion{Reason: cairn.ReasonFinishTool, Output: f.Result.Output}
	if use.Tool == cairn.FinishTool {
		done = cairn.Completion{Reason: cairn.ReasonFinish, Output: use.Input}
	} else if a.Output != nil {
		if err := t.fx.checkOutput(t.work, a, f.Result.Output); err != nil {
			f.Result = failure(use, err)
			return true
		}
	}
	if m := t.l.Step.Message(); m != nil {
		done.Text = m.Text()
	}
	verdict, err := t.fx.verdict(t.work, a, t.l, t.l.Step.Number, done, state...)
	switch {
	case err != nil && t.work.Err() != nil:
		return false
	case err != nil:
		f.Failed = err
	case verdict.Feedback != "" && use.Tool == cairn.FinishTool:
		f.Result = transcript.Failed(use, cairn.ErrRejected, verdict.Feedback)
		return true
	case verdict.Feedback != "":
		f.Feedback = verdict.Feedback
		return true
	default:
		verdict.apply(&done)
	}
	f.Completion = &done
	return true
}
