package cairn

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn/internal/ops"
)

// EventType names what happened.
type EventType string

const (
	EventRunStart      EventType = "run_start"
	EventRunEnd        EventType = "run_end" // Status, Reason, Error, Text: why it was stopped
	EventRunResumed    EventType = "run_resumed"
	EventStepStart     EventType = "step_start"
	EventStepCommitted EventType = "step_committed" // MessageCount
	// EventStepDiscarded takes back everything the run's step Step said since its EventStepStart: its attempt failed or
	// its process died. Readers drop it.
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
)

// PatchOp is one operation of an RFC 6902 JSON Patch.
type PatchOp = ops.Patch

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
}

// Ends reports whether the event is the last one of the run with the given id.
func (e *Event) Ends(runID string) bool { return e.Type == EventRunEnd && e.RunID == runID }
