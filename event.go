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
	EventRunStart      EventType = "run_start"
	EventRunEnd        EventType = "run_end" // Status, Reason, Error, Text: why it was stopped
	EventRunResumed    EventType = "run_resumed"
	EventStepStart     EventType = "step_start"
	EventStepCommitted EventType = "step_committed" // MessageCount
	// EventStepDiscarded marks everything that the run's step Step published since its EventStepStart as void: the
	// attempt failed or the process died. Readers drop it.
	EventStepDiscarded EventType = "step_discarded"

	EventTextDelta    EventType = "text_delta"     // Text
	EventThinking     EventType = "thinking"       // Text is a delta
	EventThinkingEnd  EventType = "thinking_end"   // the reasoning is complete
	EventToolArgStart EventType = "tool_arg_start" // CallID, Tool
	EventToolArgDelta EventType = "tool_arg_delta" // CallID, Text
	EventToolArgEnd   EventType = "tool_arg_end"   // CallID, Tool, Data: the whole arguments
	EventToolStart    EventType = "tool_start"     // CallID, Tool, Data: the arguments
	EventToolEnd      EventType = "tool_end"       // CallID, Tool, Data: the result, IsError
	// EventToolApproval and EventToolPending are written once the call can be answered.
	EventToolApproval  EventType = "tool_approval_request" // CallID, ApprovalID, Tool, Data: the arguments, Deadline
	EventToolPending   EventType = "tool_call_pending"     // CallID, Tool, Data: the arguments, Deadline
	EventSubagentStart EventType = "subagent_start"        // CallID, Tool, ChildID, Name: the sub-agent
	EventSubagentEnd   EventType = "subagent_end"          // CallID, Tool, ChildID, Name, Status

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
	Op string `json:"op"`
	// Path is a JSON Pointer (RFC 6901) into the state. The token "-" is the place behind an array's last item.
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Event is one entry of an event log. Which fields beyond the first block are set follows from Type. Events are
// immutable.
type Event struct {
	// Sequence is the position in the log: 1, 2, 3, …. The log gives it out.
	Sequence  int64     `json:"sequence"`
	Type      EventType `json:"type"`
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Step      int       `json:"step,omitempty"`
	Time      time.Time `json:"time"`

	Text    string          `json:"text,omitempty"`
	CallID  string          `json:"call_id,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Name    string          `json:"name,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	// Truncated marks a tool result that was cut to fit the log; the transcript has it whole.
	Truncated bool `json:"truncated,omitempty"`
	// Cached marks a result that came from the tool's cache.
	Cached       bool      `json:"cached,omitempty"`
	ApprovalID   string    `json:"approval_id,omitempty"`
	ChildID      string    `json:"child_id,omitempty"`
	Deadline     time.Time `json:"deadline,omitzero"`
	Status       RunStatus `json:"status,omitempty"`
	Reason       Reason    `json:"reason,omitempty"`
	Error        *Error    `json:"error,omitempty"`
	Usage        *Usage    `json:"usage,omitempty"`
	Patch        []PatchOp `json:"patch,omitempty"`
	CheckpointID string    `json:"checkpoint_id,omitempty"`
	MessageCount int       `json:"message_count,omitempty"`

	// Incarnation is that of the log the event was read from, as readers set it; a log does not keep it.
	Incarnation string `json:"-"`
}

// Cursor returns the place behind the event, to continue reading from.
func (e *Event) Cursor() Cursor { return Cursor{Incarnation: e.Incarnation, Sequence: e.Sequence} }

// Cursor is a place in the event log of a session tree: behind the event of a sequence, in one incarnation of the
// session. The zero value is the beginning. Without an incarnation it is a place in the log of whatever session has
// the id now. Its text form is INCARNATION.SEQUENCE, or the sequence alone.
type Cursor struct {
	Incarnation string
	Sequence    int64
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
