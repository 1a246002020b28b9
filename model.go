package cairn

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Model is a language model that streams one reply at a time. Implementations are safe for concurrent use. Package
// model/modeltest is the suite that they pass.
type Model interface {
	// Info names the model.
	Info() ModelInfo
	// Stream requests one reply. The sequence yields chunks until the reply is complete, or ends with one error: an
	// *Error whose code is of CategoryModel; its Retryable determines whether the call is retried. ChunkFinish is
	// the last chunk; a reply that ends without it counts as incomplete. If ctx is done, the stream ends with
	// ErrAborted, or with ErrTimeout for a deadline, wrapping ctx.Err(): see [ContextError]. The request must not be
	// modified. Stream does no work before the sequence is read, and releases everything once its reader has
	// stopped.
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Validator is implemented by models that can detect before their first call that they cannot be used, for example
// because a key is missing. Agent.Validate calls it, and so do engine.New and Engine.Replace. It makes no network
// requests and returns at once.
type Validator interface {
	// Validate returns an error if the model cannot be used, and nil otherwise.
	Validate() error
}

// Stopper is implemented by models whose replies come from work that continues after the call has ended, such as the
// work of an agent on another server. An engine makes sure that this work is stopped together with the turn that it
// belongs to: see docs/REMOTE.md. A model that wraps another one must have a method Unwrap() Model, or Unwrap() []Model
// for several, so that the Stopper is found.
type Stopper interface {
	// StopTurn stops the external work for a turn of a session. The turn is identified by its runs, including the
	// one that began it; work for other turns is not touched. It is called after a run of the turn was stopped or
	// has failed, by any process that has the agent, and again until it returns nil: the work was stopped, has
	// ended, or is unknown there. It makes one attempt, and returns when ctx is done.
	StopTurn(ctx context.Context, session string, runs []string) error
}

// ModelInfo describes a model.
type ModelInfo struct {
	// Provider is the provider that serves the model, such as "anthropic".
	Provider string `json:"provider"`
	// Name is the model's name at its provider.
	Name string `json:"name"`
}

// ID identifies the model together with its provider, as in [Part.Model]: "provider:name".
func (i ModelInfo) ID() string { return i.Provider + ":" + i.Name }

// Request is the input of one model call.
type Request struct {
	// SessionID is the requesting session; a provider may use it to find its cache again.
	SessionID string
	// Depth is the session's, see [Session]. A model that represents an agent of another server passes it on.
	Depth int
	// System is the agent's instructions; empty for none.
	System string
	// Messages are the conversation so far. Every tool use is followed by its result.
	Messages []Message
	// Tools are the tools that the model may call.
	Tools []ToolSpec
	// Choice determines whether the model must call a tool.
	Choice ToolChoice
	// NativeOutput asks for the provider's own structured output: a model that can generate it is not offered
	// [FinishTool], and its final text becomes a call of it; see [OutputType.Native]. Other models ignore it.
	NativeOutput bool
	// Settings are the agent's settings.
	Settings Settings
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	// Name is the name that the model calls the tool by.
	Name string `json:"name"`
	// Description explains the tool's purpose to the model.
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage `json:"schema"`
	// Fields are objects that are merged into the form in which a provider is sent the tool, by [ModelInfo] Provider;
	// see [ProviderFields].
	Fields map[string]json.RawMessage `json:"fields,omitempty"`
}

// ToolChoice steers tool use. The zero value lets the model choose.
type ToolChoice struct {
	// Tool is the one tool that the model must call; empty for free choice.
	Tool string `json:"tool,omitempty"`
	// None forbids tool calls.
	None bool `json:"none,omitempty"`
}

// Settings tune a model call. Zero values leave the provider's default.
type Settings struct {
	// Temperature and TopP are passed to the provider; nil means its default.
	Temperature *float64
	TopP        *float64
	// MaxOutputTokens limits the length of the reply.
	MaxOutputTokens int
	// ReasoningEffort is one of the provider's levels: "minimal", "low", "medium", "high".
	ReasoningEffort string
	// StopSequences end the reply where one of them would follow.
	StopSequences []string
	// Options are merged into the provider's request: members of objects replace members of the same name, at any
	// depth. Lists and other values replace the request's, and so does an object with another "type".
	Options map[string]any
}

// validate reports the first mistake, as an error made by bad.
func (s *Settings) validate(bad func(field, format string, args ...any) error) error {
	for field, value := range map[string]*float64{"settings.temperature": s.Temperature, "settings.top_p": s.TopP} {
		if value != nil && (limits.Number(*value) != "" || *value < 0) {
			return bad(field, "must be 0 or greater, not %v", *value)
		}
	}
	if s.MaxOutputTokens < 0 {
		return bad("settings.max_output_tokens", "%d is negative", s.MaxOutputTokens)
	}
	if problem := limits.Text(s.ReasoningEffort); problem != "" {
		return bad("settings.reasoning_effort", "%s", problem)
	}
	for _, words := range s.StopSequences {
		if problem := limits.Text(words); problem != "" {
			return bad("settings.stop_sequences", "an entry %s", problem)
		}
	}
	raw, err := json.Marshal(s.Options)
	if err != nil {
		return bad("settings.options", "cannot be encoded as JSON: %v", err)
	}
	if problem := limits.JSON(raw); problem != "" {
		return bad("settings.options", "encoded as JSON %s", problem)
	}
	return nil
}

// ChunkType is the kind of a [Chunk].
type ChunkType string

const (
	ChunkText      ChunkType = "text"       // Text is appended to the reply
	ChunkReasoning ChunkType = "reasoning"  // Text is appended to the reasoning; Provider belongs to it
	ChunkPartEnd   ChunkType = "part_end"   // the open text or reasoning is complete; Provider and Sources belong to it
	ChunkProvider  ChunkType = "provider"   // Provider is a part of its own, and Sources belong to it
	ChunkToolStart ChunkType = "tool_start" // a call of Tool begins; CallID identifies it
	ChunkToolArgs  ChunkType = "tool_args"  // Text is appended to the arguments of call CallID
	ChunkFile      ChunkType = "file"       // File is part of the reply
	ChunkModel     ChunkType = "model"      // before all else: Model answers instead of the requested one
	ChunkEvent     ChunkType = "event"      // Event happened on another server and is published with the reply
	ChunkUsage     ChunkType = "usage"      // Usage replaces the previous figures
	ChunkRestart   ChunkType = "restart"    // the reply so far is void, its usage is paid for: it begins again; Text is why, if known
	ChunkFinish    ChunkType = "finish"     // the reply is complete; FinishReason is why
)

// ModelCall is a request that a provider made to a model for a reply.
type ModelCall struct {
	// Model is the [ModelInfo.ID] of the model; empty for the one that answers.
	Model string `json:"model,omitempty"`
	// Usage is the request's own.
	Usage Usage `json:"usage"`
}

// Chunk is one piece of a streamed reply.
type Chunk struct {
	// Type is the kind of the chunk. It determines which of the other fields are set.
	Type ChunkType `json:"type"`
	// Text is a piece of text, of reasoning or of a call's arguments, in valid UTF-8. The pieces of a call's arguments
	// are one JSON document.
	Text string `json:"text,omitempty"`
	// CallID is the call that the chunk belongs to, by the provider's id.
	CallID string `json:"call_id,omitempty"`
	// Tool is the name of the called tool.
	Tool string `json:"tool,omitempty"`
	// Provider is kept unchanged with the part, together with Model: the [ModelInfo.ID] of the model that needs it
	// back. For a ChunkModel, Model is the model that answers.
	Provider json.RawMessage `json:"provider,omitempty"`
	Model    string          `json:"model,omitempty"`
	Sources  []Source        `json:"sources,omitempty"`
	File     *File           `json:"file,omitempty"`
	// Usage is the usage of the call so far; the last one counts. Its CostNanos count if PricedCalls is not 0: the
	// provider has named the price itself. A provider that made several requests for the reply, such as one for each
	// use of its own tools, reports their sum.
	Usage Usage `json:"usage,omitzero"`
	// Calls lists the requests of a ChunkUsage that sums up several, or any of another model, oldest first: each has
	// its own price. nil means one request to the model that answers.
	Calls []ModelCall `json:"calls,omitempty"`
	// WindowTokens is how many tokens of the model's window the conversation fills with the reply, for a ChunkUsage
	// that sums up several requests; 0 means the input and output of Usage.
	WindowTokens int64 `json:"window_tokens,omitempty"`
	// FinishReason is why the model stopped, for a ChunkFinish.
	FinishReason FinishReason `json:"finish_reason,omitempty"`
	// Event is an action of an agent on another server, for a ChunkEvent: an EventToolStart, EventToolEnd,
	// EventSubagentStart, EventSubagentEnd or EventCustom with its Origin. It is published as an event of the
	// requesting session, and is not part of the reply.
	Event *Event `json:"event,omitempty"`
	// Awaits, with ChunkToolStart, makes the call wait for people or clients of this program, whose answer an agent
	// on another server needs. Provider then identifies the call on that server.
	Awaits *Awaits `json:"awaits,omitempty"`
}
