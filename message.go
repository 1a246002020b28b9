package cairn

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
)

// Role says who speaks in a message.
type Role string

const (
	RoleUser      Role = "user"      // the user, or the program on their behalf (Message.Hidden)
	RoleAssistant Role = "assistant" // the model
	RoleTool      Role = "tool"      // the results of the tool uses of the reply before
)

// Message is one entry of a session's transcript. Messages are immutable once they are in a session: one that
// came from a store, an event or a request must not be modified.
type Message struct {
	// ID is unique in the session. It is assigned when the message is added if it is empty.
	ID string `json:"id,omitempty"`
	// Role says whose message it is: the user's, the model's, or that of tools.
	Role Role `json:"role"`
	// Hidden marks a context row: the model reads it, a chat does not show it.
	Hidden bool `json:"hidden,omitempty"`
	// Parts are what the message consists of, in order.
	Parts []Part `json:"parts"`
	// Tools switches tools of the agent on and off, by name, from this message on. Only hidden messages do that; see
	// [ToolSwitch].
	Tools map[string]bool `json:"tools,omitempty"`
	// Pinned is what toolsets of the agent offer from this message on, by their names. Only hidden messages have it; see
	// [Toolset].
	Pinned map[string]json.RawMessage `json:"pinned,omitempty"`
	// Summary says that the message stands for the older part of the transcript. Only hidden messages have it; Tools and
	// Pinned then are all that was switched off and pinned before.
	Summary *Summary `json:"summary,omitempty"`
	// Origin says what a message is for that Cairn added of its own accord; empty for what users, models, tools and
	// hooks say.
	Origin Origin `json:"origin,omitempty"`
	// Model is the [ModelInfo.ID] of the model that made the reply, where it is not the one that was asked: one that a
	// fallback chose.
	Model string `json:"model,omitempty"`
	// ChildID is the session of the companion that a message of OriginCompanion reports on.
	ChildID string `json:"child_id,omitempty"`
	// Cut says why a reply is not whole, if its model stopped before it was done: [FinishReasonLength] or
	// [FinishReasonWindow].
	Cut FinishReason `json:"cut,omitempty"`
	// Tokens is how large the conversation was with the message, as the provider of the model that said it has counted: the
	// input and the output of that call. 0 if it did not say.
	Tokens int64 `json:"tokens,omitempty"`
	// RunID is the run that added the message; empty for what was added between runs.
	RunID string `json:"run_id,omitempty"`
	// CreatedAt is when the message was committed, by the store's clock.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// Origin says what a message is for that Cairn added of its own accord.
type Origin string

const (
	// OriginWithdrawn answers calls that were cancelled, since their run was stopped or another turn began.
	OriginWithdrawn Origin = "withdrawn"
	// OriginMustFinish asks for the typed output: for the rest of its run the model must call [FinishTool].
	OriginMustFinish Origin = "must_finish"
	// OriginCompanion reports what a companion in the background came to.
	OriginCompanion Origin = "companion"
)

// Summary is what a message has that stands for the older part of its transcript. A model is sent the message first, then
// the messages from index From on, without the reasoning of those before the summary; the transcript keeps everything.
type Summary struct {
	// From is the index of the first message that is still sent as it is. It is greater than 0, and not behind the summary.
	From int `json:"from"`
	// Background are the sessions of companions that were at work in the background.
	Background []string `json:"background,omitempty"`
	// Found are the deferred tools that the model had found, see [Deferred].
	Found []string `json:"found,omitempty"`
}

// PartType is the kind of a [Part].
type PartType string

const (
	PartText       PartType = "text"        // Text
	PartReasoning  PartType = "reasoning"   // Text: what the model thought, as far as its provider shows it
	PartToolUse    PartType = "tool_use"    // ToolUse: a call that the model asks for
	PartToolResult PartType = "tool_result" // Result: what a call came to
	PartFile       PartType = "file"        // File
	// PartProvider is an item of the provider's own that has no other form: reasoning that it encrypted, or a search that
	// it made. Provider holds it, and Sources what it found.
	PartProvider PartType = "provider"
)

// Part is one piece of a message. Which fields are set follows from Type.
type Part struct {
	// Type says what the part is, and which of the other fields is set.
	Type PartType `json:"type"`
	// Text is the text of PartText and PartReasoning.
	Text string `json:"text,omitempty"`
	// Provider is what the model's provider wants back with the part, as it gave it: a signature, an item of its own, fields
	// that no other part has. Users and the event log do not get it.
	Provider json.RawMessage `json:"provider,omitempty"`
	// Model is the [ModelInfo.ID] of the model that gave Provider, which is sent back to that model only: to another one
	// goes what the other fields say.
	Model string `json:"model,omitempty"`
	// Sources are what a PartText cites, or what a PartProvider found.
	Sources []Source `json:"sources,omitempty"`
	// ToolUse is the call that the model asks for, of a PartToolUse.
	ToolUse *ToolUse `json:"tool_use,omitempty"`
	// Result is what a call came to, of a PartToolResult.
	Result *ToolResult `json:"tool_result,omitempty"`
	// File is the file of a PartFile.
	File *File `json:"file,omitempty"`
}

// Source is a page or document that a model's provider read for a reply.
type Source struct {
	// URL is the page's address; empty for a document of the conversation.
	URL string `json:"url,omitempty"`
	// Title is the source's title, if it has one.
	Title string `json:"title,omitempty"`
	// Quote is the passage that is cited, if there is one.
	Quote string `json:"quote,omitempty"`
}

// ToolUse is a model's request to call a tool.
type ToolUse struct {
	// CallID is unique in the session.
	CallID string `json:"call_id"`
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Input is the arguments as the model wrote them. It may violate the tool's schema, but it is valid JSON: text
	// that is not is kept as a JSON string. In place of arguments that a session cannot keep, see [CheckJSON], it is
	// a JSON string that says why, with the beginning of them.
	Input json.RawMessage `json:"input"`
	// Awaits makes the call one that waits for an answer from outside, whatever tools the agent has: its model, an agent on
	// another server, asks for it. nil for every other call.
	Awaits *Awaits `json:"awaits,omitempty"`
	// Deferred says that the model called the tool by [CallTool], as it is sent the call again.
	Deferred bool `json:"deferred,omitempty"`
}

// Awaits is what a call waits for that a [Model] has asked for: see [Chunk.Awaits]. The call is a [PendingCall] of the
// session, and the model gets what was answered as its result: the value of a client tool or a question, an [Approved] for an
// approval. A denial, a failure and a deadline that passed are results with IsError.
type Awaits struct {
	// Kind says what the call asks for.
	Kind CallKind `json:"kind"`
	// Prompt and Payload say why the call asks.
	Prompt  string          `json:"prompt,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Schema is that of the answer, or of the arguments that an approval may change; empty for any JSON.
	Schema json.RawMessage `json:"schema,omitempty"`
	// NoEdits says that an approval must leave the arguments as they are.
	NoEdits bool `json:"no_edits,omitempty"`
	// WaitAtMost is how long the call waits; 0 means for ever.
	WaitAtMost time.Duration `json:"wait_at_most,omitempty"`
}

// Approved is the result, as JSON, of an approval that a model has asked for with [Awaits].
type Approved struct {
	// Approved is true: a denial is a result with IsError instead.
	Approved bool `json:"approved"`
	// Input is the arguments that were approved: those of the call, or the reviewer's.
	Input json.RawMessage `json:"input"`
}

// ToolResult is the answer to a tool use. Every tool use has exactly one before the next model call.
type ToolResult struct {
	// CallID is the id of the tool use that this answers.
	CallID string `json:"call_id"`
	// Tool is the name of its tool.
	Tool string `json:"tool"`
	// Output is the tool's result as JSON, or the error text as a JSON string if IsError.
	Output json.RawMessage `json:"output"`
	// IsError says that the call failed, was denied or was not executed: Code says which.
	IsError bool `json:"is_error,omitempty"`
	// Code says why, if IsError.
	Code Code `json:"code,omitempty"`
	// Edited is the arguments that the tool ran with, if the reviewer who approved the call changed them. The model
	// sees that: in what it is sent, Output begins with them, as the member "arguments_edited_by_reviewer" of a result that is
	// an object and in words otherwise.
	Edited json.RawMessage `json:"edited,omitempty"`
	// Private says that Output is the text of an error of the program, which may have secrets in it: the model reads
	// it, the event log does not have it. See [Agent.ShowToolErrors].
	Private bool `json:"private,omitempty"`
	// Background is the session of a companion that the call left at work. A later message of [OriginCompanion]
	// reports what that came to.
	Background string `json:"background,omitempty"`
	// Child is the session that the call consulted, in a message of [OriginWithdrawn]: the call was closed without
	// its outcome.
	Child ChildEnd `json:"child,omitzero"`
}

// File is a file or image in a message: its bytes, or an address the provider fetches.
type File struct {
	// Name is what the file is called; it may be empty.
	Name string `json:"name,omitempty"`
	// MediaType is what it is, such as "image/png". Required.
	MediaType string `json:"media_type"`
	// Data are its bytes; nil for a file that has an address.
	Data []byte `json:"data,omitempty"`
	// URL is an address from which the model's provider fetches it. Give this or Data.
	URL string `json:"url,omitempty"`
}

// FileFromDataURL returns the file a "data:" URL holds.
func FileFromDataURL(name, url string) (File, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return File{}, Invalid("url", "not a data URL")
	}
	mediaType, isBase64 := strings.CutSuffix(head, ";base64")
	if !isBase64 {
		return File{}, Invalid("url", "only base64 data URLs are supported")
	}
	data, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return File{}, Invalid("url", "bad base64: %v", err)
	}
	if mediaType == "" {
		mediaType = "text/plain"
	}
	return File{Name: name, MediaType: mediaType, Data: data}, nil
}

// DataURL returns the file's bytes as a "data:" URL.
func (f *File) DataURL() string {
	return "data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.Data)
}

// TextPart returns a part of plain text.
func TextPart(text string) Part { return Part{Type: PartText, Text: text} }

// FilePart returns a part that holds a file.
func FilePart(f File) Part { return Part{Type: PartFile, File: &f} }

// User returns a user's message.
func User(parts ...Part) Message { return Message{Role: RoleUser, Parts: parts} }

// Context returns a hidden message: the model reads the text as context, a chat does not show it.
func Context(text string) Message {
	return Message{Role: RoleUser, Hidden: true, Parts: []Part{TextPart(text)}}
}

// Text returns the message's text parts joined.
func (m *Message) Text() string {
	if len(m.Parts) == 1 && m.Parts[0].Type == PartText {
		return m.Parts[0].Text
	}
	var b strings.Builder
	for i := range m.Parts {
		if m.Parts[i].Type == PartText {
			b.WriteString(m.Parts[i].Text)
		}
	}
	return b.String()
}

// ToolUses returns the message's tool uses in order.
func (m *Message) ToolUses() []*ToolUse {
	var list []*ToolUse
	for i := range m.Parts {
		if m.Parts[i].Type == PartToolUse {
			list = append(list, m.Parts[i].ToolUse)
		}
	}
	return list
}

// Public returns the message as the user of a conversation may read it: with "the tool failed" for errors of tools that
// are private, and without what a model's provider wants back and what toolsets have pinned. Of a PartProvider its sources are left, if it has any.
func (m *Message) Public() Message {
	out := *m
	out.Pinned, out.Summary, out.Tokens = nil, nil, 0
	out.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool {
		return p.Type == PartProvider && len(p.Sources) == 0
	})
	for i := range out.Parts {
		p := &out.Parts[i]
		p.Provider, p.Model = nil, ""
		if p.ToolUse != nil && p.ToolUse.Awaits != nil {
			use := *p.ToolUse
			use.Awaits, p.ToolUse = nil, &use
		}
		if p.Result != nil && p.Result.Private {
			r := *p.Result
			r.Output, p.Result = json.RawMessage(bridge.PrivateError), &r
		}
	}
	return out
}

// ToolResults returns the message's tool results in order.
func (m *Message) ToolResults() []*ToolResult {
	var list []*ToolResult
	for i := range m.Parts {
		if m.Parts[i].Type == PartToolResult {
			list = append(list, m.Parts[i].Result)
		}
	}
	return list
}

// Input is what a turn begins with: one or more user messages. Build it with [Text] or [Messages].
type Input struct {
	// Messages are what the turn begins with, in order.
	Messages []Message
}

// Text is an input of one user message.
func Text(text string) Input { return Input{Messages: []Message{User(TextPart(text))}} }

// Messages is an input of several messages: user messages with text and files, and [Context] messages.
func Messages(list ...Message) Input { return Input{Messages: list} }

// MaxInputBytes is the most one input may hold, all text and files together.
const MaxInputBytes = MaxMessageBytes

// Size returns how many bytes of content the message's parts hold, and what is pinned with it.
func (m *Message) Size() int {
	total := 0
	for _, raw := range m.Pinned {
		total += len(raw)
	}
	for i := range m.Parts {
		total += m.Parts[i].size()
	}
	return total
}

// size returns how many bytes of content a part holds.
func (p *Part) size() int {
	n := len(p.Text) + len(p.Provider)
	for _, s := range p.Sources {
		n += len(s.URL) + len(s.Title) + len(s.Quote)
	}
	if p.ToolUse != nil {
		n += len(p.ToolUse.Input)
		if a := p.ToolUse.Awaits; a != nil {
			n += len(a.Prompt) + len(a.Payload) + len(a.Schema)
		}
	}
	if p.Result != nil {
		n += len(p.Result.Output)
	}
	if p.File != nil {
		n += len(p.File.Name) + len(p.File.MediaType) + len(p.File.URL) + len(p.File.Data)
	}
	return n
}

// FinishReason says why a reply ended.
type FinishReason string

const (
	FinishReasonEnd          FinishReason = "end"     // the model was done
	FinishReasonTools        FinishReason = "tools"   // the model wants tools to be called
	FinishReasonLength       FinishReason = "length"  // the output limit was reached
	FinishReasonWindow       FinishReason = "window"  // the model's window is full
	FinishReasonStopSequence FinishReason = "stopped" // a stop sequence was met
)
