package torture

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

// answersUsedOnce finds accepted answers that were lost, calls that took several answers, and answers that did not
// reach the model exactly once.
func answersUsedOnce(h *History) error {
	rows := map[string]*cairn.PendingCall{}
	results := h.results()
	for i := range h.Calls {
		rows[h.Calls[i].ID] = &h.Calls[i]
		told := results[inbox.ToolCall(&h.Calls[i])]
		if len(told) == 0 && h.closes(&h.Calls[i]) || h.Calls[i].Kind == cairn.CallEffect { // see effectsSettled
			continue
		}
		if err := usedOnce(&h.Calls[i], told); err != nil {
			return err
		}
	}
	for _, r := range h.Journal {
		if r.Kind != answered {
			continue
		}
		c := rows[r.Call]
		switch {
		case c == nil:
			return fmt.Errorf("call %s was answered (%s) and does not exist", r.Call, r.Outcome)
		case c.Kind == cairn.CallEffect:
			if r.Outcome == cairn.OutcomeAccepted && !answeredEffect(c, &r) {
				return fmt.Errorf("effect %s: the answer of %s is not in its trail: %+v", c.ID, r.Reviewer, c.Trail)
			}
		case r.Outcome == cairn.OutcomeAccepted:
			if err := accepted(c, &r); err != nil {
				return fmt.Errorf("call %s: the answer of %s was accepted: %w", c.ID, r.Reviewer, err)
			}
		case r.Outcome == cairn.OutcomeAlreadyCompleted && c.Quorum == cairn.AnyReviewer && c.Answer == nil:
			return fmt.Errorf("call %s was completed before %s answered, and has no answer", c.ID, r.Reviewer)
		}
	}
	return nil
}

// closes reports whether a call was dropped by a turn that follows the answers of other calls of its step. The run
// that uses those answers closes it.
func (h *History) closes(c *cairn.PendingCall) bool {
	return c.Status == cairn.CallDropped && h.Session.SuspendedStep == c.StepID
}

// accepted checks that an accepted answer is the call's answer or, if several reviewers decide, one of their
// answers.
func accepted(c *cairn.PendingCall, r *record) error {
	n := 0
	for _, d := range c.Trail {
		if d.Reviewer == r.Reviewer && d.Kind == r.Decision {
			n++
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("the trail has it %d times: %+v", n, c.Trail)
	case c.Quorum != cairn.AnyReviewer:
		return nil
	case c.Answer == nil || c.Answer.Reviewer != r.Reviewer || c.Answer.Kind != r.Decision || compact(c.Answer.Value) != compact(r.Value):
		return fmt.Errorf("it was %s %s, the call has %+v", r.Decision, r.Value, c.Answer)
	}
	return nil
}

// usedOnce checks that a call's row and its results in the transcript are consistent.
func usedOnce(c *cairn.PendingCall, results []*cairn.ToolResult) error {
	votes := map[string]int{} // decisions by reviewer
	for _, d := range c.Trail {
		switch d.Kind {
		case cairn.DecisionApproved, cairn.DecisionDenied, cairn.DecisionResult, cairn.DecisionError, cairn.DecisionTimeout:
			who := d.Reviewer
			if c.Quorum == cairn.AnyReviewer {
				who = "" // the first decides
			}
			if votes[who]++; votes[who] > 1 {
				return fmt.Errorf("call %s was decided twice: %+v", c.ID, c.Trail)
			}
		}
	}
	switch {
	case c.Answer != nil && len(votes) == 0:
		return fmt.Errorf("call %s has an answer that is not in its trail", c.ID)
	case c.Answer == nil && len(votes) > 0 && c.Quorum == cairn.AnyReviewer,
		(c.Status == cairn.CallAnswered || c.Status == cairn.CallSettled) && c.Answer == nil,
		c.Status == cairn.CallOpen && c.Answer != nil:
		return fmt.Errorf("call %s is %s with the answer %+v and the trail %+v", c.ID, c.Status, c.Answer, c.Trail)
	}
	waits := c.Status == cairn.CallOpen || c.Status == cairn.CallAnswered
	if waits != (len(results) == 0) || len(results) > 1 {
		return fmt.Errorf("call %s is %s and has %d results", c.ID, c.Status, len(results))
	}
	switch {
	case waits:
		return nil
	// The tool of a dropped question was running.
	case c.Status == cairn.CallDropped && c.Kind == cairn.CallQuestion && results[0].Code != cairn.ErrStopped:
		return fmt.Errorf("question %s was dropped, but the result of its call is %s", c.ID, results[0].Output)
	case c.Status == cairn.CallDropped && c.Kind == cairn.CallQuestion:
		return nil
	case c.Status == cairn.CallDropped && results[0].Code != cairn.ErrNotExecuted:
		return fmt.Errorf("call %s was dropped, but its result is %s", c.ID, results[0].Output)
	case c.Status == cairn.CallDropped && c.Answer != nil && c.Answer.Kind != cairn.DecisionApproved:
		return fmt.Errorf("call %s was dropped although it was answered: %+v", c.ID, c.Answer)
	case c.Status == cairn.CallSettled && !conveys(results[0], c):
		return fmt.Errorf("call %s was answered %s %s %q, its result is %+v", c.ID, c.Answer.Kind, c.Answer.Value, c.Answer.Text, results[0])
	}
	return nil
}

// conveys reports whether a result matches the answer of its call.
func conveys(r *cairn.ToolResult, c *cairn.PendingCall) bool {
	if c.Kind == cairn.CallQuestion {
		out := receipt{}
		return r.Code == cairn.ErrStopped || !r.IsError && json.Unmarshal(r.Output, &out) == nil && len(out.Answers) == inquiries &&
			c.Number <= inquiries && out.Answers[c.Number-1] == answerTo(c)
	}
	switch a := c.Answer; a.Kind {
	case cairn.DecisionResult:
		return !r.IsError && compact(r.Output) == compact(a.Value)
	case cairn.DecisionError:
		return r.Code == cairn.ErrTool
	case cairn.DecisionDenied:
		return r.Code == cairn.ErrDenied
	case cairn.DecisionTimeout:
		return r.Code == cairn.ErrTimeout
	case cairn.DecisionApproved:
		if r.Code == cairn.ErrStopped {
			return true
		}
		input, in, out := c.Input, amount{}, receipt{}
		if len(a.Value) > 0 {
			input = a.Value
		}
		return !r.IsError && json.Unmarshal(input, &in) == nil && json.Unmarshal(r.Output, &out) == nil && in.N == out.N
	}
	return false
}

// nothingUnapproved finds tools that were started while their call was pending, or although it was denied.
func nothingUnapproved(h *History) error {
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Answer != nil && c.Answer.Kind == cairn.DecisionApproved {
			continue
		}
		if slices.ContainsFunc(h.Journal, func(r record) bool { return r.Kind == toolStarted && r.Call == c.ID }) {
			return fmt.Errorf("call %s of %s was started, its answer is %+v", c.ID, c.Tool, c.Answer)
		}
	}
	return nil
}

// lateAnswersOnce finds late answers that did not reach the model exactly once, and context rows for late answers that
// do not exist. Those that came while a run held the session may still be in its queue.
func lateAnswersOnce(h *History) error {
	rows := map[string]int{}
	count := func(list []cairn.Message) {
		for i := range list {
			if m := &list[i]; isLate(m) {
				rows[m.ID]++
			}
		}
	}
	count(h.Messages)
	for i := range h.Queue {
		count(h.Queue[i].Messages)
	}
	for i := range h.Calls {
		c := &h.Calls[i]
		late := 0
		for _, d := range c.Trail {
			if d.Kind != cairn.DecisionLate {
				continue
			}
			if late++; late > 1 || rows[d.ID] != 1 {
				return fmt.Errorf("call %s has %d late answers, of the last of which the model was given %d times", c.ID, late, rows[d.ID])
			}
			delete(rows, d.ID)
		}
		for _, r := range h.Journal {
			if r.Kind == answered && r.Call == c.ID && r.Outcome == cairn.OutcomeLate && late == 0 {
				return fmt.Errorf("call %s: the late answer of %s is lost", c.ID, r.Reviewer)
			}
		}
	}
	for id := range rows {
		return fmt.Errorf("message %s has a late answer that nobody gave", id)
	}
	return nil
}

// waitsAgree finds sessions whose row disagrees, about their suspension, with their runs, the rows of their calls
// or the transcript.
func waitsAgree(t *Tree) error { return each(func(h *History) error { return h.waitAgrees(t) })(t) }

func (h *History) waitAgrees(t *Tree) error {
	s := h.Session
	if len(h.Runs) == 0 {
		return nil
	}
	last := &h.Runs[len(h.Runs)-1]
	paused := s.Status == cairn.SessionPaused
	switch {
	case paused != (last.Status == cairn.RunSuspended):
		return fmt.Errorf("the session is %s, its run %s", s.Status, last.Status)
	case paused && (last.Suspended == nil || s.SuspendedStep == "" || last.Suspended.StepID != s.SuspendedStep):
		return fmt.Errorf("the session waits with step %q, its run says %+v", s.SuspendedStep, last.Suspended)
	case !paused && s.Status != cairn.SessionActive && (s.SuspendedStep != "" || s.OpenCalls != 0 || !s.NextDeadline.IsZero()):
		return fmt.Errorf("the session is %s, its step %q waits for %d calls until %s", s.Status, s.SuspendedStep, s.OpenCalls, s.NextDeadline)
	}
	waiting, closing := map[string]bool{}, map[string]bool{}
	open, deadline := 0, time.Time{}
	for i := range h.Calls {
		c := &h.Calls[i]
		if h.closes(c) {
			closing[inbox.ToolCall(c)] = true
		}
		if c.Status != cairn.CallOpen && c.Status != cairn.CallAnswered {
			continue
		}
		if waiting[inbox.ToolCall(c)] = true; c.StepID != s.SuspendedStep {
			return fmt.Errorf("call %s of step %s is %s, the session waits with step %q", c.ID, c.StepID, c.Status, s.SuspendedStep)
		}
		if c.Status == cairn.CallAnswered {
			continue
		}
		open++
		if !c.Deadline.IsZero() && (deadline.IsZero() || c.Deadline.Before(deadline)) {
			deadline = c.Deadline
		}
	}
	if !paused {
		return nil
	}
	// The session does not count a child that was stopped on its own. The count changes before the child is stopped: if the
	// process dies in between, the child waits until the session is resumed.
	n := open + len(last.Suspended.Children)
	least := n
	for _, c := range last.Suspended.Children {
		child := t.session(c.SessionID)
		if child == nil {
			continue
		}
		switch child.Session.Status {
		case cairn.SessionInterrupted, cairn.SessionFailed:
			least--
		case cairn.SessionPaused:
			if !t.Settled {
				least--
			}
		}
	}
	if s.OpenCalls < least || s.OpenCalls > n {
		return fmt.Errorf("the session waits for %d calls, there are %d: %d of its own, and %d children", s.OpenCalls, n, open, len(last.Suspended.Children))
	}
	if !deadline.IsZero() && (s.NextDeadline.IsZero() || s.NextDeadline.After(deadline)) {
		return fmt.Errorf("a call has until %s, the session says %s", deadline, s.NextDeadline)
	}
	return h.restWaits(waiting, closing)
}

// restWaits checks that the tool uses without a result are the pending calls, those of children, and those that
// would end the turn or are to be closed, and that all pending calls are among them.
func (h *History) restWaits(waiting, closing map[string]bool) error {
	k, results := kindOf(h.Session.Agent), h.results()
	for i := range h.Messages {
		for _, use := range h.Messages[i].ToolUses() {
			switch {
			case len(results[use.CallID]) > 0:
			case waiting[use.CallID]:
				delete(waiting, use.CallID)
			case closing[use.CallID]:
			case use.Tool == toolClose, use.Tool == cairn.FinishTool, use.Tool == k.consults, k.talks(use.Tool):
			default:
				return fmt.Errorf("call %s of %s has no result and waits for nobody", use.CallID, use.Tool)
			}
		}
	}
	for id := range waiting {
		return fmt.Errorf("call %s waits and is not in the transcript", id)
	}
	return nil
}
