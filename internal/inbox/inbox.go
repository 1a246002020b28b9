// Package inbox implements the transitions of a pending call: answers, votes, claims, releases, timeouts, dropping and
// settling. Its functions take a call's row and return the next one. The caller writes that with a guard on the version
// that it read, so that exactly one of several concurrent answers is first.
package inbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
)

// Decide applies a submission, which must be valid by itself, to a call. id is the submission's id, if it has one. For
// OutcomeAccepted and OutcomeLate the caller must write the returned call; for the other outcomes the call is
// unchanged. OutcomeInvalid comes with an error that says why. A submission whose id is already in the trail gets its
// first outcome again: the call is unchanged, and there is nothing to write or publish.
func Decide(c cairn.PendingCall, s *cairn.Submission, id string, now time.Time) (cairn.PendingCall, cairn.Outcome, error) {
	switch {
	case s.Type != answers[c.Kind]:
		return c, cairn.OutcomeInvalid, cairn.Invalid("type", "call %q of kind %s cannot be answered with %s", c.ID, c.Kind, s.Type)
	case s.ApprovalID != c.ApprovalID:
		return c, cairn.OutcomeInvalid, cairn.Invalid("approval_id", "does not match call %q", c.ID)
	}
	if err := mayAnswer(&c, s.Reviewer, now); err != nil {
		return c, cairn.OutcomeInvalid, err
	}
	if i := slices.IndexFunc(c.Trail, func(d cairn.Decision) bool { return id != "" && d.ID == id }); i >= 0 {
		if c.Trail[i].Kind == cairn.DecisionLate {
			return c, cairn.OutcomeLate, nil
		}
		return c, cairn.OutcomeAccepted, nil
	}
	if c.Status == cairn.CallDropped {
		return c, cairn.OutcomeInvalid, cairn.Invalid("call_id", "call %q is no longer pending: it was cancelled", c.ID)
	}
	late := c.Overdue(now) || c.Answer != nil && c.Answer.Kind == cairn.DecisionTimeout
	if !late && (c.Status != cairn.CallOpen || hasVoted(&c, s.Reviewer)) {
		return c, cairn.OutcomeAlreadyCompleted, nil
	}
	if err := checkValue(&c, s); err != nil {
		return c, cairn.OutcomeInvalid, err
	}
	if late {
		return decideLate(c, s, id, now)
	}
	vote(&c, s, id, now)
	return c, cairn.OutcomeAccepted, nil
}

// answers maps the kind of a call to the type of the submissions that answer it.
var answers = map[cairn.CallKind]cairn.SubmissionType{
	cairn.CallClientTool: cairn.SubmitResult, cairn.CallApproval: cairn.SubmitApproval, cairn.CallQuestion: cairn.SubmitAnswer,
	cairn.CallConnect: cairn.SubmitAnswer, cairn.CallEffect: cairn.SubmitAnswer, cairn.CallBudget: cairn.SubmitAnswer,
}

// mayAnswer returns why a reviewer may not answer a call; nil if the reviewer may.
func mayAnswer(c *cairn.PendingCall, reviewer string, now time.Time) error {
	switch {
	case len(c.Reviewers) > 0 && reviewer == "":
		return cairn.Invalid("reviewer", "is required: call %q is assigned to named reviewers", c.ID)
	case len(c.Reviewers) > 0 && !slices.Contains(c.Reviewers, reviewer):
		return cairn.Invalid("reviewer", "call %q is not assigned to %q", c.ID, reviewer)
	case c.Status == cairn.CallOpen && !c.Overdue(now) && c.Claimed(now) && c.ClaimedBy != reviewer:
		return claimed(c)
	}
	return nil
}

func claimed(c *cairn.PendingCall) error {
	return &cairn.Error{Code: cairn.ErrClaimed, Field: "reviewer",
		Message: fmt.Sprintf("reviewer: call %q is claimed by %q until %s", c.ID, c.ClaimedBy, c.ClaimedUntil.UTC().Format(time.RFC3339))}
}

func hasVoted(c *cairn.PendingCall, reviewer string) bool {
	return reviewer != "" && slices.ContainsFunc(current(c), func(d cairn.Decision) bool {
		return d.Reviewer == reviewer && isVote(&d)
	})
}

// current returns the part of the trail about the question that is open: that of an effect begins anew with each attempt
// without an outcome.
func current(c *cairn.PendingCall) []cairn.Decision {
	for i := len(c.Trail) - 1; i >= 0; i-- {
		if c.Trail[i].Kind == cairn.DecisionUnknown {
			return c.Trail[i+1:]
		}
	}
	return c.Trail
}

// isVote reports whether an entry of the trail is a reviewer's decision made in time.
func isVote(d *cairn.Decision) bool {
	switch d.Kind {
	case cairn.DecisionApproved, cairn.DecisionDenied, cairn.DecisionResult, cairn.DecisionError:
		return true
	}
	return false
}

func checkValue(c *cairn.PendingCall, s *cairn.Submission) error {
	switch {
	case len(s.Result) > 0:
		return c.CheckValue("result", s.Result)
	case len(s.Value) > 0:
		return c.CheckValue("value", s.Value)
	case len(s.Input) > 0 && c.NoEdits:
		return cairn.Invalid("input", "the arguments of call %q cannot be changed", c.ID)
	case len(s.Input) > 0 && c.Quorum != cairn.AnyReviewer:
		return cairn.Invalid("input", "reviewers of call %q decide together, so none of them can change its arguments", c.ID)
	case len(s.Input) > 0:
		return c.CheckValue("input", s.Input)
	}
	return nil
}

// answerOf returns a submission as an answer.
func answerOf(s *cairn.Submission, now time.Time) *cairn.CallAnswer {
	a := &cairn.CallAnswer{Reviewer: s.Reviewer, At: now}
	switch {
	case s.Type == cairn.SubmitApproval && s.Approved:
		a.Kind, a.Value, a.Text = cairn.DecisionApproved, s.Input, s.Reason
	case s.Type == cairn.SubmitApproval:
		a.Kind, a.Text = cairn.DecisionDenied, s.Reason
	case s.Error != "":
		a.Kind, a.Text = cairn.DecisionError, s.Error
	case s.Type == cairn.SubmitAnswer:
		a.Kind, a.Value = cairn.DecisionResult, s.Value
	default:
		a.Kind, a.Value = cairn.DecisionResult, s.Result
	}
	return a
}

// note appends to the trail without modifying the array that copies of the row share.
func note(c *cairn.PendingCall, d cairn.Decision) {
	d.Step = c.StepID
	c.Trail = append(slices.Clip(c.Trail), d)
}

// vote records a vote, and closes the call if that decides it.
func vote(c *cairn.PendingCall, s *cairn.Submission, id string, now time.Time) {
	a := answerOf(s, now)
	d := cairn.Decision{ID: id, Kind: a.Kind, Reviewer: s.Reviewer, At: now, Notes: a.Text}
	together := c.Kind.Asked() && c.Quorum != cairn.AnyReviewer
	if together || c.Kind == cairn.CallEffect {
		d.Value = a.Value
	}
	note(c, d)
	if together && agreed(c, a) || !together && decided(c) {
		unclaim(c)
		c.Status, c.Answer = cairn.CallAnswered, a
	}
}

// agreed reports whether the votes in the trail of an open question decide it. If the reviewers can no longer agree, it
// turns last, the answer, into an error. Answers are equal if they are the same JSON. A vote without an answer agrees
// with none.
func agreed(c *cairn.PendingCall, last *cairn.CallAnswer) bool {
	n, votes, most, same := len(c.Reviewers), 0, 0, map[string]int{}
	trail := current(c)
	for i := range trail {
		if d := &trail[i]; isVote(d) {
			votes++
			if key, err := ops.Canonical(d.Value); err == nil && d.Kind == cairn.DecisionResult {
				same[string(key)]++
				most = max(most, same[string(key)])
			}
		}
	}
	enough := n
	if c.Quorum == cairn.MostReviewers {
		enough = n/2 + 1
	}
	switch {
	case most >= enough:
		return true
	case most+n-votes >= enough:
		return false
	}
	last.Kind, last.Value, last.Text = cairn.DecisionError, nil, "the reviewers do not agree on an answer"
	return true
}

// decided reports whether the votes in an open approval's trail decide it. A call of another kind is decided by its
// first answer. The outcome is that of the last vote, since an approval never decides against the call, nor a denial
// for it.
func decided(c *cairn.PendingCall) bool {
	n, yes, no := len(c.Reviewers), 0, 0
	for _, d := range c.Trail {
		switch d.Kind {
		case cairn.DecisionApproved:
			yes++
		case cairn.DecisionDenied:
			no++
		}
	}
	switch c.Quorum {
	case cairn.AllReviewers:
		return yes == n || no > 0
	case cairn.MostReviewers:
		return 2*yes > n || 2*(n-no) <= n
	}
	return true
}

func unclaim(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = "", time.Time{} }

// decideLate records the first answer that arrives after the deadline.
func decideLate(c cairn.PendingCall, s *cairn.Submission, id string, now time.Time) (cairn.PendingCall, cairn.Outcome, error) {
	if slices.ContainsFunc(c.Trail, func(d cairn.Decision) bool { return d.Kind == cairn.DecisionLate }) {
		return c, cairn.OutcomeAlreadyCompleted, nil
	}
	if c.Status == cairn.CallOpen {
		c = Expire(c, now)
	}
	a := answerOf(s, now)
	note(&c, cairn.Decision{ID: id, Kind: cairn.DecisionLate, Reviewer: s.Reviewer, At: now, Notes: string(a.Kind) + because(a.Text)})
	return c, cairn.OutcomeLate, nil
}

// LateText returns the context that the model gets for an answer after the deadline.
func LateText(c *cairn.PendingCall, s *cairn.Submission) string {
	a := answerOf(s, time.Time{})
	head := fmt.Sprintf("After its deadline the call %s of %s was ", c.ID, c.Tool)
	if c.Kind.Asked() {
		head = fmt.Sprintf("After its deadline the question %q of call %s of %s was ", limits.Words(c.Prompt), c.ToolCallID, c.Tool)
	}
	switch a.Kind {
	case cairn.DecisionApproved:
		return head + "approved. It was not run; call the tool again if it is still wanted."
	case cairn.DecisionDenied:
		return head + "denied" + because(a.Text) + "."
	case cairn.DecisionError:
		return head + "answered with an error: " + a.Text
	}
	return head + "answered: " + string(a.Value)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Expire closes an open call whose deadline has passed.
func Expire(c cairn.PendingCall, now time.Time) cairn.PendingCall {
	unclaim(&c)
	c.Status, c.Answer = cairn.CallAnswered, &cairn.CallAnswer{Kind: cairn.DecisionTimeout, At: now}
	note(&c, cairn.Decision{Kind: cairn.DecisionTimeout, At: now})
	return c
}

// Drop closes a call that its session no longer waits for. If the call has an answer, Drop keeps it.
func Drop(c cairn.PendingCall, why string, now time.Time) cairn.PendingCall {
	unclaim(&c)
	c.Status = cairn.CallDropped
	note(&c, cairn.Decision{Kind: cairn.DecisionDropped, At: now, Notes: why})
	return c
}

// WhyDropped returns why a call was dropped.
func WhyDropped(c *cairn.PendingCall) string {
	for _, d := range slices.Backward(c.Trail) {
		if d.Kind == cairn.DecisionDropped {
			return d.Notes
		}
	}
	return "it was cancelled"
}

// Reopen returns a call as it was before anyone acted on it, for another session: open, without a deadline.
func Reopen(c cairn.PendingCall) cairn.PendingCall {
	unclaim(&c)
	c.Status, c.Answer, c.Trail, c.Deadline, c.Version = cairn.CallOpen, nil, nil, time.Time{}, 0
	return c
}

// Settle marks the answer of a call as used.
func Settle(c cairn.PendingCall) cairn.PendingCall {
	c.Status = cairn.CallSettled
	return c
}

// Claim reserves an open call for one reviewer until d after now; 0 means [cairn.DefaultClaim]. A reviewer who holds the
// claim extends it. Claim returns ErrClaimed while another reviewer holds the call, and ErrInvalid otherwise.
func Claim(c cairn.PendingCall, reviewer string, d time.Duration, now time.Time) (cairn.PendingCall, error) {
	if problem := ids.CheckUser(reviewer); problem != "" {
		return c, cairn.Invalid("reviewer", "name %s", problem)
	}
	d = cmp.Or(d, cairn.DefaultClaim)
	switch {
	case d < 0:
		return c, cairn.Invalid("duration", "%s is negative", d)
	case d > cairn.MaxClaim:
		return c, cairn.Invalid("duration", "%s is more than %s", d, cairn.MaxClaim)
	case c.Status != cairn.CallOpen || c.Overdue(now):
		return c, closed(&c)
	case c.Quorum != cairn.AnyReviewer:
		return c, cairn.Invalid("call_id", "reviewers of call %q decide together, so none of them can claim it", c.ID)
	}
	if err := mayAnswer(&c, reviewer, now); err != nil {
		return c, err
	}
	c.ClaimedBy, c.ClaimedUntil = reviewer, now.Add(d)
	note(&c, cairn.Decision{Kind: cairn.DecisionClaimed, Reviewer: reviewer, At: now})
	return c, nil
}

// Release ends a claim. Only its holder can release it. Release returns ErrClaimed if another reviewer holds the call,
// and ErrInvalid otherwise.
func Release(c cairn.PendingCall, reviewer string, now time.Time) (cairn.PendingCall, error) {
	switch {
	case c.Status != cairn.CallOpen || c.Overdue(now):
		return c, closed(&c)
	case !c.Claimed(now):
		return c, cairn.Invalid("call_id", "call %q is not claimed", c.ID)
	case c.ClaimedBy != reviewer:
		return c, claimed(&c)
	}
	unclaim(&c)
	note(&c, cairn.Decision{Kind: cairn.DecisionReleased, Reviewer: reviewer, At: now})
	return c, nil
}

// Override ends the claim of another reviewer, if there is one, on behalf of by. The trail names both.
func Override(c cairn.PendingCall, by string, now time.Time) (cairn.PendingCall, error) {
	switch problem := ids.CheckUser(by); {
	case problem != "":
		return c, cairn.Invalid("reviewer", "name %s", problem)
	case c.Status != cairn.CallOpen || c.Overdue(now) || !c.Claimed(now) || c.ClaimedBy == by:
		return c, nil
	}
	_, holder := ids.Split(c.ClaimedBy)
	unclaim(&c)
	note(&c, cairn.Decision{Kind: cairn.DecisionReleased, Reviewer: by, At: now, Notes: "claim of " + holder})
	return c, nil
}

func closed(c *cairn.PendingCall) error {
	status := string(c.Status)
	if c.Status == cairn.CallOpen {
		status = "past its deadline"
	}
	return cairn.Invalid("call_id", "call %q is no longer open, it is %s", c.ID, status)
}

// Value returns the answer to an answered question. Without one it returns ErrDenied, or an error with ErrTimeout.
func Value(c *cairn.PendingCall) (json.RawMessage, error) {
	switch a := c.Answer; a.Kind {
	case cairn.DecisionResult:
		return a.Value, nil
	case cairn.DecisionTimeout:
		return nil, cairn.Errorf(cairn.ErrTimeout, "%s", inTime)
	default:
		return nil, cairn.Errorf(cairn.ErrDenied, "the question was not answered%s", because(a.Text))
	}
}

// inTime is the error text of a call whose deadline passed.
const inTime = "nobody answered in time"

// ToolCall returns the id of the tool call that a pending call belongs to: the call that asks the question, or the
// pending call itself.
func ToolCall(c *cairn.PendingCall) string { return cmp.Or(c.ToolCallID, c.ID) }

// Result returns the result that the model gets for an answered call. It is nil for an approved call and for a
// question, because their tool must still run.
func Result(c *cairn.PendingCall) *cairn.ToolResult {
	fail := func(code cairn.Code, text string) *cairn.ToolResult {
		raw, _ := json.Marshal(text) // a string always encodes
		return &cairn.ToolResult{CallID: c.ID, Tool: c.Tool, Output: raw, IsError: true, Code: code}
	}
	if c.Kind.Asked() {
		return nil
	}
	switch a := c.Answer; a.Kind {
	case cairn.DecisionApproved:
		return nil
	case cairn.DecisionDenied:
		return fail(cairn.ErrDenied, "not approved by the user"+because(a.Text))
	case cairn.DecisionError:
		return fail(cairn.ErrTool, a.Text)
	case cairn.DecisionTimeout:
		return fail(cairn.ErrTimeout, inTime)
	default:
		return &cairn.ToolResult{CallID: c.ID, Tool: c.Tool, Output: a.Value}
	}
}
