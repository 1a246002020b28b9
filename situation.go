package cairn

import (
	"encoding/json"
	"slices"
	"time"
)

// SituationKind is the kind of a wait, of an activity, or of the end of a run.
type SituationKind string

// Waits. Nothing runs, and the session continues once the wait has ended.
const (
	SituationApproval   SituationKind = "approval"    // a reviewer decides whether a tool may run
	SituationAnswer     SituationKind = "answer"      // a person answers the question of a tool
	SituationClientTool SituationKind = "client_tool" // a client runs a tool
	SituationAccount    SituationKind = "account"     // the user connects an account
	SituationEffect     SituationKind = "effect"      // a person finds out whether an effect happened
	SituationBudget     SituationKind = "budget"      // a person raises a budget that is used up, or ends the turn
	SituationChild      SituationKind = "child"       // an agent that the session consults waits, or works
	SituationWorker     SituationKind = "worker"      // a worker resumes the session: all that it waited for has arrived
	SituationQueue      SituationKind = "queue"       // a worker begins the next turn of the queue
)

// Work. A run holds the session.
const (
	SituationRunning  SituationKind = "running"  // it is not known more exactly
	SituationModel    SituationKind = "model"    // the model has been called, and nothing of its reply was published yet
	SituationWriting  SituationKind = "writing"  // the model writes its reply
	SituationTool     SituationKind = "tool"     // a tool runs
	SituationRetry    SituationKind = "retry"    // the model's call failed and will be retried
	SituationTakeover SituationKind = "takeover" // the process that drove the run is gone; another one will take it over
	SituationStopping SituationKind = "stopping" // a stop was requested and has yet to end the run or the wait
)

// Ends. The session takes the next message.
const (
	SituationNew     SituationKind = "new"     // no run has used the session yet
	SituationDone    SituationKind = "done"    // the last turn completed
	SituationStopped SituationKind = "stopped" // the last run was stopped, or the session was rewound into a turn
	SituationFailed  SituationKind = "failed"  // the last run failed
)

// Verb is an action that ends a situation.
type Verb string

// The verbs, with the method of the engine that is called for each.
const (
	VerbApprove Verb = "approve" // Submit, with Approve or Deny
	VerbAnswer  Verb = "answer"  // Submit, with the answer, or the result of a client tool
	VerbConnect Verb = "connect" // the user connects an account; Submit
	VerbSettle  Verb = "settle"  // Submit, with the outcome of the effect
	VerbRaise   Verb = "raise"   // Submit, with RaiseBudget or EndTurn
	VerbResume  Verb = "resume"  // Resume
	VerbRetry   Verb = "retry"   // Retry
	VerbStop    Verb = "stop"    // Interrupt
)

// Situation is the reason why a session waits, its current activity, or the outcome of its last run, with the people and
// sessions that it waits for, the times, and the verbs that end it. Fields that do not belong to the kind, or are not
// known, are zero.
type Situation struct {
	// Kind is the kind of the wait, of the activity, or of the end.
	Kind SituationKind `json:"kind"`
	// Since is when the situation began. In a list, it is the last commit of a running session.
	Since time.Time `json:"since"`
	// Until is when a wait ends by itself: the earliest deadline of the open calls, when a budget's period ends, or when the
	// model is called again.
	Until time.Time `json:"until,omitzero"`
	// AsOf is the store's time when this was read. Since and Until are by the same clock.
	AsOf time.Time `json:"as_of"`
	// Verbs end the situation: the first one continues the session, and the last one of a wait or of work ends it. A server
	// leaves out those that the principal may not use.
	Verbs []Verb `json:"verbs,omitempty"`

	// OpenCalls is the number of calls that the session waits for, and Call the one with the earliest deadline, or else the
	// oldest one. If the kind is SituationChild, it is the call of a session below.
	OpenCalls int        `json:"open_calls,omitempty"`
	Call      *CallBrief `json:"call,omitempty"`
	// SessionID and Agent are the consulted session that waits or works, and its agent.
	SessionID string `json:"session_id,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// Tool and CallID are the tool that runs, and its call; with several, the one that began first.
	Tool   string `json:"tool,omitempty"`
	CallID string `json:"call_id,omitempty"`

	// RunID is the session's last run. StartedAt and EndedAt are its times; in a list they are zero for a completed run.
	RunID     string    `json:"run_id,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Step is the current step of a running session, from 1, or the number of steps of a run that ended. MaxSteps is the agent's limit; 0 if the
	// process does not have the agent.
	Step     int `json:"step,omitempty"`
	MaxSteps int `json:"max_steps,omitempty"`
	// Attempt is the number of the attempt at the current step, from 1. It counts takeovers and retries. If the kind is
	// SituationRetry, it is the attempt that begins next.
	Attempt int `json:"attempt,omitempty"`
	// Owner is the process that holds the run's lease, or held it last. SeenAt is its last heartbeat, as far as it is known.
	// A server shows them only to operators and administrators of no tenant.
	Owner  string    `json:"owner,omitempty"`
	SeenAt time.Time `json:"seen_at,omitzero"`
	// Workers is the number of registered workers that serve the agent of the session's root, if the session waits for one.
	Workers *int `json:"workers,omitempty"`
	// Queued is the number of turns and additions in the queue.
	Queued int `json:"queued,omitempty"`
	// StoppedBy is who stops the run, or stopped it, see engine.StoppedBy; empty for the application. A server shows it to
	// operators and administrators, and to a user who stopped the run.
	StoppedBy string `json:"stopped_by,omitempty"`
	// Reason is the reason that was given for a stop, or why the run ended.
	Reason string `json:"reason,omitempty"`
	// Error is why the run failed, or the reason of a retry. A server shows the whole error to operators only.
	Error *Error `json:"error,omitempty"`
}

// Waits reports whether the session waits, so that nothing runs until the wait has ended.
func (s *Situation) Waits() bool {
	switch s.Kind {
	case SituationApproval, SituationAnswer, SituationClientTool, SituationAccount, SituationEffect, SituationBudget,
		SituationChild, SituationWorker, SituationQueue:
		return true
	}
	return false
}

// Public returns the situation as the user of the conversation may see it: without the process that drives the run and
// the name of who stopped it, and with its error reduced by [Error.Public].
func (s *Situation) Public() *Situation {
	if s == nil {
		return nil
	}
	out := *s
	out.Owner, out.SeenAt, out.StoppedBy, out.Error = "", time.Time{}, "", s.Error.Public()
	return &out
}

// CallBrief is the part of a pending call that lists show.
type CallBrief struct {
	// ID is the call; RootID and SessionID are as in [CallRef].
	ID        string `json:"id"`
	RootID    string `json:"root_id"`
	SessionID string `json:"session_id"`
	// Kind is the kind of answer that the call waits for, and Tool the tool that was called.
	Kind CallKind `json:"kind"`
	Tool string   `json:"tool"`
	// Agent is the agent that made the call, and UserID the user of its session.
	Agent  string `json:"agent,omitempty"`
	UserID string `json:"user_id,omitempty"`
	// Prompt is the question, or the reason for an approval.
	Prompt string `json:"prompt,omitempty"`
	// Input are the arguments of the tool call. They are left out if they have more than [MaxBriefInput] bytes.
	Input json.RawMessage `json:"input,omitempty"`
	// Budget is the state of the budget, if the call is of [CallBudget].
	Budget *BudgetReport `json:"budget,omitempty"`
	// Reviewers are the people who may answer; empty means anyone. Quorum is how many of them must, and Voted are those who
	// have.
	Reviewers []string `json:"reviewers,omitempty"`
	Quorum    Quorum   `json:"quorum,omitempty"`
	Voted     []string `json:"voted,omitempty"`
	// ClaimedBy is the reviewer who has reserved the call until ClaimedUntil.
	ClaimedBy    string    `json:"claimed_by,omitempty"`
	ClaimedUntil time.Time `json:"claimed_until,omitzero"`
	// CreatedAt is when the call was opened, and Deadline when it counts as failed; zero means never.
	CreatedAt time.Time `json:"created_at"`
	Deadline  time.Time `json:"deadline,omitzero"`
}

// MaxBriefInput is the size of arguments up to which a [CallBrief] has them, in bytes.
const MaxBriefInput = 4 << 10

// Brief returns the part of the call that lists show, at now by the store's clock. A claim that has ended by then is left out.
func (c *PendingCall) Brief(now time.Time) *CallBrief {
	b := &CallBrief{ID: c.ID, RootID: c.RootID, SessionID: c.SessionID, Kind: c.Kind, Tool: c.Tool, Agent: c.Agent, UserID: c.UserID,
		Prompt: c.Prompt, Reviewers: c.Reviewers, Quorum: c.Quorum, CreatedAt: c.CreatedAt, Deadline: c.Deadline}
	if len(c.Input) <= MaxBriefInput {
		b.Input = c.Input
	}
	if c.Claimed(now) {
		b.ClaimedBy, b.ClaimedUntil = c.ClaimedBy, c.ClaimedUntil
	}
	if report := (BudgetReport{}); c.Kind == CallBudget && json.Unmarshal(c.Payload, &report) == nil {
		b.Budget = &report
	}
	for i := len(c.Trail) - 1; i >= 0 && c.Trail[i].Kind != DecisionUnknown; i-- { // an earlier question of an effect
		switch d := &c.Trail[i]; d.Kind {
		case DecisionApproved, DecisionDenied, DecisionResult, DecisionError:
			if d.Reviewer != "" {
				b.Voted = append(b.Voted, d.Reviewer)
			}
		}
	}
	slices.Reverse(b.Voted)
	return b
}
