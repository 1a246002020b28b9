package cairn

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/pointer"
)

// Step is the handle on a step of a run that hooks, guards, stop conditions and instructions get. A [Call] embeds one.
// It is valid until the function it was given to returns, and safe for concurrent use until then.
type Step struct {
	SessionID string // of the session that the step belongs to, which may be a sub-agent's
	// RunID is the run that the step belongs to.
	RunID  string
	Agent  string // the agent's name
	UserID string // whose session it is, see engine.WithUser; empty if that was not said
	Turn   int    // the run's number in its session, from 1
	// Number is the step's number in the turn, from 1; 0 before the first one.
	Number int

	// What else the session's row has, as of its last commit: see [Session]. A change by SetContext in another process is seen
	// from the next commit on. Tags and Metadata are the handle's own copies.
	Title       string
	Tags        []string
	Metadata    map[string]string
	ExpiresAt   time.Time
	TraceParent string
	ParentID    string
	RootID      string

	env env
}

// env is the side of the loop.
type env = bridge.Env[Op, Message]

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

// SetTitle gives the session a title, with the step's commit; the last one that is set in a step counts, and an empty one
// removes it. It is for tools and hooks that know what a conversation is about. The error is ErrTooLarge for more than
// [MaxTitleBytes], ErrInvalid for text that cannot be kept.
func (s *Step) SetTitle(title string) error {
	if err := CheckTitle(title); err != nil {
		return err
	}
	return s.env.SetTitle(title)
}

// SwitchTools switches tools of the agent on (true) and off (false), by name, from the next step on, also in later
// turns. It adds a hidden message with the step's commit, as [Step.AddContext] does, which says so to the model. The
// list of tools that the model is sent stays what it is, so that the provider's cached prefix stays good; a call of a
// tool that is off is answered with a CodeToolOff error. Calls that the model has made before still run.
//
// The error is ErrInvalid, and nothing is switched, if no tool is named, for [FinishTool], and for a name that is not
// that of one of the agent's tools.
func (s *Step) SwitchTools(tools map[string]bool) error { return s.env.SwitchTools(tools) }

// RecordUsage adds amount to the run's custom usage under name, which is held to the rules of ids. A name that breaks
// them and an amount that is not a number are logged and left out.
func (s *Step) RecordUsage(name string, amount float64) { s.env.RecordUsage(name, amount) }

// Checkpoint asks for a commit at the end of this step. It matters to agents with [Manual] or [Interval] durability.
func (s *Step) Checkpoint() { s.env.Checkpoint() }

// Call is the handle that a tool gets with its input.
type Call struct {
	*Step
	// ID is unique in the session.
	ID string
	// Tool is the name of the tool that is called.
	Tool string
	// Input is the validated arguments.
	Input json.RawMessage
}

// IdempotencyKey is the same for every attempt of this call, in any process, and differs from every other call's.
// Pass it to services that deduplicate.
func (c *Call) IdempotencyKey() string { return ids.Derive("call", c.SessionID, c.ID) }
