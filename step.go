package cairn

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/pointer"
)

// StepInfo says which step of which run somebody is in.
type StepInfo struct {
	SessionID string
	RunID     string
	Agent     string
	UserID    string
	Turn      int
	// Number is the step's number in the turn, from 1; 0 before the first one.
	Number int
}

// Step is the handle on a step that hooks, guards, stop conditions and instruction functions get. A [Call] embeds one.
// It is valid until the function it was given to returns, and safe for concurrent use until then.
type Step struct {
	StepInfo
	env Env
}

// Env is what stands behind a Step: the host's side. It exists for hosts and for tests of tools; see cairn.NewStep.
type Env interface {
	// State returns the state as this handle sees it.
	State() (json.RawMessage, error)
	// Update records a write. What a state cannot keep is a CodeState error.
	Update(Op) error
	// Change records the writes that turn one version of the state into another, as JSON.
	Change(before, after json.RawMessage) error
	// Emit puts a custom event on the log.
	Emit(name string, data json.RawMessage) error
	// AddContext records a hidden message for the step's commit.
	AddContext(Message)
	// RecordUsage adds to the custom usage of the step.
	RecordUsage(name string, amount float64)
	// Checkpoint asks for a commit at the end of the step, whatever the agent's durability.
	Checkpoint()
}

// NewStep returns a handle over env. Hosts and tests use it; agents are given theirs.
func NewStep(info StepInfo, env Env) *Step { return &Step{StepInfo: info, env: env} }

func (s *Step) step() *Step { return s }

// Append adds items, encoded as JSON, to the array at the path, a list of member names. A missing array is made.
func (s *Step) Append(path []string, items ...any) error {
	op := Op{Kind: OpAppend, Path: pointer.Join(path...)}
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return Errorf(CodeState, "append %s: %w", op.Path, err)
		}
		op.Items = append(op.Items, raw)
	}
	return s.env.Update(op)
}

// Set puts a value, encoded as JSON, at the path, a list of member names.
func (s *Step) Set(path []string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return Errorf(CodeState, "set %s: %w", pointer.Join(path...), err)
	}
	return s.env.Update(Op{Kind: OpReplace, Path: pointer.Join(path...), Value: raw})
}

// Delete removes the member at the path.
func (s *Step) Delete(path ...string) error {
	return s.env.Update(Op{Kind: OpDelete, Path: pointer.Join(path...)})
}

// Emit puts a custom event with data, encoded as JSON, on the session's event log.
func (s *Step) Emit(name string, data any) error {
	if problem := ids.Check(name); problem != "" {
		return Invalid("name", "the event's name %s", problem)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return Invalid("data", "event %q: %v", name, err)
	}
	if err := CheckJSON("data", raw); err != nil {
		return err
	}
	return s.env.Emit(name, raw)
}

// AddContext adds a hidden message to the transcript with the step's commit: the model reads it from its next call on.
func (s *Step) AddContext(text string) error {
	if text == "" {
		return Invalid("context", "is empty")
	}
	if err := CheckText("context", text); err != nil {
		return err
	}
	s.env.AddContext(Context(text))
	return nil
}

// RecordUsage adds amount to the run's custom usage under name, which is held to the rules of ids. A name that breaks
// them and an amount that is not a number are logged and left out.
func (s *Step) RecordUsage(name string, amount float64) { s.env.RecordUsage(name, amount) }

// Checkpoint asks for a commit at the end of this step. It matters to agents with [Manual] or [Interval] durability.
func (s *Step) Checkpoint() { s.env.Checkpoint() }

// CallInfo identifies a tool call.
type CallInfo struct {
	// ID is unique in the session.
	ID   string
	Tool string
	// Input is the validated arguments.
	Input json.RawMessage
}

// Call is the handle on the world that a tool gets beside its input.
type Call struct {
	*Step
	CallInfo
}

// NewCall returns a call's handle. Hosts and tests use it; tools are given theirs.
func NewCall(step *Step, info CallInfo) *Call { return &Call{Step: step, CallInfo: info} }

// IdempotencyKey is the same whenever this call is tried again, in any process, and differs from every other call's.
// Pass it to services that deduplicate.
func (c *Call) IdempotencyKey() string { return ids.Derive("call", c.SessionID, c.ID) }
