package session

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// Sink keeps the facts of a step where other processes and attempts find them, in addition to this process's memory.
type Sink interface {
	// Keep stages a fact of the step under way. If lasts is set, the fact is valid for the run's next lease holder,
	// too. If another attempt has staged a fact with the same place, that one stands, and Keep returns all facts of the
	// step.
	Keep(ctx context.Context, l *Live, f step.Fact, lasts bool) (stands []step.Staged, err error)
	// Lasting reports whether a call's result is kept before the step's commit.
	Lasting(a *cairn.Agent) bool
}

// Reopen makes st the continuation of the suspended step, from the transcript and the rows of its calls. It reports
// false if the session has no suspended step, or one that was suspended before its reply.
func (l *Live) Reopen(st *step.Step) bool {
	if l.Row.SuspendedStep == "" || l.AtBudget() != nil {
		return false
	}
	reply, open := transcript.Unanswered(l.Messages)
	if reply == nil {
		return false
	}
	st.Carry(reply, open)
	st.Attach(l.calls)
	return true
}

// RestoreDeferred restores the steps that have ended since the last commit from what was staged of them.
func (l *Live) RestoreDeferred(list []driver.Staged) error {
	for n := l.Row.Step + 1; ; n++ {
		facts, err := step.Decode(list, step.ID(l.Run.ID, n), l.Row.Lease.Token)
		if err != nil {
			return err
		}
		f, _ := step.Standing(facts, &step.Ended{})
		ended, ok := f.(*step.Ended)
		if !ok {
			return nil
		}
		if _, err := l.doc.Apply(ended.Ops); err != nil {
			return cairn.Errorf(cairn.ErrState, "step %d: the state was changed by another writer: %w", n, err)
		}
		l.results.Take(ended.Cache, ended.CacheDrop)
		l.defers(n, ended)
	}
}

// Defer keeps the step under way, which has ended, for a later commit.
func (l *Live) Defer(e *step.Ended) {
	if l.Step.Reply != nil {
		l.deferred.Paid = l.deferred.Paid.Add(l.Step.Reply.Usage)
	}
	l.defers(l.Step.Number, e)
}

func (l *Live) defers(number int, e *step.Ended) {
	d := &l.deferred
	for i := range e.Messages {
		l.index.Add(&e.Messages[i])
	}
	d.Messages = append(d.Messages, e.Messages...)
	d.Ops = append(d.Ops, e.Ops...)
	d.Usage = d.Usage.Add(e.Usage)
	d.About = d.About.Then(e.About)
	d.Steps = append(d.Steps, number)
	l.Step, l.judged = nil, nil
}

// Calling returns the call that an effect is for.
func (l *Live) Calling(in turn.ToolIn) (*step.Call, error) {
	if l.Step == nil || l.Step.Number != in.Step {
		return nil, cairn.Errorf(cairn.ErrInternal, "step %d is not under way", in.Step)
	}
	c := l.Step.Call(in.CallID)
	if c == nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "step %d has no call %q", in.Step, in.CallID)
	}
	return c, nil
}

// SuspendedStep returns the id of the step that opened the calls of st.
func (l *Live) SuspendedStep(st *step.Step) string {
	if st.Carried {
		return l.Row.SuspendedStep
	}
	return st.ID
}

// AtBudget returns the row of the call that asks to raise a budget if the suspended step is one that waits for that, or
// did; else nil.
func (l *Live) AtBudget() *cairn.PendingCall {
	if l.Row.SuspendedStep == "" {
		return nil
	}
	for i := range l.calls {
		if l.calls[i].Kind == cairn.CallBudget && l.calls[i].StepID == l.Row.SuspendedStep {
			return &l.calls[i]
		}
	}
	return nil
}

// Waiting returns what the session's row records about a step that is suspended.
func (l *Live) Waiting(st *step.Step) *driver.Suspend {
	s := &driver.Suspend{StepID: l.SuspendedStep(st)}
	if p := st.Limit(); p != nil {
		s.OpenCalls, s.NextDeadline = 1, p.Deadline
	}
	for _, c := range st.Calls {
		if !c.Waits() {
			continue
		}
		s.OpenCalls++
		switch p := c.Open(); {
		case p == nil: // it waits for another session
			s.NextDeadline = Earlier(s.NextDeadline, c.Wait.Child.Deadline)
		default:
			s.NextDeadline = Earlier(s.NextDeadline, p.Deadline)
		}
	}
	return s
}

// Earlier returns the earlier of two times. The zero time means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Refused returns the ids of a reply's calls to tools that were off when the model was asked. A later switch affects
// later calls only.
func (l *Live) Refused(m *cairn.Message) (list []string) {
	if m == nil {
		return nil
	}
	for i := range m.Parts {
		if use := m.Parts[i].ToolUse; m.Parts[i].Type == cairn.PartToolUse && l.index.Off(use.Tool) {
			list = append(list, use.CallID)
		}
	}
	return list
}

// NewStep returns a step of the session's run without facts.
func (l *Live) NewStep(number int) *step.Step {
	st := step.New(l.Row.RunID, number, l.agent.Tools, l.extra)
	if l.offers() {
		st.Offered = l.Offered
	}
	if p := l.AtBudget(); p != nil {
		st.Add(&step.Row{Call: p})
	}
	return st
}

// Restore makes the next step the step under way, from what was staged of it.
func (l *Live) Restore(list []driver.Staged) error {
	number := l.Row.Step + len(l.deferred.Steps) + 1
	st := l.NewStep(number)
	st.Inherited = l.Row.Recoveries > 0
	if number == l.Row.Step+1 {
		l.Reopen(st)
	}
	facts, err := step.Decode(list, st.ID, l.Row.Lease.Token)
	if err != nil {
		return err
	}
	st.AddAll(facts)
	// Before the first step, the hooks of the run's beginning may not have run. A reply proves that they have.
	l.unopened = number == 1 && st.Opening == nil && (st.Reply == nil || st.Carried)
	l.Step = st
	return nil
}
