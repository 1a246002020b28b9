package cairn

import (
	"encoding/json"
	"time"
)

// CallKind is the kind of answer that a pending call waits for.
type CallKind string

const (
	// CallClientTool waits for a client (a browser, a service, a person) to run the tool and submit its result.
	CallClientTool CallKind = "client_tool"
	// CallApproval waits for a reviewer to decide whether the tool may run.
	CallApproval CallKind = "approval"
	// CallQuestion waits for the answer to a question asked with [Call.Ask].
	CallQuestion CallKind = "question"
	// CallConnect waits for the user to connect an account at the address given to [Call.Connect].
	CallConnect CallKind = "connect"
	// CallEffect waits for a person to find out whether a call of an [Effectful] tool took effect. Rows of this kind are
	// also the ledger of effects: those that are not open record effects whose outcome is known, or that no run waits for.
	CallEffect CallKind = "effect"
	// CallBudget waits for a person to raise a [Budget] that is used up, or to end the turn. No tool was called: Tool is
	// [BudgetTool], ToolCallID the call's own ID, and Payload a [BudgetReport].
	CallBudget CallKind = "budget"
)

// Asked reports whether calls of this kind are questions, to be answered with [Answer]: CallQuestion, CallConnect,
// CallEffect and CallBudget.
func (k CallKind) Asked() bool {
	return k == CallQuestion || k == CallConnect || k == CallEffect || k == CallBudget
}

// CallRef identifies a pending call and describes it to the person who answers it. The answer must repeat the id
// and, for an approval, the ApprovalID.
type CallRef struct {
	// ID is unique in the session tree and cannot be guessed.
	ID string `json:"id"`
	// RootID is the session that answers are submitted to. SessionID is the session that the call belongs to.
	RootID    string `json:"root_id"`
	SessionID string `json:"session_id"`
	// Kind is the kind of answer that the call waits for: an approval, a client's result, or the answer to a question.
	Kind CallKind `json:"kind"`
	// Tool is the name of the tool.
	Tool string `json:"tool"`
	// ApprovalID binds the response to this approval request; empty for other kinds.
	ApprovalID string `json:"approval_id,omitempty"`
	// ToolCallID is the tool call that asks the question, or whose effect is unknown. It is empty for other kinds, whose ID
	// is the tool call's.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Input is the arguments of the tool call.
	Input json.RawMessage `json:"input,omitempty"`
	// Prompt and Payload give the reviewer the reason for the call. A question always has a Prompt; an approval has
	// one if its rule provides it, see [RequireApprovalIf].
	Prompt  string          `json:"prompt,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// NoEdits reports whether an approval must leave the arguments unchanged.
	NoEdits bool `json:"no_edits,omitempty"`
	// Reviewers are the people who may answer; empty means anyone. Quorum is how many of them must.
	Reviewers []string `json:"reviewers,omitempty"`
	Quorum    Quorum   `json:"quorum,omitempty"`
	// WaitAtMost is how long the call waits, counted from when it is opened; 0 means forever. Deadline is when an
	// unanswered call counts as failed; zero means never.
	WaitAtMost Duration  `json:"wait_at_most,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"`
}

// Quorum determines how many of a call's reviewers decide it.
type Quorum string

const (
	// AnyReviewer lets the first answer decide. The default.
	AnyReviewer Quorum = ""
	// AllReviewers needs the approval of every reviewer; the first denial decides.
	AllReviewers Quorum = "all"
	// MostReviewers needs the approval of more than half of the reviewers; the call is denied once that is out of
	// reach.
	//
	// A question with a quorum needs the same answer from that many reviewers. Once they can no longer agree, Ask
	// returns an error that says so.
	MostReviewers Quorum = "majority"
)
