package cairn

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
)

// EventType is the kind of an [Event].
type EventType string

const (
	EventRunStart      EventType = "run_start"      // MessageCount, Data: the trace context of the caller, if it gave one
	EventRunEnd        EventType = "run_end"        // Status, Reason, Error, Text: the reason given for a stop, Name: who stopped it
	EventRunResumed    EventType = "run_resumed"    // Name: the previous run, MessageCount
	EventStepStart     EventType = "step_start"     // an attempt at step Step begins
	EventStepCommitted EventType = "step_committed" // MessageCount
	// EventStepDiscarded voids step Step of the run and the steps after it: their published events were not committed,
	// because the attempt failed or the process died. Readers drop the events that it [Event.Voids]. There may be none:
	// a process that takes over a run may discard a step that has not begun.
	EventStepDiscarded EventType = "step_discarded"

	// EventStepRetry reports that a call of the model failed and that the step calls it again: Error, Attempts: how many
	// calls have failed, Until: when the next one begins.
	EventStepRetry EventType = "step_retry"

	EventTextDelta EventType = "text_delta" // Text
	// EventModelFallback names the models of a reply that another model than the requested one gives: Name is the
	// model that answers, Text the requested one.
	EventModelFallback EventType = "model_fallback"
	EventThinking      EventType = "thinking"     // Text: a delta
	EventThinkingEnd   EventType = "thinking_end" // the reasoning is complete
	// EventSources lists the sources that the text so far cites, or that a search by the provider found: Sources.
	EventSources EventType = "sources"
	// EventFiles are the files of a reply, readable from now on: Index, MessageID, Files, Truncated.
	EventFiles EventType = "files"
	// EventArtifact reports the files that tools of a step made for the user, readable from now on: Index, MessageID,
	// Files, Truncated. Index and MessageID identify the message with the results. See [Call.Publish].
	EventArtifact    EventType = "artifact"
	EventSkillLoaded EventType = "skill_loaded" // CallID, Name: the skill
	// EventMemorySaved reports that the agent's memory has something new: Name: its id there, Text, Truncated, and
	// CallID if a tool has saved it. Without one, the memory has taken it from a turn that has ended.
	EventMemorySaved EventType = "memory_saved"
	// EventToolsMissing reports that a turn runs without the tools of a toolset, for example because a server did not
	// start in time: Name, Error.
	EventToolsMissing EventType = "tools_missing"
	EventToolArgStart EventType = "tool_arg_start" // CallID, Tool
	EventToolArgDelta EventType = "tool_arg_delta" // CallID, Text
	EventToolArgEnd   EventType = "tool_arg_end"   // CallID, Tool, Data: the complete arguments
	EventToolStart    EventType = "tool_start"     // CallID, Tool, Data: the arguments, Edited
	EventToolEnd      EventType = "tool_end"       // CallID, Tool, Data: the result, IsError, Code, Edited
	// EventToolApproval is published once the call can be answered: CallID, ApprovalID, Tool, Data: the arguments,
	// Prompt, Payload, Deadline.
	EventToolApproval EventType = "tool_approval_request"
	// EventToolPending is published once the call can be answered: CallID, Tool, Data: the arguments, Deadline; for
	// a question also ToolCallID, Prompt, Payload.
	EventToolPending EventType = "tool_call_pending"
	// EventEffectSent is published once the start of an attempt at an [Effectful] tool is stored, before its function is
	// called: CallID, Tool, Attempts.
	EventEffectSent EventType = "effect_sent"
	// EventEffectUnknown reports an attempt that ended without an outcome: CallID, Tool, Attempts, Text: the cause.
	EventEffectUnknown EventType = "effect_unknown"
	// EventEffectSettled reports the outcome of an effect: CallID, Tool, Attempts, Name: "confirmed" or "failed".
	EventEffectSettled EventType = "effect_settled"
	// EventBudgetWarning reports, once per turn and limit, that the share of a [Budget] at which a warning is published is
	// used: Data, a [BudgetReport]; Text: the same in words.
	EventBudgetWarning EventType = "budget_warning"
	EventSubagentStart EventType = "subagent_start" // CallID, Tool, ChildID, Name: the sub-agent
	EventSubagentEnd   EventType = "subagent_end"   // CallID, Tool, ChildID, Name, Status

	// EventUserMessage is a user's message: Index, MessageID, Text, Files, Truncated. It follows the start of the
	// run that it began, or of the run that it was sent to.
	EventUserMessage EventType = "user_message"
	// EventContextAdded is a hidden message, of a run or of Engine.AddContext: Index, MessageID, Text, Truncated,
	// and ChildID if it reports on a companion. [Event.Public] omits its text.
	EventContextAdded EventType = "context_added"
	// EventCompacted is a hidden message that replaces the older part of the transcript in later requests: Index,
	// MessageID, Text, Truncated. MessageCount is the number of messages, from the first on, that requests no
	// longer contain. [Event.Public] omits its text.
	EventCompacted EventType = "compacted"
	// EventContextChanged reports a change of the session's context. If Name is "tools", tools were switched on or off:
	// Data has the switches by tool; Index and MessageID identify the hidden message that informs the model. If Name is
	// "files", requests no longer contain files of earlier messages, since the provider does not accept them: Data has
	// their places; Index, MessageID, Text and Truncated describe the hidden message that says why. If Name is
	// "workspace", the application has restored the files of the session's workspace: the same fields describe the hidden
	// message that informs the model. If Name is "session", the user, title, tags, metadata or expiry were changed, or the
	// session was archived or made current: Data has the new values. A message that makes it current has no event but its
	// own.
	EventContextChanged EventType = "context_changed"
	// EventQueued reports a turn that was added to the session's queue: RunID, and Text, Files, Truncated of its
	// input. The turn leaves the queue with the start of the run of that id, or with EventDequeued.
	EventQueued EventType = "queued"
	// EventDequeued reports a queued turn that will not run, because it was removed from the queue or its messages
	// joined the turn under way: RunID.
	EventDequeued EventType = "dequeued"
	// EventRewound resets the session to its first MessageCount messages; the later ones are gone. CheckpointID is
	// the checkpoint, or RunID the run that was undone.
	EventRewound EventType = "rewound"
	// EventBranched records a branch. On the log of the new session, Name is the session that it was branched from,
	// and MessageCount the number of messages that it began with. On the log of the original session, ChildID is
	// the new session. CheckpointID is set if the branch began at a checkpoint.
	EventBranched EventType = "branched"

	EventStatePatch EventType = "state_patch" // Patch, Conflicts
	EventCustom     EventType = "custom"      // Name, Data, DataID
	EventOutput     EventType = "output"      // Data: the typed output
	EventError      EventType = "error"       // Error
	// EventUsage is published with each step: Usage of the step, Data: its model calls, see [Event.ModelCalls]. Step is 0
	// for calls of a step that added nothing.
	EventUsage      EventType = "usage"
	EventCheckpoint EventType = "checkpoint" // CheckpointID, MessageCount

	// EventSessionDeleted is the last event of a removed tree, unless the tree was restored: then
	// EventSessionRestored follows.
	EventSessionDeleted  EventType = "session_deleted"
	EventSessionRestored EventType = "session_restored"
)

// PatchOp is one operation of an RFC 6902 JSON Patch: "add", "replace" or "remove".
type PatchOp struct {
	// Op is "add", "replace" or "remove".
	Op string `json:"op"`
	// Path is a JSON Pointer (RFC 6901) into the state. The token "-" is the position after the last item of an
	// array.
	Path string `json:"path"`
	// Value is the new value, as JSON; nil for "remove".
	Value json.RawMessage `json:"value,omitempty"`
}

// StateConflict is a write to the state that was lost. Two calls of a step ran at the same time and did not see each
// other's writes. They set or deleted the same value, or a value and one that contains it.
type StateConflict struct {
	// Path is the JSON Pointer (RFC 6901) of the value.
	Path string `json:"path"`
	// Lost is the id of the call whose value was overwritten.
	Lost string `json:"lost"`
	// Won is the id of the call whose value the state has: the last one in call order.
	Won string `json:"won"`
}

// Event is one entry of an event log. Type determines which fields beyond the first block are set. Events are
// immutable.
type Event struct {
	// Sequence is the position in the log: 1, 2, 3, …. The log assigns it.
	Sequence int64 `json:"sequence"`
	// Type is the kind of event. It determines which fields of the second block are set.
	Type EventType `json:"type"`
	// SessionID is the session in which it happened: the root of the log's tree, or one below it.
	SessionID string `json:"session_id"`
	// RunID is the run that published the event; empty for events of verbs between runs.
	RunID string `json:"run_id,omitempty"`
	// Agent is the name of the session's agent.
	Agent string `json:"agent,omitempty"`
	// Step is the number of the run's step, from 1; 0 outside of steps.
	Step int `json:"step,omitempty"`
	// Time is when it happened, by the store's clock: of an event that follows from a commit the commit's time, of any
	// other that clock as carried forward by the publishing process.
	Time time.Time `json:"time"`

	// Text is a piece of text, or the text of a message: see the type.
	Text string `json:"text,omitempty"`
	// CallID is the tool call or, for a pending question, the question.
	CallID string `json:"call_id,omitempty"`
	// Tool is the name of the call's tool.
	Tool string `json:"tool,omitempty"`
	// Name depends on the type: the name of a custom event, the agent of a consultation.
	Name string `json:"name,omitempty"`
	// Data is the JSON value of the event: arguments, a result, or another value that the type documents.
	Data json.RawMessage `json:"data,omitempty"`
	// DataID is the id of a value that a tool emitted: a later event with the same Name and DataID replaces it.
	DataID string `json:"data_id,omitempty"`
	// IsError marks the result of a call that failed.
	IsError bool `json:"is_error,omitempty"`
	// Code is the reason why a call failed, if IsError.
	Code Code `json:"code,omitempty"`
	// Truncated marks a text, a tool's result or arguments, a prompt, or a list of files or sources that was cut to
	// fit the log. The transcript and the pending call have it in full.
	Truncated bool `json:"truncated,omitempty"`
	// Cached marks a result that came from the tool's cache.
	Cached bool `json:"cached,omitempty"`
	// Attempts is how many times a tool with [Retry] was called for a result; 0 means once. For an effect, it counts
	// the attempts that have begun, and for a step that is retried, those that have failed.
	Attempts int `json:"attempts,omitempty"`
	// Edited is the arguments that a tool ran with, if they were changed by the reviewer who approved the call.
	Edited json.RawMessage `json:"edited,omitempty"`
	// ApprovalID binds the response to this approval request: see [CallRef].
	ApprovalID string `json:"approval_id,omitempty"`
	// ToolCallID is the tool call that asks a question; CallID is then the id of the question. Prompt and Payload
	// are the reason for the call.
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Prompt     string          `json:"prompt,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	// ChildID is the session of a sub-agent or companion, or a branch.
	ChildID string `json:"child_id,omitempty"`
	// Deadline is when a pending call counts as failed; zero for never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Until is when the next attempt begins.
	Until time.Time `json:"until,omitzero"`
	// Status is how a run ended, or the run of a consulted agent.
	Status RunStatus `json:"status,omitempty"`
	// Reason is why the run has that status.
	Reason Reason `json:"reason,omitempty"`
	// Error is why a run failed or a step was discarded. [Event.Public] reduces it to its code.
	Error *Error `json:"error,omitempty"`
	// Usage is the usage of a step or, at the end of a run, of the whole run.
	Usage *Usage `json:"usage,omitempty"`
	// Patch is a change of the state, to be applied when the step is committed.
	Patch []PatchOp `json:"patch,omitempty"`
	// Conflicts lists the writes of parallel calls that the change does not contain, because another call of the step
	// wrote something else at the same place. The list may be cut; the engine's logger gets all of them.
	Conflicts []StateConflict `json:"conflicts,omitempty"`
	// CheckpointID is the checkpoint that was made, or rewound to.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// MessageCount is the number of messages in the session after the change that the event reports.
	MessageCount int `json:"message_count,omitempty"`
	// Index is the position of a message in the transcript, from 0. JSON omits it if it is 0.
	Index int `json:"index,omitempty"`
	// MessageID is the id of the message at Index.
	MessageID string `json:"message_id,omitempty"`
	// Files are the files of a user's message or of a reply, or artifacts.
	Files []FileRef `json:"files,omitempty"`
	// Sources are pages and documents that the model's provider read: up to 64, each with up to [MaxEventText] of a
	// quote.
	Sources []Source `json:"sources,omitempty"`
	// Origin is set on events published by an agent on another server, about its tools and its own agents: the session
	// there in which it happened. SessionID, RunID and Step identify the call here that it belongs to; Agent is the
	// agent there. No transcript here depends on it.
	Origin string `json:"origin,omitempty"`
	// Version is the session's version with the reported change, if the change was made outside of runs.
	Version int64 `json:"version,omitempty"`

	// Incarnation is the incarnation of the log that the event was read from. Readers set it; a log does not store
	// it.
	Incarnation string `json:"-"`
}

// Public returns the event as the end user of a conversation may read it: without the text of hidden context,
// the new values of the session's context and the name of who stopped a run. The error of a failed run or step is reduced
// by [Error.Public]. Private errors of tools are not on the log, see [Agent.ShowToolErrors]. Type, position and cursor
// are unchanged.
func (e *Event) Public() Event {
	out := *e
	out.Error = e.Error.Public()
	switch e.Type {
	case EventContextAdded, EventCompacted:
		out.Text, out.Truncated, out.Files = "", false, nil
	case EventContextChanged:
		out.Text, out.Data, out.Truncated = "", nil, false
	case EventUsage, EventRunStart, EventRunResumed:
		out.Data = nil
	case EventRunEnd:
		out.Name = ""
	}
	return out
}

// FileRef describes a file of a message without its bytes. The bytes are in the transcript, in part Part of the
// message.
type FileRef struct {
	// Part is the index of the message part that has the file, or the result of the call that published it.
	Part int `json:"part"`
	// Name is the file's name; it may be empty.
	Name string `json:"name,omitempty"`
	// MediaType is the media type of the file, such as "image/png".
	MediaType string `json:"media_type"`
	// Size is the size of the file, in bytes; 0 for a file that has a URL.
	Size int `json:"size,omitempty"`
	// URL is the file's address; it is omitted if it is long or a "data:" URL.
	URL string `json:"url,omitempty"`
}

// Cursor returns the position after the event, to continue reading from.
func (e *Event) Cursor() Cursor { return Cursor{Incarnation: e.Incarnation, Sequence: e.Sequence} }

// Cursor is a position in the event log of a session tree: after the event with a sequence, in one incarnation of
// the session. The zero value is the beginning. A cursor without an incarnation is a position in the log of the
// session that currently has the id. Its text form is INCARNATION.SEQUENCE, or the sequence alone.
type Cursor struct {
	// Incarnation is the session's, see [Session].Incarnation; empty for the current one.
	Incarnation string
	// Sequence is the sequence of the last event that was read; 0 for the beginning.
	Sequence int64
}

// After returns the cursor after a sequence, in the log of the current incarnation.
func After(sequence int64) Cursor { return Cursor{Sequence: sequence} }

// String returns the text form.
func (c Cursor) String() string {
	sequence := strconv.FormatInt(c.Sequence, 10)
	if c.Incarnation == "" {
		return sequence
	}
	return c.Incarnation + "." + sequence
}

// ParseCursor parses the text form of a cursor; empty is the zero value. Any other malformed text is ErrInvalid.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	var c Cursor
	sequence := text
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		c.Incarnation, sequence = text[:i], text[i+1:]
		if problem := ids.Check(c.Incarnation); problem != "" {
			return Cursor{}, Invalid("cursor", "%q: incarnation %s", text, problem)
		}
	}
	var err error
	if c.Sequence, err = strconv.ParseInt(sequence, 10, 64); err != nil || c.Sequence < 0 {
		return Cursor{}, Invalid("cursor", "%q must end with an event sequence", text)
	}
	return c, nil
}

// MarshalText returns the text form.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the text form.
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCursor(string(text))
	return err
}

// Voids reports whether the event discards the step of an earlier event: whether it is an [EventStepDiscarded] of that
// step, or of one before it, of the same run and session. Committed steps come before every step that is discarded.
func (e *Event) Voids(earlier *Event) bool {
	return e.Type == EventStepDiscarded && earlier.SessionID == e.SessionID && earlier.RunID == e.RunID && earlier.Step >= e.Step
}

// Ends reports whether the event is the last one of the run with the given id.
func (e *Event) Ends(runID string) bool { return e.Type == EventRunEnd && e.RunID == runID }
