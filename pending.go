package cairn

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// CallStatus is the progress of a pending call.
type CallStatus string

const (
	CallOpen     CallStatus = "open"     // it waits for an answer
	CallAnswered CallStatus = "answered" // decided, in time or not; its run has not been resumed yet
	CallSettled  CallStatus = "settled"  // the answer was used: the call's result is in the transcript
	CallDropped  CallStatus = "dropped"  // cancelled: its run was stopped or rewound, or another turn began
	CallSent     CallStatus = "sent"     // an effect in progress, see [Effect]; only Engine.Effects returns it
)

// PendingCall is a tool call that waits, or waited, for a client or a reviewer. The wait exists only as this row:
// no process keeps it in memory.
type PendingCall struct {
	CallRef
	// Tenant is the tenant of the call's session, see [InTenant]; empty for none. Stores derive it from RootID.
	Tenant string `json:"tenant,omitempty"`
	// UserID is the user of the call's session.
	UserID string `json:"user_id,omitempty"`
	// Agent is the name of the agent that made the call.
	Agent string `json:"agent"`
	// RunID is the run whose commit opened the call. StepID is the step that waits.
	RunID  string `json:"run_id"`
	StepID string `json:"step_id"`
	// Number is the position of a question among the questions of its tool call, from 1; 0 for other kinds.
	Number int `json:"number,omitempty"`
	// Schema is the JSON Schema that the value of an answer must satisfy: the result of a client tool, the edited
	// input of an approval, the answer to a question. Empty means any JSON.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Status is the progress of the call: open, answered, settled or dropped.
	Status CallStatus `json:"status"`
	// Answer is the decision; nil while the call is open and for a call that was dropped unanswered.
	Answer *CallAnswer `json:"answer,omitempty"`
	// ClaimedBy is the reviewer who has reserved the call until ClaimedUntil.
	ClaimedBy    string    `json:"claimed_by,omitempty"`
	ClaimedUntil time.Time `json:"claimed_until,omitzero"`
	// Trail is the audit trail of all decisions about the call, oldest first. Only Cairn writes it.
	Trail []Decision `json:"trail,omitempty"`
	// Kept are the results that the tool kept with [Once] since its previous question. They are for the tool; verbs
	// of the engine omit them.
	Kept []json.RawMessage `json:"kept,omitempty"`
	// Effect is set on rows of [CallEffect].
	Effect *Effect `json:"effect,omitempty"`
	// Version counts the writes of the row.
	Version int64 `json:"version"`
	// CreatedAt is when the call was opened, UpdatedAt when it last changed, by the store's clock.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Claimed reports whether a reviewer has the call reserved at now, by the store's clock.
func (c *PendingCall) Claimed(now time.Time) bool {
	return c.ClaimedBy != "" && now.Before(c.ClaimedUntil)
}

// Overdue reports whether the call is still open although its deadline has passed at now, by the store's clock.
func (c *PendingCall) Overdue(now time.Time) bool {
	return c.Status == CallOpen && !c.Deadline.IsZero() && !now.Before(c.Deadline)
}

// DecisionKind is the kind of a decision about a pending call, or of another action on it. A [CallAnswer] has one
// of the first five.
type DecisionKind string

const (
	DecisionApproved DecisionKind = "approved" // the tool may run
	DecisionDenied   DecisionKind = "denied"   // the tool may not run
	DecisionResult   DecisionKind = "result"   // a client tool's result, or the answer to a question
	DecisionError    DecisionKind = "error"    // a client tool's failure, or why a question gets no answer
	DecisionTimeout  DecisionKind = "timeout"  // no answer came before the deadline
	DecisionLate     DecisionKind = "late"     // an answer came after the deadline
	DecisionClaimed  DecisionKind = "claimed"  // a reviewer reserved the call
	DecisionReleased DecisionKind = "released" // a reviewer released a claim, or the claim of the reviewer in Notes
	DecisionDropped  DecisionKind = "dropped"  // the call was closed without an answer
	DecisionUnknown  DecisionKind = "unknown"  // an attempt at an effect ended without an outcome
	DecisionProbed   DecisionKind = "probed"   // the tool's [Confirm] found out whether an effect happened
	DecisionSettled  DecisionKind = "settled"  // Engine.SettleEffect recorded whether an effect happened
)

// CallAnswer is the decision about a pending call. If several reviewers decide, it is the vote that settled it.
type CallAnswer struct {
	// Kind is the decision.
	Kind DecisionKind `json:"verdict"`
	// Value is a client tool's result, the answer to a question, or the input that an approval substituted for the
	// call's; empty otherwise.
	Value json.RawMessage `json:"value,omitempty"`
	// Text is the reason of a denial or the message of an error.
	Text string `json:"text,omitempty"`
	// Reviewer is who answered; empty if the submission did not name anyone, or the deadline passed.
	Reviewer string `json:"reviewer,omitempty"`
	// At is when the answer was accepted, by the store's clock.
	At time.Time `json:"at"`
}

// Decision is one entry of a call's audit trail.
type Decision struct {
	// ID is the submission's own id, which prevents a repeated submission from counting twice.
	ID string `json:"id,omitempty"`
	// Step is the id of the step that the call waits in.
	Step string `json:"step"`
	// Kind is the action: an answer, a claim, a release, or a timeout.
	Kind DecisionKind `json:"decision"`
	// Reviewer is who acted.
	Reviewer string `json:"reviewer,omitempty"`
	// At is the time of the action, by the store's clock.
	At time.Time `json:"timestamp"`
	// Notes are the text of the decision: a reason or an error's message. For a late answer, the answer itself
	// comes first.
	Notes string `json:"notes,omitempty"`
	// Value is the answer to a question that several reviewers answer, or the outcome of an effect.
	Value json.RawMessage `json:"value,omitempty"`
}

// CallDecision is a decision together with the call that it is about.
type CallDecision struct {
	// CallID is the pending call, and Tool the tool that was called.
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	Decision
}

// Decisions returns the call's audit trail as decisions that name the call.
func (c *PendingCall) Decisions() []CallDecision {
	list := make([]CallDecision, 0, len(c.Trail))
	for _, d := range c.Trail {
		list = append(list, CallDecision{CallID: c.ID, Tool: c.Tool, Decision: d})
	}
	return list
}

// SubmissionType is the kind of call that a submission answers.
type SubmissionType string

const (
	SubmitResult   SubmissionType = "client-tool-result" // a client tool's outcome: Result or Error
	SubmitApproval SubmissionType = "approval-response"  // a decision on an approval: Approved, Reason, Input
	SubmitAnswer   SubmissionType = "answer"             // the answer to a tool's question: Value or Error
)

// Submission is an answer to a pending call. Make one with [Approve], [Deny], [Answer] or [AnswerError], or decode
// one that was received.
type Submission struct {
	// Type must match the call's kind. [Approve], [Deny], [Answer] and [AnswerError] set it.
	Type SubmissionType `json:"type"`
	// CallID is the answered call.
	CallID string `json:"call_id"`
	// Result or Error is the outcome of a client tool.
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Value is the answer to a question; Error is why the question gets no answer.
	Value json.RawMessage `json:"value,omitempty"`
	// ApprovalID is the id of the approval request.
	ApprovalID string `json:"approval_id,omitempty"`
	// Approved is the decision on an approval, and Reason the reason for it; the model reads the reason of a
	// denial.
	Approved bool   `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Input, if set, replaces the arguments of an approved call.
	Input json.RawMessage `json:"input,omitempty"`
	// Reviewer is who answers. It is required for a call with named reviewers or a claim. Cairn does not verify it.
	Reviewer string `json:"reviewer,omitempty"`

	err error // of encoding a value
}

// Approve lets a call's tool run, with the arguments of the call or of [Submission.WithInput]. If the arguments were
// changed, the model is given them with the tool's result.
func Approve(c CallRef) Submission {
	return Submission{Type: SubmitApproval, CallID: c.ID, ApprovalID: c.ApprovalID, Approved: true}
}

// Deny keeps a call's tool from running. The model reads the reason, if there is one.
func Deny(c CallRef, reason string) Submission {
	return Submission{Type: SubmitApproval, CallID: c.ID, ApprovalID: c.ApprovalID, Reason: reason}
}

// Answer gives the result of a client tool, or the answer to a question if the call is of [CallQuestion], encoded as
// JSON. The answer to a call of [CallConnect] can be any value.
func Answer(c CallRef, value any) Submission {
	s := Submission{Type: SubmitResult, CallID: c.ID}
	raw, err := json.Marshal(value)
	s.err = err
	if c.Kind.Asked() {
		s.Type, s.Value = SubmitAnswer, raw
	} else {
		s.Result = raw
	}
	return s
}

// AnswerError reports that a client tool failed, and the model reads the message; or that a question gets no
// answer, and Ask returns an ErrDenied error with the message.
func AnswerError(c CallRef, message string) Submission {
	s := Submission{Type: SubmitResult, CallID: c.ID, Error: message}
	if c.Kind.Asked() {
		s.Type = SubmitAnswer
	}
	return s
}

// By sets the reviewer.
func (s Submission) By(reviewer string) Submission {
	s.Reviewer = reviewer
	return s
}

// WithInput makes an approved call run with other arguments, encoded as JSON. A call with [NoEdits] rejects them.
func (s Submission) WithInput(input any) Submission {
	raw, err := json.Marshal(input)
	s.Input = raw
	if s.err == nil {
		s.err = err
	}
	return s
}

// Validate returns an error if a submission is invalid for any call; the error is ErrInvalid or ErrTooLarge and names
// the field. Ids and the reviewer's name follow the rules of session ids, see [CheckSessionID].
func (s *Submission) Validate() error {
	if s.err != nil {
		return Invalid("submission", "cannot be encoded as JSON: %v", s.err)
	}
	if problem := ids.Check(s.CallID); problem != "" {
		return Invalid("call_id", "%s", problem)
	}
	if problem := ids.CheckUser(s.Reviewer); s.Reviewer != "" && problem != "" {
		return Invalid("reviewer", "name %s", problem)
	}
	if n := len(s.Result) + len(s.Value) + len(s.Error) + len(s.Reason) + len(s.Input) + len(s.Reviewer); n > MaxAnswerBytes {
		return &Error{Code: ErrTooLarge, Field: "submission", Message: "submission: too large (max 1 MiB)"}
	}
	switch s.Type {
	case SubmitResult:
		switch {
		case (len(s.Result) == 0) == (s.Error == ""):
			return Invalid("result", "set either a result or an error")
		case s.ApprovalID != "" || s.Approved || s.Reason != "" || len(s.Input) > 0:
			return Invalid("approved", "must not be set on a client tool's result")
		case len(s.Value) > 0:
			return Invalid("value", "may only be set on the answer to a question")
		}
		stored := s.Storable()
		return cmp.Or(CheckText("error", stored.Error), CheckJSON("result", stored.Result))
	case SubmitApproval:
		switch {
		case len(s.Result) > 0 || len(s.Value) > 0 || s.Error != "":
			return Invalid("result", "must not be set on an approval response")
		case len(s.Input) > 0 && !s.Approved:
			return Invalid("input", "must not be set on a denial")
		}
		if problem := ids.Check(s.ApprovalID); problem != "" {
			return Invalid("approval_id", "%s", problem)
		}
		if err := CheckText("reason", s.Reason); err != nil {
			return err
		}
		return CheckJSON("input", s.Input)
	case SubmitAnswer:
		switch {
		case (len(s.Value) == 0) == (s.Error == ""):
			return Invalid("value", "set either a value or an error")
		case len(s.Result) > 0:
			return Invalid("result", "must not be set on the answer to a question; use value")
		case s.ApprovalID != "" || s.Approved || s.Reason != "" || len(s.Input) > 0:
			return Invalid("approved", "must not be set on the answer to a question")
		}
		if err := CheckText("error", s.Error); err != nil {
			return err
		}
		return CheckJSON("value", s.Value)
	}
	return Invalid("type", "unknown type %q: must be one of %q, %q, %q", s.Type, SubmitResult, SubmitApproval, SubmitAnswer)
}

// Storable returns the submission as it is stored: in the result and the error of a client tool, U+FFFD replaces
// characters that a session cannot keep, see [CheckJSON]. The tool has run, so its result must not be lost. Approvals
// and answers to questions are returned as they are; [Submission.Validate] refuses such characters in them.
func (s Submission) Storable() Submission {
	if s.Type == SubmitResult {
		s.Error = limits.Clean(s.Error)
		s.Result, _ = limits.CleanJSON(s.Result)
	}
	return s
}

// Outcome is the outcome of a submission.
type Outcome string

const (
	// OutcomeAccepted: the answer, or a reviewer's vote, was stored.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeAlreadyCompleted: another answer came first, or the reviewer has already voted. Receipt.Call has the
	// decision, unless votes are still missing. Nothing was stored.
	OutcomeAlreadyCompleted Outcome = "already_completed"
	// OutcomeLate: the deadline had passed. The first late answer is recorded in the trail, and the model reads it;
	// later ones get OutcomeAlreadyCompleted.
	OutcomeLate Outcome = "late"
	// OutcomeUnknownCall: the tree has no such call.
	OutcomeUnknownCall Outcome = "unknown_call"
	// OutcomeInvalid: the submission does not fit the call, or the call is closed. Nothing was stored.
	OutcomeInvalid Outcome = "invalid"
)

// Receipt acknowledges a submission.
type Receipt struct {
	// Outcome is the outcome of the submission.
	Outcome Outcome `json:"outcome"`
	// Call is the current call; nil if it is unknown.
	Call *PendingCall `json:"call,omitempty"`
	// Ready reports whether the session that the call belongs to waits for nothing more, so that the root can be
	// resumed.
	Ready bool `json:"ready,omitempty"`
}

// Suspension lists the calls and children that a suspended run waits for.
type Suspension struct {
	// StepID is the step that continues once everything is answered.
	StepID string `json:"step_id"`
	// Calls are the open calls of the session and of its children, at any depth, with everything needed to answer
	// them.
	Calls []CallRef `json:"calls,omitempty"`
	// Children are the child sessions that are suspended themselves, each with the call that waits for it, in the
	// order of the calls.
	Children []ChildRef `json:"children,omitempty"`
}

// Awaits reports whether a call waits for a session. A nil suspension waits for none.
func (s *Suspension) Awaits(sessionID string) bool {
	return s != nil && slices.ContainsFunc(s.Children, func(c ChildRef) bool { return c.SessionID == sessionID })
}
