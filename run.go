package cairn

import (
	"encoding/json"
	"slices"
	"time"
)

// RunStatus is the state of one run. A run that is suspended has ended too: Engine.Resume continues it in another run,
// once what it waits for is there. Ask [RunStatus.Suspends] rather than for one of the three.
type RunStatus string

const (
	RunRunning             RunStatus = "running"                     // it has not ended
	RunCompleted           RunStatus = "completed"                   // Reason says by what
	RunFailed              RunStatus = "failed"                      // Error says why
	RunInterrupted         RunStatus = "interrupted"                 // it was stopped; what was committed is kept
	SuspendedClientTool    RunStatus = "suspended_client_tool"       // every call waits for an answer
	SuspendedChildren      RunStatus = "suspended_awaiting_children" // calls wait for sub-agents that wait
	SuspendedStepPartially RunStatus = "suspended_step_partial"      // calls of both kinds, or some with results
)

// Reason says why a run ended.
type Reason string

const (
	ReasonReply         Reason = "reply"          // the model answered without calling tools
	ReasonLength        Reason = "length"         // it did, and was cut off at the limit of its output
	ReasonWindow        Reason = "window"         // it did, and was cut off since its window was full
	ReasonFinish        Reason = "finish"         // __finish__ was called
	ReasonFinishTool    Reason = "finish_tool"    // a FinishWith tool was called
	ReasonStopCondition Reason = "stop_condition" // the agent's StopWhen held
	ReasonInterrupted   Reason = "interrupted"    // it was interrupted on request
	ReasonAborted       Reason = "aborted"        // it was aborted on request
	ReasonSuspended     Reason = "suspended"      // it is suspended
	ReasonCrashed       Reason = "crashed"        // its process died and a new turn took its place
	ReasonError         Reason = "error"          // see Run.Error
)

// RunKind says which verb began a run.
type RunKind string

const (
	RunExecute RunKind = "execute" // Engine.Execute: a new turn
	RunResume  RunKind = "resume"  // Engine.Resume: more of a turn that was suspended or interrupted
	RunRetry   RunKind = "retry"   // Engine.Retry: a failed turn again
)

// Run is the record of one execution inside a session. Turns are contiguous from 1.
type Run struct {
	// ID is unique in the store.
	ID string `json:"id"`
	// SessionID is the session that the run belongs to, Agent the name of its agent.
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	// Kind says which verb began the run.
	Kind RunKind `json:"kind"`
	// Turn is the run's number in its session, from 1.
	Turn int `json:"turn"`
	// Status is how the run came out, or RunRunning; Reason says why.
	Status RunStatus `json:"status"`
	Reason Reason    `json:"reason,omitempty"`
	// AgentVersion is the version of the agent that the run has; empty for an agent without versions.
	AgentVersion string `json:"agent_version,omitempty"`
	// Model is the name of the one of Agent.Models that the run asks; empty for Agent.Model.
	Model string `json:"model,omitempty"`
	// PreviousRunID is the run this one resumes or retries.
	PreviousRunID string `json:"previous_run_id,omitempty"`
	// Abandoned is the run, if any, whose process had died and that ended with the beginning of this one.
	Abandoned string `json:"abandoned,omitempty"`
	// Steps is the number of steps the run committed.
	Steps int `json:"steps"`
	// StartSequence is the event log's position when the run began: its events come after it.
	StartSequence int64 `json:"start_sequence"`
	// FirstMessage is the number of messages the session had when the run began.
	FirstMessage int `json:"first_message"`
	// Usage is the run's own; that of the agents below it is in engine.Run.TreeUsage.
	Usage Usage `json:"usage"`
	// Text is the text of the last reply, Output the typed output as JSON if there is one.
	Text   string          `json:"text,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Error is why the run failed. [Run.Public] has no more than its code.
	Error *Error `json:"error,omitempty"`
	// StopReason is the reason that was given to the Interrupt or Abort that ended the run.
	StopReason string `json:"stop_reason,omitempty"`
	// Suspended says what the run waits for, if it is suspended.
	Suspended *Suspension `json:"suspended,omitempty"`
	// Before is where the session was when the run began, so that the run can be rolled back.
	Before RunOrigin `json:"before,omitzero"`
	// StartedAt and EndedAt are times of the store's clock; EndedAt is zero while the run is under way.
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Public returns the record as the user of the conversation may see it: with [Error.Public] for why the run failed.
func (r *Run) Public() Run {
	out := *r
	out.Error = r.Error.Public()
	return out
}

// RunOrigin is where a session was when one of its runs began.
type RunOrigin struct {
	// CheckpointID is the session's latest checkpoint, StatePosition its state's place, before the run.
	CheckpointID  string `json:"checkpoint_id,omitempty"`
	StatePosition int64  `json:"state_position,omitempty"`
}

// Suspends reports whether a run of this status waits for people or children.
func (s RunStatus) Suspends() bool {
	return s == SuspendedClientTool || s == SuspendedChildren || s == SuspendedStepPartially
}

// Result is the outcome of a run.
type Result struct {
	// SessionID and RunID name the run.
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// Turn is the run's number in its session, from 1.
	Turn int `json:"turn"`
	// Status is how the run came out; Reason says why.
	Status RunStatus `json:"status"`
	Reason Reason    `json:"reason,omitempty"`
	// Text is the text of the last reply.
	Text string `json:"text,omitempty"`
	// Output is the typed output as JSON, if the agent has an output type or a FinishWith tool ended the turn. Decode
	// it with [OutputAs].
	Output json.RawMessage `json:"output,omitempty"`
	// Error is why the run failed. [Result.Public] has no more than its code.
	Error *Error `json:"error,omitempty"`
	// StopReason is the reason that was given to the Interrupt or Abort that ended the run.
	StopReason string `json:"stop_reason,omitempty"`
	// Suspended says what the run waits for, if it is suspended.
	Suspended *Suspension `json:"suspended,omitempty"`
	// Steps is the number of steps that the run committed.
	Steps int `json:"steps"`
	// Usage is the run's own. What agents below it used is in engine.Run.TreeUsage.
	Usage Usage `json:"usage"`
}

// Public returns the outcome as the user of the conversation may see it: with [Error.Public] for why the run failed.
func (r *Result) Public() Result {
	out := *r
	out.Error = r.Error.Public()
	return out
}

// Result returns the outcome that the record holds.
func (r *Run) Result() *Result {
	return &Result{SessionID: r.SessionID, RunID: r.ID, Turn: r.Turn, Status: r.Status, Reason: r.Reason,
		Text: r.Text, Output: r.Output, Error: r.Error, StopReason: r.StopReason, Suspended: r.suspended(), Steps: r.Steps, Usage: r.Usage}
}

// suspended returns what the run waits for, with the deadlines of the calls that it opened: those were not known when the
// record was written, since they count from the end of the run.
func (r *Run) suspended() *Suspension {
	if r.Suspended == nil || r.EndedAt.IsZero() {
		return r.Suspended
	}
	out := *r.Suspended
	out.Calls = slices.Clone(out.Calls)
	for i := range out.Calls {
		if c := &out.Calls[i]; c.Deadline.IsZero() && c.WaitAtMost > 0 {
			c.Deadline = r.EndedAt.Add(c.WaitAtMost)
		}
	}
	return &out
}
