// Package bridge is what package cairn is made of where its users see nothing: the insides of tools and handles. It
// stands below cairn, which it cannot name; so its types are generic in cairn's. Package define gives them their names
// and is the one that is imported.
package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn/internal/schema"
)

// Cairn is set by package cairn when the program starts, to what gives access to the insides of its values. Package
// define says which methods it has.
var Cairn any

// PrivateError is what a reader of a conversation is shown for the error of a tool that is private, as JSON.
const PrivateError = `"the tool failed"`

// Tool is what a tool consists of.
type Tool[Call, CachePolicy, RetryPolicy, Agent any, CallKind, Quorum ~string] struct {
	Name        string
	Description string
	// Input is the schema of the arguments.
	Input *schema.Schema
	// Func executes the tool; nil for one that is executed elsewhere, or by an agent.
	Func func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error)
	// Finishes says that the tool's result ends the turn.
	Finishes bool
	// Timeout bounds one execution; 0 is none.
	Timeout time.Duration
	// Cache says how results are cached; nil for not at all.
	Cache *CachePolicy
	// Retry says how failed calls are tried again; nil for not at all.
	Retry *RetryPolicy
	// ErrorText makes the text of an error of the function; nil means the agent's, or the error's own.
	ErrorText func(error) string
	// Wait says what a call waits for before it has a result.
	Wait Wait[Call, CallKind, Quorum]
	// Agent is the one that a sub-agent's tool delegates to.
	Agent *Agent
	// TaskJSON says that the agent is given the arguments as they are, and not the text in them.
	TaskJSON bool
	// Companion marks the tools through which an agent talks to its companions.
	Companion bool
	// Deferred says that the tool is found rather than listed where the list would be too long, by Keywords too.
	Deferred bool
	Keywords []string
	// Err is a mistake in the definition.
	Err error
}

// Wait is what a tool's calls wait for.
type Wait[Call any, CallKind, Quorum ~string] struct {
	// Kind is that of the pending calls; empty for a tool whose calls wait for nothing.
	Kind CallKind
	// Asks returns why a call needs approval, nil if it does not; the function is nil if no call does.
	Asks func(ctx context.Context, call *Call, input json.RawMessage) (*Question, error)
	// NoEdits says that a reviewer cannot change the arguments.
	NoEdits bool
	// Result is the schema of a client tool's result; nil for any.
	Result    *schema.Schema
	Reviewers []string
	Quorum    Quorum
	// AtMost is how long a call is waited for; 0 means for ever.
	AtMost time.Duration
	// Assigned says that reviewers were named.
	Assigned bool
	// Err is a mistake in the definition.
	Err error
}

// Question is what a person is asked, by a tool or by the rule of an approval.
type Question struct {
	// Kind is that of the pending call: empty for a question, else "connect".
	Kind    string
	Prompt  string
	Payload json.RawMessage
	// Schema is that of the answer; empty for any.
	Schema json.RawMessage
	// Reviewers may answer, if they are Assigned, as many of them as Quorum says.
	Reviewers []string
	Quorum    string
	Assigned  bool
	// AtMost is how long the answer is waited for; 0 means for ever.
	AtMost time.Duration
	// Kept is what the tool has done once since its question before.
	Kept []json.RawMessage
}

// Env stands behind a handle: the side of the loop.
type Env[Op, Message any] interface {
	// State returns the state as the handle sees it.
	State() (json.RawMessage, error)
	// Update records a write. What a state cannot keep is a CodeState error.
	Update(Op) error
	// Change records the writes that turn one version of the state into another, as JSON.
	Change(before, after json.RawMessage) error
	// Emit puts a custom event on the log.
	Emit(name string, data json.RawMessage) error
	// AddContext records a hidden message for the step's commit.
	AddContext(Message)
	// SetTitle records a title of the session for the step's commit.
	SetTitle(title string) error
	// SwitchTools records a hidden message that switches tools of the agent on and off.
	SwitchTools(tools map[string]bool) error
	// RecordUsage adds to the custom usage of the step.
	RecordUsage(name string, amount float64)
	// Exec records a statement for the step's commit, in the SQL of a dialect, as the call of a tool.
	Exec(dialect, tool, sql string, args []any) error
	// Ask returns the answer to a tool's next question, or the error that suspends the call.
	Ask(Question) (json.RawMessage, error)
	// Kept returns what an earlier pass of the tool's function did once at this place; nil for nothing.
	Kept() (json.RawMessage, error)
	// Keep adds what the function has done once to its next question.
	Keep(json.RawMessage) error
	// Checkpoint asks for a commit at the end of the step, whatever the agent's durability.
	Checkpoint()
}

// Mode is a kind of durability.
type Mode int

// The modes. The zero value is the default.
const (
	PerStep Mode = iota
	PerTool
	ByInterval
	Manual
)

// Durability says when an agent's steps are committed.
type Durability struct {
	Mode Mode
	// Interval is that of ByInterval.
	Interval time.Duration
}

// Stages reports whether replies and tool results are stored as they happen.
func (d Durability) Stages() bool { return d.Mode == PerTool }

// Due reports whether a step that ends now is to be committed, when the last commit was the given time ago and
// asked says that a checkpoint was asked for.
func (d Durability) Due(since time.Duration, asked bool) bool {
	switch d.Mode {
	case ByInterval:
		return asked || since >= d.Interval
	case Manual:
		return asked
	}
	return true
}
