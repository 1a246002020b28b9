// Package calls finds pending calls and describes them: what a call needs, what was decided about it, and how an
// answer was received. It prints nothing and answers nothing.
package calls

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

// Sentence describes what became of an answer that fitted its call.
func Sentence(r cairn.Receipt) string {
	c := r.Call
	what := fmt.Sprintf("%s of session %s", c.Tool, c.RootID)
	switch {
	case r.Outcome == cairn.OutcomeLate:
		return fmt.Sprintf("Too late: the deadline of %s passed on %s. The agent sees the answer, but it has no effect.", what, output.Stamp(c.Deadline))
	case r.Outcome == cairn.OutcomeAlreadyCompleted && c.Answer == nil:
		return fmt.Sprintf("Nothing changed: you have already voted on %s, and other reviewers have yet to vote.", what)
	case r.Outcome == cairn.OutcomeAlreadyCompleted:
		return fmt.Sprintf("Nothing changed: %s was already %s.", what, Decision(c))
	case c.Answer == nil:
		return fmt.Sprintf("Vote on %s counted. Waiting for other reviewers: %s.", what, Assigned(c))
	case !r.Ready:
		return fmt.Sprintf("%s: %s. Other calls of the session are still pending.", what, Decision(c))
	}
	return fmt.Sprintf("%s: %s. The session can be resumed now.", what, Decision(c))
}

// Deadline returns the time until which a call can be answered; empty if it has no deadline.
func Deadline(c *cairn.PendingCall, now time.Time) string {
	switch {
	case c.Deadline.IsZero():
		return ""
	case c.Overdue(now):
		return output.Stamp(c.Deadline) + " (passed)"
	}
	return output.Stamp(c.Deadline)
}

// Assigned returns who may answer a call; empty for any reviewer.
func Assigned(c *cairn.PendingCall) string {
	names := strings.Join(c.Reviewers, ", ")
	if c.Quorum != cairn.AnyReviewer {
		names += " (" + string(c.Quorum) + ")"
	}
	return names
}

// Decision describes what was decided about a call, by whom and when.
func Decision(c *cairn.PendingCall) string {
	words := map[cairn.DecisionKind]string{cairn.DecisionResult: "answered", cairn.DecisionError: "answered with an error", cairn.DecisionTimeout: "closed by timeout"}
	text := cmp.Or(words[c.Answer.Kind], string(c.Answer.Kind))
	if c.Answer.Reviewer != "" {
		text += " by " + c.Answer.Reviewer
	}
	return text + " on " + output.Stamp(c.Answer.At)
}

// Missing describes what a pending call needs.
func Missing(kind cairn.CallKind) string {
	switch kind {
	case cairn.CallApproval:
		return "approval"
	case cairn.CallQuestion:
		return "an answer"
	case cairn.CallEffect:
		return "word whether it took effect"
	case cairn.CallConnect:
		return "a connection"
	case cairn.CallBudget:
		return "a decision about its budget"
	}
	return "a result"
}

// SuspendedFor lists the tools whose calls suspended a run, and the number of its pending sub-agents.
func SuspendedFor(s *cairn.Suspension) string {
	if s == nil {
		return ""
	}
	var words []string
	for _, c := range s.Calls {
		words = append(words, c.Tool)
	}
	if n := len(s.Children); n > 0 {
		words = append(words, "in "+output.Count(n, "sub-agent"))
	}
	return output.OneLine(strings.Join(words, " "), output.Width)
}
