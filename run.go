package cairn

import (
	"encoding/json"
	"strings"
	"time"
)

// RunStatus is the state of one run. A suspended run has ended too: Engine.Resume continues it in another run once
// everything that it waits for has arrived.
type RunStatus string

const (
	RunRunning     RunStatus = "running"     // it has not ended
	RunCompleted   RunStatus = "completed"   // Reason says why it ended
	RunFailed      RunStatus = "failed"      // Error is why
	RunInterrupted RunStatus = "interrupted" // it was stopped; its committed steps are kept
	RunSuspended   RunStatus = "suspended"   // Suspended lists the calls it waits for, Reason names their kinds
)

// UnmarshalText decodes a status. On the wire the status of a suspended run is followed by its reason, as in
// suspended_client_tool; the reason is left out here, since it has a field of its own.
func (s *RunStatus) UnmarshalText(text []byte) error {
	if *s = RunStatus(text); strings.HasPrefix(string(*s), string(RunSuspended)+"_") {
		*s = RunSuspended
	}
	return nil
}

// Reason is why a run ended.
type Reason string

const (
	ReasonReply         Reason = "reply"             // the model answered without calling tools
	ReasonLength        Reason = "length"            // as ReasonReply, but cut off at the output limit
	ReasonWindow        Reason = "window"            // as ReasonReply, but cut off because the window was full
	ReasonFinish        Reason = "finish"            // __finish__ was called
	ReasonFinishTool    Reason = "finish_tool"       // a FinishWith tool was called
	ReasonStopCondition Reason = "stop_condition"    // the agent's StopWhen held
	ReasonInterrupted   Reason = "interrupted"       // it was interrupted on request
	ReasonAborted       Reason = "aborted"           // it was aborted on request
	ReasonCalls         Reason = "client_tool"       // suspended: all calls without a result wait for people or clients
	ReasonChildren      Reason = "awaiting_children" // suspended: calls wait for suspended sub-agents
	ReasonStepPartial   Reason = "step_partial"      // suspended: calls wait for both, or other calls of the step have results
	ReasonCrashed       Reason = "crashed"           // its process died, and the session went back to before its end
	ReasonError         Reason = "error"             // see Run.Error
)

// RunKind is the verb that began a run.
type RunKind string

const (
	RunExecute RunKind = "execute" // Engine.Execute: a new turn
	RunResume  RunKind = "resume"  // Engine.Resume: continues a suspended or interrupted turn
	RunRetry   RunKind = "retry"   // Engine.Retry: repeats a failed turn
)

// Run is the record of one execution within a session. Turns are contiguous from 1.
type Run struct {
	// ID is unique in the store.
	ID string `json:"id"`
	// SessionID is the session that the run belongs to; Agent is the name of its agent.
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	// Kind is the verb that began the run.
	Kind RunKind `json:"kind"`
	// Turn is the run's number in its session, from 1.
	Turn int `json:"turn"`
	// Status is the outcome of the run, or RunRunning; Reason is why.
	Status RunStatus `json:"status"`
	Reason Reason    `json:"reason,omitempty"`
	// AgentVersion is the version of the agent in this run; empty for an unversioned agent.
	AgentVersion string `json:"agent_version,omitempty"`
	// Model is the name of the entry of Agent.Models that the run uses; empty for Agent.Model.
	Model string `json:"model,omitempty"`
	// PreviousRunID is the run that this one resumes or retries.
	PreviousRunID string `json:"previous_run_id,omitempty"`
	// TraceParent is the W3C trace context of the caller that began the turn, see engine.WithTraceParent.
	TraceParent string `json:"trace_parent,omitempty"`
	// Background is set on a run of a companion that its parent left to work by itself, see [NonBlocking]. It stays so
	// when the run is resumed, even if the companion's mode has changed by then.
	Background bool `json:"background,omitempty"`
	// RolledBack are the names of the tools that the runs had called which were undone so that this one could begin,
	// see engine.BusyRollback. Their effects outside of the session remain. A call that was not executed does not
	// count.
	RolledBack []string `json:"rolled_back,omitempty"`
	// Steps is the number of steps that the run committed.
	Steps int `json:"steps"`
	// StartSequence is the sequence before the run's first event.
	StartSequence int64 `json:"start_sequence"`
	// FirstMessage is the number of messages in the session when the run began.
	FirstMessage int `json:"first_message"`
	// Usage is the run's own; engine.Run.TreeUsage adds the usage of the agents below it.
	Usage Usage `json:"usage"`
	// Text is the text of the last reply. If the run failed in a model call, it is the text that this call had shown,
	// which the transcript does not have. Output is the typed output as JSON, if there is one.
	Text   string          `json:"text,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Error is why the run failed. [Run.Public] reduces it to its code.
	Error *Error `json:"error,omitempty"`
	// StopReason is the reason that was given to the Interrupt or Abort that ended the run.
	StopReason string `json:"stop_reason,omitempty"`
	// StoppedBy is who stopped the run, see engine.StoppedBy; empty for the application.
	StoppedBy string `json:"stopped_by,omitempty"`
	// Suspended lists the calls and children that the run waits for, if it is suspended.
	Suspended *Suspension `json:"suspended,omitempty"`
	// Before is the position of the session when the run began, so that the run can be rolled back.
	Before RunOrigin `json:"before,omitzero"`
	// StartedAt and EndedAt are times of the store's clock; EndedAt is zero while the run is under way.
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Public returns the record as the user of the conversation may see it: without the trace context and the name of who
// stopped the run, and its error is reduced by [Error.Public].
func (r *Run) Public() Run {
	out := *r
	out.Error, out.TraceParent, out.StoppedBy = r.Error.Public(), "", ""
	return out
}

// RunOrigin is the position of a session when one of its runs began.
type RunOrigin struct {
	// CheckpointID is the session's latest checkpoint before the run; StatePosition is the position of its state.
	CheckpointID  string `json:"checkpoint_id,omitempty"`
	StatePosition int64  `json:"state_position,omitempty"`
}

// Result is the outcome of a run.
type Result struct {
	// SessionID and RunID name the run.
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// Turn is the run's number in its session, from 1.
	Turn int `json:"turn"`
	// Status is the outcome of the run; Reason is why.
	Status RunStatus `json:"status"`
	Reason Reason    `json:"reason,omitempty"`
	// Text is the text of the last reply.
	Text string `json:"text,omitempty"`
	// Output is the typed output as JSON, if the agent has an output type or a FinishWith tool ended the turn. Decode
	// it with [OutputAs].
	Output json.RawMessage `json:"output,omitempty"`
	// Error is why the run failed. [Result.Public] reduces it to its code.
	Error *Error `json:"error,omitempty"`
	// StopReason is the reason that was given to the Interrupt or Abort that ended the run.
	StopReason string `json:"stop_reason,omitempty"`
	// StoppedBy is who stopped the run, see engine.StoppedBy; empty for the application.
	StoppedBy string `json:"stopped_by,omitempty"`
	// Suspended lists the calls and children that the run waits for, if it is suspended.
	Suspended *Suspension `json:"suspended,omitempty"`
	// RolledBack are the tools whose calls were undone so that the run could begin, see [Run.RolledBack].
	RolledBack []string `json:"rolled_back,omitempty"`
	// Steps is the number of steps that the run committed.
	Steps int `json:"steps"`
	// Usage is the run's own; engine.Run.TreeUsage adds the usage of the agents below it.
	Usage Usage `json:"usage"`
}

// Public returns the result as the user of the conversation may see it: without the name of who stopped the run, and its
// error is reduced by [Error.Public].
func (r *Result) Public() Result {
	out := *r
	out.Error, out.StoppedBy = r.Error.Public(), ""
	return out
}

// Result returns the result that the record holds.
func (r *Run) Result() *Result {
	return &Result{SessionID: r.SessionID, RunID: r.ID, Turn: r.Turn, Status: r.Status, Reason: r.Reason,
		Text: r.Text, Output: r.Output, Error: r.Error, StopReason: r.StopReason, StoppedBy: r.StoppedBy, Suspended: r.Suspended, RolledBack: r.RolledBack,
		Steps: r.Steps, Usage: r.Usage}
}
