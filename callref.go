package cairn

import (
	"encoding/json"
	"time"
)

// CallKind says what a pending call waits for.
type CallKind string

const (
	// CallClientTool waits for a client (a browser, a service, a person) to run the tool and give its result.
	CallClientTool CallKind = "client_tool"
	// CallApproval waits for a reviewer to decide whether the tool may run.
	CallApproval CallKind = "approval"
	// CallQuestion waits for the answer to a question that a tool asked with [Call.Ask].
	CallQuestion CallKind = "question"
	// CallConnect waits for the user to connect an account, at an address that a tool asked them to open with
	// [Call.Connect].
	CallConnect CallKind = "connect"
)

// Asked reports whether a tool asks with calls of the kind, which are answered with [Answer]: CallQuestion and CallConnect.
func (k CallKind) Asked() bool { return k == CallQuestion || k == CallConnect }

// CallRef is what a person has to know of a pending call to answer it, and what the answer has to name: the id, and for
// an approval ApprovalID.
type CallRef struct {
	// ID is unique in the session tree and cannot be guessed.
	ID string `json:"id"`
	// RootID is the session that answers are submitted to, SessionID the one the call belongs to.
	RootID    string `json:"root_id"`
	SessionID string `json:"session_id"`
	// Kind is what the call waits for: an approval, a client that runs it, the answer to a question.
	Kind CallKind `json:"kind"`
	// Tool is the name of the tool.
	Tool string `json:"tool"`
	// ApprovalID binds an approval response to this request; empty for other kinds.
	ApprovalID string `json:"approval_id,omitempty"`
	// ToolCallID is the tool call that asks a question. Of other kinds ID is that of the tool call, and this is empty.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Input is the arguments of the tool call.
	Input json.RawMessage `json:"input,omitempty"`
	// Prompt and Payload say why the call asks, for the reviewer: of a question always, of an approval if its rule
	// says so, see [RequireApprovalIf].
	Prompt  string          `json:"prompt,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// NoEdits says that an approval cannot change the arguments.
	NoEdits bool `json:"no_edits,omitempty"`
	// Reviewers may answer, and as many of them as Quorum says must. Without any, anyone may.
	Reviewers []string `json:"reviewers,omitempty"`
	Quorum    Quorum   `json:"quorum,omitempty"`
	// WaitAtMost is how long the call waits from when it is opened, and Deadline when it counts as failed if it is not
	// answered; zero for ever.
	WaitAtMost time.Duration `json:"wait_at_most,omitempty"`
	Deadline   time.Time     `json:"deadline,omitzero"`
}

// Quorum says how many of a call's reviewers decide it.
type Quorum string

const (
	// AnyReviewer lets the first answer decide. The default.
	AnyReviewer Quorum = ""
	// AllReviewers needs the approval of every reviewer; the first denial decides.
	AllReviewers Quorum = "all"
	// MostReviewers needs the approval of more than half of the reviewers; the call is denied once that cannot be
	// reached.
	//
	// A question with a quorum needs the same answer from that many reviewers. Once they cannot agree any more, Ask
	// returns an error that says so.
	MostReviewers Quorum = "majority"
)
