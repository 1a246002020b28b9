package session

import (
	"cmp"
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// Sink keeps the facts of a step where those who need them find them, beside the memory of this process.
type Sink interface {
	// Keep keeps a fact of the step under way; one that lasts is for the run's next lease holder, too. If another attempt has
	// kept another one in its place, that stands: all the facts of the step are returned.
	Keep(ctx context.Context, l *Live, f step.Fact, lasts bool) (stands []step.Staged, err error)
	// Lasting reports whether the result of a call is kept before the step's commit.
	Lasting(a *cairn.Agent) bool
}

// Reopen carries the step that waited on as the given one, as the transcript and the rows of its calls have it. It reports
// false if no step did.
func (l *Live) Reopen(st *step.Step) bool {
	if l.Row.SuspendedStep == "" {
		return false
	}
	reply, open := transcript.Unanswered(l.Messages)
	if reply == nil {
		return false
	}
	st.Carry(reply, open)
	st.Attach(l.Calls)
	return true
}

// RestoreDeferred takes over the steps that have ended since the last commit.
func (l *Live) RestoreDeferred(list []store.Staged) error {
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
		if _, err := l.Doc.Apply(ended.Ops); err != nil {
			return cairn.Errorf(cairn.CodeState, "step %d: the state was changed meanwhile: %w", n, err)
		}
		l.Results.Take(ended.Cache, ended.CacheDrop)
		l.Defer(n, ended)
	}
}

// Defer keeps a step that has ended for a later commit.
func (l *Live) Defer(number int, e *step.Ended) {
	d := &l.Deferred
	for i := range e.Messages {
		l.Index.Add(&e.Messages[i])
	}
	d.Messages = append(d.Messages, e.Messages...)
	d.Ops = append(d.Ops, e.Ops...)
	d.Usage = d.Usage.Add(e.Usage)
	d.Title = cmp.Or(e.Title, d.Title)
	d.Steps = append(d.Steps, number)
	l.Step, l.Judged = nil, nil
}

// Calling returns the call that an effect works on.
func (l *Live) Calling(in turn.ToolIn) (*step.Call, error) {
	if l.Step == nil || l.Step.Number != in.Step {
		return nil, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", in.Step)
	}
	c := l.Step.Call(in.CallID)
	if c == nil {
		return nil, cairn.Errorf(cairn.CodeInternal, "step %d has no call %q", in.Step, in.CallID)
	}
	return c, nil
}

// SuspendedStep is the step under whose id the calls of st wait: that which opened them.
func (l *Live) SuspendedStep(st *step.Step) string {
	if st.Carried {
		return l.Row.SuspendedStep
	}
	return st.ID
}

// Waiting works out what the session's row says of a step that waits.
func (l *Live) Waiting(st *step.Step) *store.Suspend {
	s := &store.Suspend{StepID: l.SuspendedStep(st)}
	for _, c := range st.Calls {
		if !c.Waits() {
			continue
		}
		s.OpenCalls++
		switch p := c.Open(); {
		case p == nil:
		case p.Version > 0:
			s.NextDeadline = Earlier(s.NextDeadline, p.Deadline)
		default:
			if in := p.WaitAtMost; in > 0 && (s.DeadlineIn == 0 || in < s.DeadlineIn) {
				s.DeadlineIn = in
			}
		}
	}
	return s
}

// Earlier returns the earlier of two times, of which zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Refused lists the calls of a reply to tools that the model knew to be off. What is switched later is for later calls.
func (l *Live) Refused(m *cairn.Message) (list []string) {
	if m == nil {
		return nil
	}
	for i := range m.Parts {
		if use := m.Parts[i].ToolUse; m.Parts[i].Type == cairn.PartToolUse && l.Index.Off(use.Tool) {
			list = append(list, use.CallID)
		}
	}
	return list
}

// NewStep returns a step of the session's run without facts.
func (l *Live) NewStep(number int) *step.Step {
	st := step.New(l.Row.RunID, number, l.Agent.Tools, l.Given)
	if l.offers() {
		st.Offered = l.Offered
	}
	return st
}

// Restore makes what was staged of the next step the step under way.
func (l *Live) Restore(list []store.Staged) error {
	number := l.Row.Step + len(l.Deferred.Steps) + 1
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
	// Before the run's first step the hooks for its beginning may not have run; a reply says that they have.
	l.Unopened = number == 1 && st.Opening == nil && (st.Reply == nil || st.Carried)
	l.Step = st
	return nil
}
