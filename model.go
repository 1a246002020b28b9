package cairn

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Model is a language model that streams one reply at a time. Implementations are safe for concurrent use.
type Model interface {
	// Info names the model.
	Info() ModelInfo
	// Stream asks for one reply. The sequence yields chunks until the reply is complete, or ends with one error: an
	// *Error whose code is of CategoryModel; its Retryable says whether the call is retried. A reply that ends
	// without ChunkFinish counts as broken off. A ctx that is done ends the stream with CodeAborted, or CodeTimeout for
	// a deadline, wrapping ctx.Err(). The request must not be modified.
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Validator is implemented by models that know before their first call that they cannot be asked, for want of a key for
// instance. Agent.Validate calls it, and so engine.New and Engine.Replace do. It asks no server and takes no time.
type Validator interface {
	// Validate reports what is wrong with the model; nil if it can be asked.
	Validate() error
}

// Stopper is implemented by models whose replies are the work of something that a call's end does not stop, such as an agent
// on another server. An engine makes sure that this is stopped with the turn that it works for: see docs/REMOTE.md. A model
// that wraps another one has a method Unwrap() Model, or Unwrap() []Model for several, so that it is found.
type Stopper interface {
	// StopTurn stops what is at work elsewhere for a turn of a session here. The turn is named by its runs, the one that began
	// it among them: what is at work for another turn is not touched. It is called once a run of the turn has been stopped or
	// has failed, by whichever process has the agent, and again until it returns nil: that it was stopped, or has ended, or is
	// not known there. It makes one attempt, and ends with ctx.
	StopTurn(ctx context.Context, session string, runs []string) error
}

// ModelInfo describes a model.
type ModelInfo struct {
	// Provider is who serves the model, such as "anthropic".
	Provider string `json:"provider"`
	// Name is the model's name at its provider.
	Name string `json:"name"`
}

// ID names the model of its provider, as [Part.Model] does: "provider:name".
func (i ModelInfo) ID() string { return i.Provider + ":" + i.Name }

// Request is one call of a model.
type Request struct {
	// SessionID is the session that asks; a provider may use it to find its cache again.
	SessionID string
	// System is the agent's instructions; empty for none.
	System string
	// Messages are the conversation so far, every tool use followed by its result.
	Messages []Message
	// Tools are what the model may call.
	Tools []ToolSpec
	// Choice says whether the model must call a tool.
	Choice ToolChoice
	// Settings are the agent's.
	Settings Settings
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	// Name is what the model calls the tool by.
	Name string `json:"name"`
	// Description says to the model what the tool is for.
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage `json:"schema"`
}

// ToolChoice steers tool use. The zero value lets the model choose.
type ToolChoice struct {
	// Tool names the one tool the model must call; empty for free choice.
	Tool string `json:"tool,omitempty"`
	// None forbids tool calls.
	None bool `json:"none,omitempty"`
}

// Settings tune a model call. Zero values leave the provider's default.
type Settings struct {
	// Temperature and TopP are the provider's, nil for its default.
	Temperature *float64
	TopP        *float64
	// MaxOutputTokens bounds the reply.
	MaxOutputTokens int
	// ReasoningEffort is the provider's word: "minimal", "low", "medium", "high".
	ReasoningEffort string
	// StopSequences end the reply where one of them would follow.
	StopSequences []string
	// Options are merged into the provider's request as they are, by top-level name.
	Options map[string]any
}

// validate reports the first mistake by way of bad.
func (s *Settings) validate(bad func(field, format string, args ...any) error) error {
	for field, value := range map[string]*float64{"settings.temperature": s.Temperature, "settings.top_p": s.TopP} {
		if value != nil && (limits.Number(*value) != "" || *value < 0) {
			return bad(field, "%v is not a number from 0 on", *value)
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
			return bad("settings.stop_sequences", "one %s", problem)
		}
	}
	raw, err := json.Marshal(s.Options)
	if err != nil {
		return bad("settings.options", "do not encode as JSON: %v", err)
	}
	if problem := limits.JSON(raw); problem != "" {
		return bad("settings.options", "as JSON it %s", problem)
	}
	return nil
}

// ChunkType is the kind of a [Chunk].
type ChunkType string

const (
	ChunkText      ChunkType = "text"       // Text is appended to the reply
	ChunkReasoning ChunkType = "reasoning"  // Text is appended to the reasoning; Provider belongs to it
	ChunkPartEnd   ChunkType = "part_end"   // the text or reasoning under way is complete; Provider and Sources belong to it
	ChunkProvider  ChunkType = "provider"   // Provider is a part of its own, and Sources belong to it
	ChunkToolStart ChunkType = "tool_start" // a call of Tool begins; CallID identifies it
	ChunkToolArgs  ChunkType = "tool_args"  // Text is appended to the arguments of call CallID
	ChunkFile      ChunkType = "file"       // File is part of the reply
	ChunkModel     ChunkType = "model"      // before all else: Model answers, not the one that was asked
	ChunkEvent     ChunkType = "event"      // Event happened on another server for the reply, and is shown with it
	ChunkUsage     ChunkType = "usage"      // Usage replaces what was known
	ChunkRestart   ChunkType = "restart"    // everything of the reply so far is void: it begins again
	ChunkFinish    ChunkType = "finish"     // the reply is complete; FinishReason says why
)

// Chunk is one piece of a streamed reply.
type Chunk struct {
	// Type says what the chunk is, and which of the other fields are set.
	Type ChunkType `json:"type"`
	// Text is a piece of text, of reasoning or of a call's arguments.
	Text string `json:"text,omitempty"`
	// CallID is the call that the chunk belongs to, under the provider's id.
	CallID string `json:"call_id,omitempty"`
	// Tool is the name of the tool that is called.
	Tool string `json:"tool,omitempty"`
	// Provider is kept with the part as it is, and Model with it: the [ModelInfo.ID] of the model that wants it back. Of a
	// ChunkModel it is that of the model that answers.
	Provider json.RawMessage `json:"provider,omitempty"`
	Model    string          `json:"model,omitempty"`
	Sources  []Source        `json:"sources,omitempty"`
	File     *File           `json:"file,omitempty"`
	// Usage is what the call has used so far; the last one counts.
	Usage Usage `json:"usage,omitzero"`
	// FinishReason is why the model stopped, of a ChunkFinish.
	FinishReason FinishReason `json:"finish_reason,omitempty"`
	// Event is what an agent on another server did, of a ChunkEvent: an EventToolStart, EventToolEnd, EventSubagentStart,
	// EventSubagentEnd or EventCustom with its Origin. It is published as an event of the session that asks; the reply does not
	// have it.
	Event *Event `json:"event,omitempty"`
	// Awaits, with ChunkToolStart, makes the call one that waits for people or clients of this program: an agent on another
	// server asks for what these answer. Provider, with it, says which call of that server it is.
	Awaits *Awaits `json:"awaits,omitempty"`
}
