package cairn

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
)

// Role is the speaker of a message.
type Role string

const (
	RoleUser      Role = "user"      // the user, or the program on their behalf (Message.Hidden)
	RoleAssistant Role = "assistant" // the model
	RoleTool      Role = "tool"      // the results of the previous reply's tool uses
)

// Message is one entry of a session's transcript. Messages are immutable once they are in a session: a message from
// a store, an event or a request must not be modified.
type Message struct {
	// ID is unique in the session. If it is empty, it is assigned when the message is added.
	ID string `json:"id,omitempty"`
	// Role is the speaker: the user, the model, or tools.
	Role Role `json:"role"`
	// Hidden marks context: the model reads it, but a chat does not show it.
	Hidden bool `json:"hidden,omitempty"`
	// Parts are the content of the message, in order.
	Parts []Part `json:"parts"`
	// Metadata is JSON that the page stored with the user's message that it sent, at most [MaxMetadataBytes]. Models do
	// not read it.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Tools switches tools of the agent on and off, by name, from this message on. Only hidden messages have it;
	// see [Step.SwitchTools].
	Tools map[string]bool `json:"tools,omitempty"`
	// Pinned has the offers of the agent's toolsets that apply from this message on, by toolset name. Only hidden
	// messages have it; see [Toolset].
	Pinned map[string]json.RawMessage `json:"pinned,omitempty"`
	// Summary is set if the message replaces the older part of the transcript in requests. Only hidden messages
	// have it. Tools and Pinned then contain everything that was switched off and pinned before.
	Summary *Summary `json:"summary,omitempty"`
	// LeftOut lists files of earlier messages that requests no longer contain, since a model's provider does not accept
	// them. Only hidden messages have it.
	LeftOut *LeftOut `json:"left_out,omitempty"`
	// Trust is set on a hidden message from which on the session counts as tainted, or no longer does; see [Step.Taint].
	Trust Trust `json:"trust,omitempty"`
	// Workspace is the reference of the session's workspace from this message on: the application has restored it, see
	// [WorkspaceReader]. Only hidden messages have it, and models do not read it.
	Workspace string `json:"workspace,omitempty"`
	// Origin is the purpose of a message that Cairn itself added; empty for messages of users, models, tools and
	// hooks.
	Origin Origin `json:"origin,omitempty"`
	// Model is the [ModelInfo.ID] of the model that generated the reply, if that is not the requested one: the
	// choice of a fallback.
	Model string `json:"model,omitempty"`
	// ChildID is the session of the companion that a message of OriginCompanion reports on.
	ChildID string `json:"child_id,omitempty"`
	// CallID is the call whose tool returned the files of this message, which follows its result. Its first part is a text
	// that names the call. Providers that accept files in a result get them there, others get the message. Only hidden
	// messages have it.
	CallID string `json:"call_id,omitempty"`
	// Cut is why a reply is incomplete, if the model stopped before it was done: [FinishReasonLength] or
	// [FinishReasonWindow].
	Cut FinishReason `json:"cut,omitempty"`
	// Tokens is the size of the conversation including this message, in tokens, as counted by the provider of its
	// model: the input and the output of that call. 0 if the provider did not report it.
	Tokens int64 `json:"tokens,omitempty"`
	// Fingerprint identifies the request that the reply answers; nil for other messages, and if the request has the blocks
	// of the one before. It is for operators.
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
	// EndsTurn is set on the last message of a completed turn, and on context that was added during its last step and
	// follows it: the model has nothing to answer after it. A session that is rewound or branched to such a message is
	// completed, and not resumable.
	EndsTurn bool `json:"ends_turn,omitempty"`
	// RunID is the run that added the message; empty for messages added between runs.
	RunID string `json:"run_id,omitempty"`
	// CreatedAt is when the message was committed, by the store's clock.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// Trust is how far the content that a session's model has read can be trusted.
type Trust string

const (
	// TrustTainted marks a session whose model has read text that may be an attack.
	TrustTainted Trust = "tainted"
	// TrustCleared marks a session that a person has found harmless since.
	TrustCleared Trust = "cleared"
)

// Origin is the purpose of a message that Cairn itself added.
type Origin string

const (
	// OriginWithdrawn answers calls that were cancelled because their run was stopped or another turn began.
	OriginWithdrawn Origin = "withdrawn"
	// OriginMustFinish requests the typed output: for the rest of its run the model must call [FinishTool].
	OriginMustFinish Origin = "must_finish"
	// OriginCompanion reports the result of a companion in the background.
	OriginCompanion Origin = "companion"
)

// Summary marks a message that replaces the older part of its transcript in requests. A request contains that
// message first, then the messages from index From on, without the reasoning of those before the summary. The
// transcript keeps everything.
type Summary struct {
	// From is the index of the first message that requests still contain. It is greater than 0 and not after the
	// summary.
	From int `json:"from"`
	// Background are the sessions of companions that were running in the background.
	Background []string `json:"background,omitempty"`
	// Found are the deferred tools that the model had found, see [Deferred].
	Found []string `json:"found,omitempty"`
	// Blocks are the hashes of the blocks whose contents earlier fingerprints have, see [Fingerprint].
	Blocks []string `json:"blocks,omitempty"`
	// Workspace is the reference of the session's workspace, see [Step.Workspace]; empty for none.
	Workspace string `json:"workspace,omitempty"`
}

// LeftOut lists files that are left out of the requests to a model. In place of each file, the model reads a text that
// names the file and the reason. The transcript keeps the files, and another model is sent them.
type LeftOut struct {
	// Files are the places of the files.
	Files []FilePlace `json:"files"`
	// Model is the [ModelInfo.ID] of the model that was asked.
	Model string `json:"model"`
	// Reason is the provider's report.
	Reason string `json:"reason"`
}

// FilePlace is the place of a file in a transcript.
type FilePlace struct {
	// Message is the index of the message, from 0.
	Message int `json:"message"`
	// Part is the index of its part, from 0.
	Part int `json:"part"`
}

// PartType is the kind of a [Part].
type PartType string

const (
	PartText       PartType = "text"        // Text
	PartReasoning  PartType = "reasoning"   // Text: the model's reasoning, as far as its provider shows it
	PartToolUse    PartType = "tool_use"    // ToolUse: a call requested by the model
	PartToolResult PartType = "tool_result" // Result: the outcome of a call
	PartFile       PartType = "file"        // File
	// PartProvider is an item of the provider's own that has no other form: encrypted reasoning, or a search.
	// Provider holds it, and Sources its findings.
	PartProvider PartType = "provider"
	// PartData is a value for pages: Data. A model reads it, as JSON, only in a user's message that has nothing else.
	PartData PartType = "data"
)

// Part is one piece of a message. Type determines which fields are set.
type Part struct {
	// Type is the kind of the part. It determines which of the other fields is set.
	Type PartType `json:"type"`
	// Text is the text of PartText and PartReasoning.
	Text string `json:"text,omitempty"`
	// Provider is data that the model's provider must get back with the part, unchanged: a signature, an item of its
	// own, fields that no other part has. It is not shown to users and not published on the event log.
	Provider json.RawMessage `json:"provider,omitempty"`
	// Model is the [ModelInfo.ID] of the model that Provider came from. Only that model is sent Provider back;
	// another model gets the other fields instead.
	Model string `json:"model,omitempty"`
	// Sources are the citations of a PartText, or the findings of a PartProvider.
	Sources []Source `json:"sources,omitempty"`
	// ToolUse is the requested call of a PartToolUse.
	ToolUse *ToolUse `json:"tool_use,omitempty"`
	// Result is the outcome of a call, for a PartToolResult.
	Result *ToolResult `json:"tool_result,omitempty"`
	// File is the file of a PartFile.
	File *File `json:"file,omitempty"`
	// Data is the value of a PartData.
	Data *Data `json:"data,omitempty"`
}

// Data is a value that pages show: a part of a user's message, or a value that a tool emitted with [Step.Emit].
type Data struct {
	// Name is the kind of the value: the name of the event that a tool emitted.
	Name string `json:"name"`
	// ID identifies the value among values of the same name; empty if no later value can replace it.
	ID string `json:"id,omitempty"`
	// Value is the value as JSON.
	Value json.RawMessage `json:"value"`
}

// Source is a page or document that a model's provider read for a reply.
type Source struct {
	// URL is the page's address; empty for a document of the conversation.
	URL string `json:"url,omitempty"`
	// Title is the source's title; it may be empty.
	Title string `json:"title,omitempty"`
	// Quote is the cited passage; it may be empty.
	Quote string `json:"quote,omitempty"`
}

// ToolUse is a model's request to call a tool.
type ToolUse struct {
	// CallID is unique in the session.
	CallID string `json:"call_id"`
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Input is the arguments as the model wrote them. They may violate the tool's schema, but are valid JSON:
	// malformed text is kept as a JSON string. Arguments that a session cannot keep, see [CheckJSON], are replaced
	// by a JSON string with the reason and the beginning of them.
	Input json.RawMessage `json:"input"`
	// Awaits makes the call wait for an external answer, regardless of the agent's tools: it was requested by an agent
	// on another server, which acts as the model. nil for every other call.
	Awaits *Awaits `json:"awaits,omitempty"`
	// Deferred reports whether the model called the tool by [CallTool], which is also how later requests show the
	// call to it.
	Deferred bool `json:"deferred,omitempty"`
}

// Awaits describes the answer that a call requested by a [Model] waits for: see [Chunk.Awaits]. The call is a
// [PendingCall] of the session, and the model gets the answer as its result: the value for a client tool or a question,
// an [Approved] for an approval. A denial, a failure and an expired deadline are results with IsError.
type Awaits struct {
	// Kind is the kind of answer that the call waits for.
	Kind CallKind `json:"kind"`
	// Prompt and Payload are the reason for the call, for the person who answers.
	Prompt  string          `json:"prompt,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Schema is the schema of the answer, or of the arguments that an approval may change; empty for any JSON.
	Schema json.RawMessage `json:"schema,omitempty"`
	// NoEdits reports whether an approval must leave the arguments unchanged.
	NoEdits bool `json:"no_edits,omitempty"`
	// WaitAtMost is how long the call waits; 0 means forever.
	WaitAtMost Duration `json:"wait_at_most,omitempty"`
}

// Approved is the result, as JSON, of an approval that a model requested with [Awaits].
type Approved struct {
	// Approved is true; a denial is a result with IsError instead.
	Approved bool `json:"approved"`
	// Input is the approved arguments: the call's own, or the reviewer's.
	Input json.RawMessage `json:"input"`
}

// ToolResult is the result of a tool use. Every tool use has exactly one before the next model call.
type ToolResult struct {
	// CallID is the id of the tool use.
	CallID string `json:"call_id"`
	// Tool is the name of the tool.
	Tool string `json:"tool"`
	// Output is the tool's result as JSON, or the error text as a JSON string if IsError.
	Output json.RawMessage `json:"output"`
	// IsError reports whether the call failed, was denied or was not executed. Code is the reason.
	IsError bool `json:"is_error,omitempty"`
	// Code is the reason, if IsError.
	Code Code `json:"code,omitempty"`
	// Edited is the arguments that the tool ran with, if they were changed by the reviewer who approved the call.
	// The model is informed of this: in requests, Output begins with them, as the member
	// "arguments_edited_by_reviewer" if the result is an object, else as text.
	Edited json.RawMessage `json:"edited,omitempty"`
	// Private reports whether Output is the text of a program error, which may contain secrets: the model reads it,
	// but the event log does not have it. See [Agent.ShowToolErrors].
	Private bool `json:"private,omitempty"`
	// Background is the session of a companion that continues to run after the call. A later message of
	// [OriginCompanion] reports its result.
	Background string `json:"background,omitempty"`
	// Data has the values that the tool emitted, for pages: the last value of each id. If it has more than 64 KiB, the
	// newest values remain. Models do not read it.
	Data []Data `json:"data,omitempty"`
	// Workspace is the reference of the session's workspace after the call, see [Call.SetWorkspace]; empty if the call did
	// not name one. Models do not read it.
	Workspace string `json:"workspace,omitempty"`
	// Artifacts are the files that the call made for the user, see [Call.Publish]. Models do not read them.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Child is the session that the call consulted, in a message of [OriginWithdrawn]: the call was closed without
	// the session's outcome.
	Child ChildEnd `json:"child,omitzero"`
}

// File is a file or image in a message: its bytes, or an address that the provider fetches.
type File struct {
	// Name is the file's name; it may be empty.
	Name string `json:"name,omitempty"`
	// MediaType is the file's media type, such as "image/png". Required.
	MediaType string `json:"media_type"`
	// Data are the file's bytes; nil for a file that has a URL.
	Data []byte `json:"data,omitempty"`
	// URL is an address from which the model's provider fetches the file. Set either URL or Data.
	URL string `json:"url,omitempty"`
}

// dataScheme begins a "data:" URL, in any case.
const dataScheme = "data:"

// IsDataURL reports whether an address is a "data:" URL, which has the bytes of a file in itself.
func IsDataURL(url string) bool {
	return len(url) >= len(dataScheme) && strings.EqualFold(url[:len(dataScheme)], dataScheme)
}

// FileFromDataURL returns the file in a "data:" URL.
func FileFromDataURL(name, url string) (File, error) {
	if !IsDataURL(url) {
		return File{}, Invalid("url", "must be a data URL")
	}
	head, body, comma := strings.Cut(url[len(dataScheme):], ",")
	if !comma {
		return File{}, Invalid("url", "must be a data URL")
	}
	mediaType, isBase64 := strings.CutSuffix(head, ";base64")
	if !isBase64 {
		return File{}, Invalid("url", "only base64 data URLs are supported")
	}
	data, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return File{}, Invalid("url", "invalid base64: %v", err)
	}
	if mediaType == "" {
		mediaType = "text/plain"
	}
	return File{Name: name, MediaType: strings.Clone(mediaType), Data: data}, nil // the URL need not be kept
}

// DataURL returns the file's bytes as a "data:" URL.
func (f *File) DataURL() string {
	return "data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.Data)
}

// Size returns the number of bytes of the value with its name and id.
func (d *Data) Size() int { return len(d.Name) + len(d.ID) + len(d.Value) }

// TextPart returns a part of plain text.
func TextPart(text string) Part { return Part{Type: PartText, Text: text} }

// FilePart returns a part that holds a file.
func FilePart(f File) Part { return Part{Type: PartFile, File: &f} }

// DataPart returns a part for pages.
func DataPart(d Data) Part { return Part{Type: PartData, Data: &d} }

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

// Public returns the message as the end user of a conversation may read it. Private errors of tools are replaced by
// "the tool failed". Data that a model's provider needs back, the pinned offers of toolsets, references to workspaces and
// the keys of artifacts are omitted. A
// PartProvider is reduced to its sources, or omitted if it has none.
func (m *Message) Public() Message {
	out := *m
	out.Pinned, out.Summary, out.LeftOut, out.Tokens, out.Fingerprint, out.EndsTurn, out.Workspace = nil, nil, nil, 0, nil, false, ""
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
		if p.Result != nil && (p.Result.Workspace != "" || len(p.Result.Artifacts) > 0) {
			r := *p.Result
			r.Workspace, r.Artifacts, p.Result = "", slices.Clone(r.Artifacts), &r
			for j := range r.Artifacts {
				r.Artifacts[j].Blobs = nil
			}
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

// Input is the input of a turn: one or more user messages. Build it with [Text] or [Messages].
type Input struct {
	// Messages are the messages that the turn begins with, in order.
	Messages []Message
}

// Text is an input of one user message.
func Text(text string) Input { return Input{Messages: []Message{User(TextPart(text))}} }

// Messages is an input of several messages: user messages with text and files, and [Context] messages.
func Messages(list ...Message) Input { return Input{Messages: list} }

// Size returns the number of content bytes in the message's parts and in Pinned.
func (m *Message) Size() int {
	total := len(m.Metadata)
	if m.LeftOut != nil {
		total += len(m.LeftOut.Reason)
	}
	for _, raw := range m.Pinned {
		total += len(raw)
	}
	if m.Fingerprint != nil {
		for _, raw := range m.Fingerprint.Blocks {
			total += len(raw)
		}
	}
	for i := range m.Parts {
		total += m.Parts[i].size()
	}
	return total
}

// size returns the number of content bytes in a part.
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
		for i := range p.Result.Data {
			n += p.Result.Data[i].Size()
		}
	}
	if p.Data != nil {
		n += p.Data.Size()
	}
	if p.File != nil {
		n += len(p.File.Name) + len(p.File.MediaType) + len(p.File.URL) + len(p.File.Data)
	}
	return n
}

// FinishReason is why a reply ended.
type FinishReason string

const (
	FinishReasonEnd          FinishReason = "end"     // the model was done
	FinishReasonTools        FinishReason = "tools"   // the model requests tool calls
	FinishReasonLength       FinishReason = "length"  // the output limit was reached
	FinishReasonWindow       FinishReason = "window"  // the model's window is full
	FinishReasonStopSequence FinishReason = "stopped" // a stop sequence was generated
)
