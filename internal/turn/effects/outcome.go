package effects

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// conclude determines what the step results in, including what user code decided about it.
func (fx *Effects) conclude(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step) (*session.Outcome, error) {
	out := l.Judged()
	if out == nil {
		var err error
		if out, err = fx.gather(ctx, a, l, st); err != nil {
			return nil, err
		}
		if st.Judged != nil { // by another process
			_ = l.Fold(out, &st.Judged.Writes) // logged
		}
	}
	out.At = l.Now(fx.Now())
	if err := fx.applyStop(ctx, l, a, st, out); err != nil {
		return nil, err
	}
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
	if out.Waits {
		st.Opens(out.At)
	}
	if err := fx.warn(ctx, a, l, st, out); err != nil {
		return nil, err
	}
	out.End = fx.ending(a, l, st, out)
	for i := range out.Messages {
		m := &out.Messages[i]
		m.RunID, m.CreatedAt = l.Run.ID, time.Time{} // the commit sets the time
		if m.ID == "" {
			m.ID = st.ID + "/c" + strconv.Itoa(i)
		}
	}
	if n := len(out.Messages); n > 0 && out.End != nil && out.End.Status == cairn.RunCompleted {
		out.Messages[n-1].EndsTurn = true
	}
	return out, nil
}

// gather collects what the step produced.
func (fx *Effects) gather(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step) (*session.Outcome, error) {
	if err := fx.look(ctx, st); err != nil {
		return nil, err
	}
	out := &session.Outcome{Logger: fx.Logger, At: l.Now(fx.Now()), Stop: l.StopRequest(), Usage: st.Spent}
	if st.Reply != nil {
		out.Usage = out.Usage.Add(st.Reply.Usage)
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
	if !out.Waits {
		if err := fx.dropCarried(ctx, l, st, out); err != nil {
			return nil, err
		}
	}
	out.Reply, out.Results = fx.messages(ctx, l, a, st, out)
	out.Counts = out.Reply != nil
	return out, nil
}

// look sets Moved on the step's calls whose companion is no longer suspended, because another call gave it work.
func (fx *Effects) look(ctx context.Context, st *step.Step) error {
	for _, c := range st.Calls {
		id := c.AwaitsCompanion()
		if id == "" {
			continue
		}
		row, err := driver.Load(ctx, fx.Store, id)
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
		c.Moved = err != nil || row.Status != cairn.SessionPaused
	}
	return nil
}

// dropCarried closes the open calls of a step that an earlier run suspended, because its run is about to end. That is a
// commit of its own, before hooks and the log know the calls' results: an answer that was accepted before it is the
// result, and no answer is accepted after it.
func (fx *Effects) dropCarried(ctx context.Context, l *session.Live, st *step.Step, out *session.Outcome) error {
	if !st.Carried {
		return nil
	}
	var list []driver.CallWrite
	row, _, err := fx.onTop(ctx, l, &out.Ops, func() (*driver.Commit, error) {
		if list = dropped(l, st, out); len(list) == 0 {
			return nil, nil
		}
		return &driver.Commit{Guard: driver.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version}, Calls: list,
			Suspend: &driver.Suspend{StepID: l.Row.SuspendedStep, OpenCalls: l.Row.OpenCalls - len(list)}}, nil
	})
	if err != nil || row == nil {
		return err
	}
	l.Sees(row, fx.Now())
	for i := range list {
		list[i].Call.Version = list[i].Seen + 1
		st.Add(&step.Row{Call: &list[i].Call})
	}
	return nil
}

// dropped returns the writes that close the open calls of a step.
func dropped(l *session.Live, st *step.Step, out *session.Outcome) (list []driver.CallWrite) {
	for _, c := range st.Calls {
		if p := c.Open(); p != nil && p.Version > 0 {
			list = append(list, driver.CallWrite{Call: inbox.Drop(*p, whyClosed(out), l.Row.AsOf), Seen: p.Version})
		}
	}
	return list
}

// messages returns the reply, and the message with every call's result. Calls without a result are closed, unless the
// step waits and will be resumed.
func (fx *Effects) messages(ctx context.Context, l *session.Live, a *cairn.Agent, st *step.Step, out *session.Outcome) (reply, results *cairn.Message) {
	if st.Message() == nil || st.Failed() != nil {
		return nil, nil
	}
	reply = st.Message()
	if len(st.Calls) == 0 {
		return reply, nil
	}
	for _, c := range st.Order() {
		switch {
		case c.Result != nil:
			if c.Done() && failedBeside(l, c) != nil { // what the other call wrote does not fit
				st.Add(reopened(l, c))
				out.Final = nil
			}
			if err := l.Include(out, c); err != nil {
				short := failure(c.Use, err)
				short.Edited = c.Result.Result.Edited
				st.Add(&step.Result{Result: short, Began: c.Result.Began, Consulted: c.Result.Consulted, Effect: c.Result.Effect})
			}
		default:
			// Writes of the hooks before a call that waits, or that did not get further.
			if w := c.Writes(); w != nil {
				_ = l.FoldCall(out, c, w) // logged
			}
			if out.Waits {
				continue
			}
			fx.close(ctx, l, st, c, out)
		}
		out.Count(l, a, st, c)
	}
	results = &cairn.Message{ID: st.ID + "/results", Role: cairn.RoleTool, Parts: make([]cairn.Part, 0, len(st.Calls))}
	for _, c := range st.Calls {
		if c.Result != nil {
			results.Parts = append(results.Parts, resultPart(c, out))
		}
	}
	if len(results.Parts) == 0 {
		return reply, nil
	}
	return reply, results
}

// resultPart returns the part with a call's result and what its tool emitted, as far as the message has room for it.
func resultPart(c *step.Call, out *session.Outcome) cairn.Part {
	r := c.Result.Result
	if data := c.Result.Writes.Emitted; len(data) > 0 && out.RoomFor(data) {
		with := *r
		with.Data, r = data, &with
	}
	return cairn.Part{Type: cairn.PartToolResult, Result: r}
}

// whyClosed returns why the calls that the run leaves without a result are closed.
func whyClosed(out *session.Outcome) string {
	if out.Stop != nil && out.Final == nil {
		return "the run was stopped"
	}
	return "the turn had ended"
}

// close closes a call: with its answer if one arrived after the call's effect, else as not executed, or as stopped if
// it was running.
func (fx *Effects) close(ctx context.Context, l *session.Live, st *step.Step, c *step.Call, out *session.Outcome) {
	// An attempt that died before it staged the start has published it.
	if by, ok := l.Emit.Consulted(c.Use.CallID); ok && c.Consults() && !c.Announced() {
		st.Add(&step.Started{CallID: c.Use.CallID, Agent: by.Agent, ChildID: by.SessionID, Announced: true})
	}
	f := &step.Result{Closed: true}
	f.Result, f.Effect = fx.answered(l, c)
	switch {
	case f.Result != nil:
	case c.Unresolved() || c.Effect != nil:
		f.Result, f.Began, f.Effect = unknownResult(c.Use), !c.Continues(), fx.leftUnknown(l, c, whyClosed(out))
	case st.Begun(c):
		f.Result, f.Began = transcript.Stopped(c.Use), !c.Consults() && !c.Continues()
	default:
		f.Result = transcript.NotExecuted(c.Use, "not executed: "+whyClosed(out))
	}
	if w := c.Writes(); w != nil {
		f.Writes = *w
	}
	if c.Consults() && (c.Announced() || st.Carried) {
		f.Consulted = fx.consulted(ctx, l, c)
	}
	st.Add(f)
}

// applyStop makes a stop that arrived while the step was judged end the run, unless the turn has completed or the run
// failed. Calls that were to wait are closed.
func (fx *Effects) applyStop(ctx context.Context, l *session.Live, a *cairn.Agent, st *step.Step, out *session.Outcome) error {
	if j := st.Judged; out.Stop != nil || out.Final != nil || j == nil || j.Completion != nil || j.Failed != nil {
		return nil
	}
	if out.Stop = l.StopRequest(); out.Stop == nil || !out.Waits {
		return nil
	}
	out.Waits = false
	if err := fx.dropCarried(ctx, l, st, out); err != nil {
		return err
	}
	results := &cairn.Message{ID: st.ID + "/results", Role: cairn.RoleTool}
	for _, c := range st.Calls {
		if c.Result == nil {
			fx.close(ctx, l, st, c, out)
			out.Count(l, a, st, c)
		}
		results.Parts = append(results.Parts, resultPart(c, out))
	}
	out.Results = results
	return nil
}

// ending returns the run's record if the run ends with this step, or nil.
func (fx *Effects) ending(a *cairn.Agent, l *session.Live, st *step.Step, out *session.Outcome) *cairn.Run {
	run := *l.Run
	run.Steps = st.Number
	if !out.Counts {
		run.Steps--
	}
	run.Usage = l.RunUsage(out)
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
		j = &step.Judgement{} // user code had no say
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
		run.StopReason, run.StoppedBy = stop.Reason, stop.By
		return fail(cairn.ReasonAborted, lifecycle.Aborted(*stop))
	case stop != nil:
		run.Status, run.Reason = cairn.RunInterrupted, cairn.ReasonInterrupted
		run.StopReason, run.StoppedBy = stop.Reason, stop.By
		return new(run)
	case st.Failed() != nil:
		run.Text = st.Reply.Said
		return fail(cairn.ReasonError, st.Failed())
	case st.Message() == nil && !st.Carried && !out.Waits: // only a stop, or the end at a budget, leaves neither
		run.Status, run.Reason = cairn.RunInterrupted, cairn.ReasonInterrupted
		if st.EndedByBudget() {
			run.StopReason = whyBudget
		}
		return new(run)
	case out.Waits:
		run.Status, run.Reason, run.Suspended = cairn.RunSuspended, st.WaitReason(), st.Suspension(l.SuspendedStep(st))
		return new(run)
	case j.Feedback != "":
		out.Say(cairn.Context(j.Feedback))
	case out.Answers(st) && a.Output == nil:
		return complete(cairn.Completion{Reason: replyReason(st.Message()), Text: run.Text})
	case out.Answers(st):
		text := fmt.Sprintf("Call %s with the final result to end your turn.", cairn.FinishTool)
		if m := st.Message(); m != nil && m.Cut != "" {
			text = fmt.Sprintf("Your reply was truncated by %s. %s Write less before it.", cutBy(l, a, m.Cut), text)
		}
		out.Say(cairn.Context(text))
	case j.Owes:
		m := cairn.Context(fmt.Sprintf("The turn ends here. Call %s with the final result.", cairn.FinishTool))
		m.Origin = cairn.OriginMustFinish
		out.Say(m)
	}
	if err := tooOftenCut(l, a, st); err != nil {
		return fail(cairn.ReasonError, err)
	}
	if st.Number >= define.Steps(a) {
		return fail(cairn.ReasonError, cairn.Errorf(cairn.ErrMaxSteps, "agent %q used all %d steps of the turn without finishing", a.Name, define.Steps(a)))
	}
	return nil
}

// replyReason returns the reason with which a reply without calls ends the turn.
func replyReason(m *cairn.Message) cairn.Reason {
	switch {
	case m == nil || m.Cut == "":
		return cairn.ReasonReply
	case m.Cut == cairn.FinishReasonWindow:
		return cairn.ReasonWindow
	}
	return cairn.ReasonLength
}
