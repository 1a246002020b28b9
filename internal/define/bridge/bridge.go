// Package bridge defines the parts of package cairn that its users do not see: the insides of tools and handles. It is
// below cairn in the import graph and cannot name cairn's types, so its own types are generic in them. Package define
// instantiates them, and is the package to import.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn/internal/schema"
)

// Cairn gives access to the insides of package cairn's values. Package cairn sets it when the program starts. Package
// define declares its methods.
var Cairn any

// PrivateError is what readers of a conversation are shown instead of a tool's private error, as JSON.
const PrivateError = `"the tool failed"`

// ErrRan is wrapped by an error about the result of a tool whose function has returned without one.
var ErrRan = errors.New("the tool has run")

// Tool is the definition inside a tool.
type Tool[Call, CachePolicy, RetryPolicy, Agent any, CallKind, Quorum ~string] struct {
	Name        string
	Description string
	// Input is the schema of the arguments.
	Input *schema.Schema
	// Func executes the tool; nil if an agent or another system does.
	Func func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error)
	// Finishes reports whether the tool's result ends the turn.
	Finishes bool
	// Serial reports whether a call of the tool runs alone, in call order.
	Serial bool
	// Timeout bounds one execution; 0 means no bound.
	Timeout time.Duration
	// Cache is how results are cached; nil for not at all.
	Cache *CachePolicy
	// Retry is how failed calls are retried; nil for not at all.
	Retry *RetryPolicy
	// Effectful reports whether calls have a row in the ledger of effects. Confirm returns whether the call with an
	// idempotency key took effect, and its result; nil if only a person can find out.
	Effectful bool
	Confirm   func(ctx context.Context, key string) (happened bool, result json.RawMessage, err error)
	// ErrorText returns the text of the function's error for the model; nil means the agent's ErrorText, or the error's
	// own text.
	ErrorText func(error) string
	// Wait is what a call waits for before it has a result.
	Wait Wait[Call, CallKind, Quorum]
	// Agent is the agent that a sub-agent's tool delegates to.
	Agent *Agent
	// TaskJSON reports whether the agent gets the arguments unchanged, instead of the text in them.
	TaskJSON bool
	// Companion reports whether an agent talks to its companions with the tool.
	Companion bool
	// Deferred reports whether the model searches for the tool, also by Keywords, if the list of tools would be too
	// long.
	Deferred bool
	Keywords []string
	// Fields are merged into a provider's form of the tool, by provider.
	Fields map[string]json.RawMessage
	// Err is a mistake in the definition.
	Err error
}

// Wait is what the calls of a tool wait for.
type Wait[Call any, CallKind, Quorum ~string] struct {
	// Kind is the kind of the pending calls; empty for a tool whose calls do not wait.
	Kind CallKind
	// Asks returns what a reviewer is asked; nil if the call needs no approval. The function is nil if no call needs
	// one.
	Asks func(ctx context.Context, call *Call, input json.RawMessage) (*Question, error)
	// NoEdits reports whether reviewers are not allowed to change the arguments.
	NoEdits bool
	// Result is the schema of a client tool's result; nil for any.
	Result    *schema.Schema
	Reviewers []string
	Quorum    Quorum
	// AtMost is how long a call may wait; 0 means forever.
	AtMost time.Duration
	// Assigned reports whether reviewers were named.
	Assigned bool
	// Err is a mistake in the definition.
	Err error
}

// Question is what a tool, or the rule of an approval, asks a person.
type Question struct {
	// Kind is the kind of the pending call: empty for a question, or "connect".
	Kind    string
	Prompt  string
	Payload json.RawMessage
	// Schema is the schema of the answer; empty for any.
	Schema json.RawMessage
	// Reviewers may answer if they are Assigned; Quorum says how many of them must.
	Reviewers []string
	Quorum    string
	Assigned  bool
	// AtMost is how long the question may wait; 0 means forever.
	AtMost time.Duration
	// Kept is what the tool did once since its previous question.
	Kept []json.RawMessage
}

// Env is the loop's side of a handle.
type Env[Op, Message any] interface {
	// State returns the state as the handle sees it.
	State() (json.RawMessage, error)
	// Update records a write. It returns an ErrState error for an operation that no state can keep.
	Update(Op) error
	// Change records the writes that turn one version of the state into another, as JSON.
	Change(before, after json.RawMessage) error
	// Emit publishes a custom event. An id, if there is one, identifies it among those of its name.
	Emit(name, id string, data json.RawMessage) error
	// Publish publishes an event of a capability, by its type, with a name and perhaps a text.
	Publish(typ, name, text, callID string) error
	// Sent returns the messages of the session that the step's request to the model contains. The caller must not modify
	// them.
	Sent() []Message
	// SwitchedOff returns the names of the tools that are off.
	SwitchedOff() []string
	// Tainted reports whether the session is tainted.
	Tainted() bool
	// Workspace returns the reference of the session's workspace; "" for none.
	Workspace() string
	// SetWorkspace records the reference that the call's result names.
	SetWorkspace(ref string) error
	// StoreBlob stores a part of an artifact and returns its key.
	StoreBlob(ctx context.Context, part []byte) (key string, err error)
	// Publishes records an artifact of the call.
	Publishes(name, mediaType string, size int64, blobs []string) error
	// AddContext records a hidden message for the step's commit.
	AddContext(Message)
	// Describe records the session's title, tags to add and entries of the metadata for the step's commit. A nil title
	// stays.
	Describe(title *string, tags []string, metadata map[string]any) error
	// SwitchTools records a hidden message that switches the agent's tools on and off.
	SwitchTools(tools map[string]bool) error
	// RecordUsage adds to the custom usage of the step.
	RecordUsage(name string, amount float64)
	// Exec records a statement in an SQL dialect for the step's commit, as the named tool's.
	Exec(dialect, tool, sql string, args []any) error
	// Ask returns the answer to a tool's next question, or the error that suspends the call.
	Ask(Question) (json.RawMessage, error)
	// Kept returns what an earlier pass of the tool's function did once at this point; nil for nothing.
	Kept() (json.RawMessage, error)
	// Keep attaches what the function did once to its next question.
	Keep(json.RawMessage) error
	// Checkpoint requests a commit at the end of the step, whatever the agent's durability.
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

// Durability is when an agent's steps are committed.
type Durability struct {
	Mode Mode
	// Interval is the interval of ByInterval.
	Interval time.Duration
}

// Stages reports whether replies and tool results are stored as they happen.
func (d Durability) Stages() bool { return d.Mode == PerTool }

// Due reports whether a step that ends now must be committed. since is the time since the last commit; asked reports
// whether a checkpoint was requested.
func (d Durability) Due(since time.Duration, asked bool) bool {
	switch d.Mode {
	case ByInterval:
		return asked || since >= d.Interval
	case Manual:
		return asked
	}
	return true
}
