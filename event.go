package cairn

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
)

// EventType names what happened.
type EventType string

const (
	EventRunStart      EventType = "run_start"      // MessageCount
	EventRunEnd        EventType = "run_end"        // Status, Reason, Error, Text: why it was stopped
	EventRunResumed    EventType = "run_resumed"    // Name: the run that it follows, MessageCount
	EventStepStart     EventType = "step_start"     // an attempt at the step Step begins
	EventStepCommitted EventType = "step_committed" // MessageCount
	// EventStepDiscarded marks everything that the run's step Step published since its EventStepStart as void: the
	// attempt failed or the process died. Readers drop it.
	EventStepDiscarded EventType = "step_discarded"

	EventTextDelta     EventType = "text_delta"     // Text
	EventModelFallback EventType = "model_fallback" // Name: the model that answers instead of the one that was asked
	EventThinking      EventType = "thinking"       // Text is a delta
	EventThinkingEnd   EventType = "thinking_end"   // the reasoning is complete
	EventSources       EventType = "sources"        // Sources: what the text so far cites, or what a search of the provider's found
	EventFiles         EventType = "files"          // Index, MessageID, Files, Truncated: those of a reply, which can be read now
	EventToolArgStart  EventType = "tool_arg_start" // CallID, Tool
	EventToolArgDelta  EventType = "tool_arg_delta" // CallID, Text
	EventToolArgEnd    EventType = "tool_arg_end"   // CallID, Tool, Data: the whole arguments
	EventToolStart     EventType = "tool_start"     // CallID, Tool, Data: the arguments, Edited
	EventToolEnd       EventType = "tool_end"       // CallID, Tool, Data: the result, IsError, Edited
	// EventToolApproval and EventToolPending are written once the call can be answered.
	EventToolApproval  EventType = "tool_approval_request" // CallID, ApprovalID, Tool, Data: the arguments, Prompt, Payload, Deadline
	EventToolPending   EventType = "tool_call_pending"     // CallID, Tool, Data: the arguments, Deadline; of a question ToolCallID, Prompt, Payload
	EventSubagentStart EventType = "subagent_start"        // CallID, Tool, ChildID, Name: the sub-agent
	EventSubagentEnd   EventType = "subagent_end"          // CallID, Tool, ChildID, Name, Status

	// EventUserMessage is a message of the user, right behind the beginning of the run that it began, or of the one that
	// it was sent to: Index, MessageID, Text, Files, Truncated.
	EventUserMessage EventType = "user_message"
	// EventContextAdded is a hidden message, of a run or of Engine.AddContext: Index, MessageID, Text, Truncated, and
	// ChildID if it reports on a companion. [Event.Public] has no text of it.
	EventContextAdded EventType = "context_added"
	// EventCompacted is a hidden message that stands for the older part of the transcript from now on: Index, MessageID,
	// Text, Truncated; MessageCount is how many messages, from the first on, a model is no longer sent. [Event.Public] has
	// no text of it.
	EventCompacted EventType = "compacted"
	// EventContextChanged says that the session's context was changed. Name is "tools" where tools were switched on and
	// off: Data has the switches by tool, Index and MessageID are those of the hidden message that says so. Name is
	// "session" where the user, title, tags, metadata or expiry were changed: Data has what was set.
	EventContextChanged EventType = "context_changed"
	// EventQueued is a turn that was put into the session's queue: RunID, Text, Files, Truncated of what it begins with.
	// It ends with the start of a run of that id, or with EventDequeued.
	EventQueued EventType = "queued"
	// EventDequeued is a queued turn that will not run, since it was taken out of the queue or its messages have joined
	// the turn under way: RunID.
	EventDequeued EventType = "dequeued"
	// EventRewound takes the session back to its first MessageCount messages: the later ones are gone. CheckpointID is
	// the checkpoint, RunID the run that was undone instead.
	EventRewound EventType = "rewound"
	// EventBranched says where a branch left: on the new session's log, with the MessageCount messages that it began
	// with, Name is the session that it came from; on that one's log ChildID is the new session. CheckpointID is set if
	// it left at a checkpoint.
	EventBranched EventType = "branched"

	EventStatePatch EventType = "state_patch" // Patch
	EventCustom     EventType = "custom"      // Name, Data
	EventOutput     EventType = "output"      // Data: the typed output
	EventError      EventType = "error"       // Error
	EventUsage      EventType = "usage"       // Usage of the step
	EventCheckpoint EventType = "checkpoint"  // CheckpointID, MessageCount

	// EventSessionDeleted is the last event of a tree that was removed, unless it was restored: then
	// EventSessionRestored follows.
	EventSessionDeleted  EventType = "session_deleted"
	EventSessionRestored EventType = "session_restored"
)

// PatchOp is one operation of an RFC 6902 JSON Patch: "add", "replace" or "remove".
type PatchOp struct {
	// Op is "add", "replace" or "remove".
	Op string `json:"op"`
	// Path is a JSON Pointer (RFC 6901) into the state. The token "-" is the place behind an array's last item.
	Path string `json:"path"`
	// Value is what is put there, as JSON; nil for "remove".
	Value json.RawMessage `json:"value,omitempty"`
}

// Event is one entry of an event log. Which fields beyond the first block are set follows from Type. Events are
// immutable.
type Event struct {
	// Sequence is the position in the log: 1, 2, 3, …. The log gives it out.
	Sequence int64 `json:"sequence"`
	// Type is what happened, and decides which fields of the second block are set.
	Type EventType `json:"type"`
	// SessionID is the session that it happened in: the log's root, or one below it.
	SessionID string `json:"session_id"`
	// RunID is the run that published the event; empty for what a verb did between runs.
	RunID string `json:"run_id,omitempty"`
	// Agent is the name of the session's agent.
	Agent string `json:"agent,omitempty"`
	// Step is the number of the run's step, from 1; 0 outside of steps.
	Step int `json:"step,omitempty"`
	// Time is when it happened, by the store's clock as the publishing process carries it on.
	Time time.Time `json:"time"`

	// Text is a piece of text, or of a message: see the type.
	Text string `json:"text,omitempty"`
	// CallID is the tool call or, of a pending question, the question.
	CallID string `json:"call_id,omitempty"`
	// Tool is the name of the call's tool.
	Tool string `json:"tool,omitempty"`
	// Name is what the type says: of a custom event its name, of a consultation the agent's.
	Name string `json:"name,omitempty"`
	// Data is arguments, a result or what else the type says, as JSON.
	Data json.RawMessage `json:"data,omitempty"`
	// IsError marks the result of a call that failed.
	IsError bool `json:"is_error,omitempty"`
	// Truncated marks a text, a tool's result or arguments, a prompt or a list of files or sources that was cut to fit the log; the
	// transcript and the pending call have it whole.
	Truncated bool `json:"truncated,omitempty"`
	// Cached marks a result that came from the tool's cache.
	Cached bool `json:"cached,omitempty"`
	// Attempts is how often a tool with [Retry] was called for a result; 0 for once.
	Attempts int `json:"attempts,omitempty"`
	// Edited is the arguments that a tool ran with, if the reviewer who approved the call changed them.
	Edited json.RawMessage `json:"edited,omitempty"`
	// ApprovalID binds an approval response to the request: see [CallRef].
	ApprovalID string `json:"approval_id,omitempty"`
	// ToolCallID is the tool call that asks a question, whose own id is CallID. Prompt and Payload say why a call asks.
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Prompt     string          `json:"prompt,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	// ChildID is the session of a sub-agent or companion, or a branch.
	ChildID string `json:"child_id,omitempty"`
	// Deadline is when a pending call counts as failed; zero for never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Status is how a run ended, or the run of a consulted agent.
	Status RunStatus `json:"status,omitempty"`
	// Reason says why the run has that status.
	Reason Reason `json:"reason,omitempty"`
	// Error is why a run failed or a step was discarded. [Event.Public] has no more than its code.
	Error *Error `json:"error,omitempty"`
	// Usage is that of a step or, at the end of a run, of the whole run.
	Usage *Usage `json:"usage,omitempty"`
	// Patch is a change of the state, to be applied when the step is committed.
	Patch []PatchOp `json:"patch,omitempty"`
	// CheckpointID is the checkpoint that was made, or gone back to.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// MessageCount is how many messages the session has with what the event says.
	MessageCount int `json:"message_count,omitempty"`
	// Index is the place of a message in the transcript, counted from 0. As JSON it is left out if it is 0.
	Index int `json:"index,omitempty"`
	// MessageID is the id of the message at Index.
	MessageID string `json:"message_id,omitempty"`
	// Files are those of a user's message, or of a reply.
	Files []FileRef `json:"files,omitempty"`
	// Sources are pages and documents that the model's provider read: up to 64, with up to [MaxEventText] of a quote.
	Sources []Source `json:"sources,omitempty"`
	// Origin is the session of another server in which it happened, of an event that an agent there has published: what its
	// tools and its own agents did. SessionID, RunID and Step are those of the call here that it happened for, and Agent is the one
	// that did it there. No transcript here depends on it.
	Origin string `json:"origin,omitempty"`
	// Version is the session's version with what the event reports, where that was no part of a run.
	Version int64 `json:"version,omitempty"`

	// Incarnation is that of the log the event was read from, as readers set it; a log does not keep it.
	Incarnation string `json:"-"`
}

// Public returns the event as the user of a conversation may read it: without the text of hidden context, without what was
// set in the session's context, and with [Error.Public] for why a run failed or a step was discarded. Errors of tools that
// are private are not on the log, see [Agent.ShowToolErrors]. A public event says what its type, its place and its cursor say.
func (e *Event) Public() Event {
	out := *e
	out.Error = e.Error.Public()
	switch e.Type {
	case EventContextAdded, EventCompacted:
		out.Text, out.Truncated, out.Files = "", false, nil
	case EventContextChanged:
		out.Data, out.Truncated = nil, false
	}
	return out
}

// MaxEventText is the most bytes of a message's text that an event has; what is longer is cut at the boundary of a
// character and marked by [Event.Truncated].
const MaxEventText = 1 << 10

// FileRef describes a file in a message without its bytes: those are in the transcript, in part Part of the message.
type FileRef struct {
	// Part is the index of the part of the message that has the file.
	Part int `json:"part"`
	// Name is the file's name, if it has one.
	Name string `json:"name,omitempty"`
	// MediaType is what the file is, such as "image/png".
	MediaType string `json:"media_type"`
	// Size is how many bytes the transcript has of the file; 0 for one that has an address.
	Size int `json:"size,omitempty"`
	// URL is the file's address, unless that is long or a "data:" URL.
	URL string `json:"url,omitempty"`
}

// Cursor returns the place behind the event, to continue reading from.
func (e *Event) Cursor() Cursor { return Cursor{Incarnation: e.Incarnation, Sequence: e.Sequence} }

// Cursor is a place in the event log of a session tree: behind the event of a sequence, in one incarnation of the
// session. The zero value is the beginning. Without an incarnation it is a place in the log of whatever session has
// the id now. Its text form is INCARNATION.SEQUENCE, or the sequence alone.
type Cursor struct {
	// Incarnation is that of the session, see [Session].Incarnation; empty for whichever there is.
	Incarnation string
	// Sequence is that of the last event that was read; 0 for the beginning.
	Sequence int64
}

// After returns the cursor behind a sequence of whatever log there is.
func After(sequence int64) Cursor { return Cursor{Sequence: sequence} }

// String returns the text form.
func (c Cursor) String() string {
	sequence := strconv.FormatInt(c.Sequence, 10)
	if c.Incarnation == "" {
		return sequence
	}
	return c.Incarnation + "." + sequence
}

// ParseCursor reads the text form of a cursor; empty is the zero value. Anything else is ErrInvalid.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	var c Cursor
	sequence := text
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		c.Incarnation, sequence = text[:i], text[i+1:]
		if problem := ids.Check(c.Incarnation); problem != "" {
			return Cursor{}, Invalid("cursor", "%q: the incarnation %s", text, problem)
		}
	}
	var err error
	if c.Sequence, err = strconv.ParseInt(sequence, 10, 64); err != nil || c.Sequence < 0 {
		return Cursor{}, Invalid("cursor", "%q does not end with the sequence of an event", text)
	}
	return c, nil
}

// MarshalText returns the text form.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text form.
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCursor(string(text))
	return err
}

// Ends reports whether the event is the last one of the run with the given id.
func (e *Event) Ends(runID string) bool { return e.Type == EventRunEnd && e.RunID == runID }
