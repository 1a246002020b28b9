package cairn

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/pointer"
)

// Step is the handle on a step of a run that is passed to hooks, guards, stop conditions and instructions. A [Call]
// embeds one. It is valid until the function that it was passed to returns, and safe for concurrent use until then.
//
// In texts and JSON that are written through the handle, U+FFFD replaces characters that a session cannot keep, see
// [CheckJSON]. So finished work does not fail because of a character in a text about it.
type Step struct {
	SessionID string // the session of the step, which may be a sub-agent's
	// RunID is the run that the step belongs to.
	RunID  string
	Agent  string // the agent's name
	UserID string // the user of the session, see engine.WithUser; empty for none
	Turn   int    // the run's number in its session, from 1
	// Number is the step's number in the turn, from 1; 0 before the first one.
	Number int

	// Further fields of the session's row, as of its last commit: see [Session]. A change by SetContext in another
	// process is visible from the next commit on. Tags and Metadata are copies owned by the handle.
	Title       string
	Tags        []string
	Metadata    Metadata
	ExpiresAt   time.Time
	TraceParent string
	ParentID    string
	RootID      string
	Incarnation string

	// Usage is the run's usage so far, with the model calls of the step in progress. It leaves out the tool calls of that
	// step, and the usage of sub-agents in their own sessions.
	Usage Usage

	env env
}

// env is the loop's side of the handle.
type env = bridge.Env[Op, Message]

func (s *Step) step() *Step { return s }

// Append appends items, encoded as JSON, to the array at the path, a list of member names. A missing array is
// created.
func (s *Step) Append(path []string, items ...any) error {
	op := Op{Kind: OpAppend, Path: pointer.Join(path...)}
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return Errorf(ErrState, "append %s: %w", op.Path, err)
		}
		op.Items = append(op.Items, raw)
	}
	return s.env.Update(op)
}

// Add adds amount, which must encode to a JSON number, to the number at the path, a list of member names. A missing
// number counts as 0. Unlike the changes of [UpdateState], the amounts that parallel calls of a step add to one number
// all count. Integers are added exactly; a sum beyond int64, or a value that is not a number, is an error of the call
// once the step is committed, and names the path.
func (s *Step) Add(path []string, amount any) error {
	raw, err := json.Marshal(amount)
	if err != nil {
		return Errorf(ErrState, "add to %s: %w", pointer.Join(path...), err)
	}
	return s.env.Update(Op{Kind: OpIncrement, Path: pointer.Join(path...), Value: raw})
}

// Set sets the value at the path, a list of member names, to a value encoded as JSON.
func (s *Step) Set(path []string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return Errorf(ErrState, "set %s: %w", pointer.Join(path...), err)
	}
	return s.env.Update(Op{Kind: OpReplace, Path: pointer.Join(path...), Value: raw})
}

// Delete removes the member at the path.
func (s *Step) Delete(path ...string) error {
	return s.env.Update(Op{Kind: OpDelete, Path: pointer.Join(path...)})
}

// EmitOption changes what [Step.Emit] does.
type EmitOption func(*Data)

// EmitID makes an event replace an earlier one of the turn with the same name and id: pages show one part that changes.
// The id is 1 to 128 visible ASCII characters.
func EmitID(id string) EmitOption { return func(d *Data) { d.ID = id } }

// Emit publishes a custom event with data, encoded as JSON, on the session's event log. Values that a tool emits are
// also kept with the call's result, see [ToolResult].Data, so that pages show them once the log was trimmed.
func (s *Step) Emit(name string, data any, opts ...EmitOption) error {
	if problem := ids.Check(name); problem != "" {
		return Invalid("name", "event name %s", problem)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return Invalid("data", "event %q: %v", name, err)
	}
	raw, _ = limits.CleanJSON(raw)
	if err := CheckJSON("data", raw); err != nil {
		return err
	}
	d := Data{Name: name, Value: raw}
	for _, opt := range opts {
		if opt(&d); d.ID == "" || ids.Check(d.ID) != "" {
			return Invalid("id", "id %q of event %q must be 1 to 128 visible ASCII characters", d.ID, name)
		}
	}
	return s.env.Emit(d.Name, d.ID, d.Value)
}

// AddContext adds a hidden message to the transcript with the step's commit; the model reads it from its next call
// on.
func (s *Step) AddContext(text string) error {
	if text == "" {
		return Invalid("context", "is empty")
	}
	text = limits.Clean(text)
	if err := CheckText("context", text); err != nil {
		return err
	}
	s.env.AddContext(Context(text))
	return nil
}

// Taint marks the session as tainted with the step's commit: its model has read text that anybody may have written, such
// as a web page or a stranger's mail, and that may contain instructions of an attacker. Each call of an [Effectful] tool
// then needs an approval; approval rules of other tools can ask for Tainted. The session stays tainted until a person
// clears it, see Engine.ClearTaint, or a rewind removes the step. The reason names the text; the model reads it, too. A
// session that is tainted already gets no second message.
func (s *Step) Taint(reason string) error {
	if reason == "" {
		return Invalid("reason", "is empty")
	}
	reason = limits.Clean(reason)
	if err := CheckText("reason", reason); err != nil {
		return err
	}
	if s.env.Tainted() {
		return nil
	}
	m := Context(reason)
	m.Trust = TrustTainted
	s.env.AddContext(m)
	return nil
}

// Tainted reports whether the session is tainted, see [Step.Taint], as of the last commit.
func (s *Step) Tainted() bool { return s.env.Tainted() }

// Workspace returns the reference of the session's workspace, see [Call.SetWorkspace]: the latest one of the transcript,
// or of an earlier round of the step. It is empty if no call has named one.
func (s *Step) Workspace() string { return s.env.Workspace() }

// SetTitle sets the session's title with the step's commit. The last title set in a step wins, and an empty one removes
// the title. It is for tools and hooks that know the subject of a conversation. The error is ErrTooLarge for more than
// [MaxTitleBytes].
func (s *Step) SetTitle(title string) error {
	title = limits.Clean(title)
	if err := CheckTitle(title); err != nil {
		return err
	}
	return s.env.Describe(&title, nil, nil)
}

// SetMetadata sets an entry of the session's metadata with the step's commit. nil and the empty string remove the
// entry. The last value set in a step wins; of parallel calls, that is the last one in call order. The error is
// ErrInvalid for a key or value that cannot be stored, see [Metadata], and ErrTooLarge if the session would have more
// than [MaxMetadataBytes].
func (s *Step) SetMetadata(key string, value any) error {
	if raw, err := encodePlain(value); err == nil { // Canonical reports the error
		raw, _ = limits.CleanJSON(raw)
		value = json.RawMessage(raw)
	}
	entry, err := Metadata{key: value}.Canonical()
	if err != nil {
		return err
	}
	return s.env.Describe(nil, nil, entry)
}

// AddTags adds tags to the session with the step's commit; its other tags stay. The error is ErrInvalid for a tag that
// breaks the rules of ids, and ErrTooLarge if the session would have more than [MaxMetadataBytes].
func (s *Step) AddTags(tags ...string) error { return s.env.Describe(nil, slices.Clone(tags), nil) }

// SwitchTools switches tools of the agent on (true) and off (false), by name, from the next step on, including
// later turns. With the step's commit it adds a hidden message that informs the model, as [Step.AddContext] does.
// The list of tools in requests stays the same, so that the provider's cached prefix stays valid; a call of a tool
// that is off is answered with an ErrToolOff error. Calls that the model has already made still run.
//
// The error is ErrInvalid, and nothing is switched, if no tool is named, for [FinishTool], and for names that are
// not tools of the agent.
func (s *Step) SwitchTools(tools map[string]bool) error { return s.env.SwitchTools(tools) }

// RecordUsage adds amount to the run's custom usage under name, which follows the rules of ids. Invalid names and
// amounts that are not a number are logged and ignored.
func (s *Step) RecordUsage(name string, amount float64) { s.env.RecordUsage(name, amount) }

// Results returns the results of earlier calls of a tool that are in the model's current request, oldest first. Results
// that a summary has replaced and results of the step itself are not among them. A tool can use it to refer to an
// earlier result instead of repeating it.
func (s *Step) Results(tool string) (list []ToolResult) {
	for _, m := range s.env.Sent() {
		for _, p := range m.Parts {
			if p.Type == PartToolResult && p.Result.Tool == tool {
				list = append(list, *p.Result)
			}
		}
	}
	return list
}

// Checkpoint requests a commit at the end of this step. It matters to agents with [Manual] or [Interval]
// durability.
func (s *Step) Checkpoint() { s.env.Checkpoint() }

// Call is the handle that is passed to a tool together with its input.
type Call struct {
	*Step
	// ID is unique in the session.
	ID string
	// Tool is the name of the called tool.
	Tool string
	// Input is the validated arguments.
	Input json.RawMessage
}

// IdempotencyKey returns a key that is the same for every attempt of this call, in any process, and differs from every
// other call's key. Pass it to services that deduplicate.
func (c *Call) IdempotencyKey() string { return ids.Derive("call", c.SessionID, c.ID) }

// SetWorkspace names the state of the session's [Workspace] after the call. The call's result keeps the reference, also if
// the tool returns an error, and [Step.Workspace] returns it from then on. So a rewind, a branch and a takeover restore the
// state that belongs to the transcript. The reference of an attempt that is repeated, or that asks a question, is dropped.
//
// A tool that names references must be [Serial]. The error is ErrInvalid if ref is empty, longer than
// [MaxWorkspaceRef] bytes or not valid text.
func (c *Call) SetWorkspace(ref string) error {
	if err := checkWorkspaceRef("workspace", ref); err != nil {
		return err
	}
	if ref == "" {
		return Invalid("workspace", "is empty")
	}
	return c.env.SetWorkspace(ref)
}

// Attach adds files, such as images, to the call's result. The model gets them in the result, or in a hidden message
// after it if its provider accepts no files there. They are stored with the step's commit, also if the tool fails;
// files of an attempt that is repeated are dropped. A result with files is not cached.
//
// The error is ErrInvalid if there are no files, or if one has no media type, or both of Data and URL, or neither. It
// is ErrTooLarge if the files of one call of Attach are larger than a message can be. Then none is added.
func (c *Call) Attach(files ...File) error {
	if len(files) == 0 {
		return Invalid("files", "is empty")
	}
	m := Context(fmt.Sprintf("Files in the result of %s (call %s):", c.Tool, c.ID))
	m.CallID = c.ID
	for i, f := range files {
		switch {
		case f.MediaType == "":
			return Invalid("files", "file %d has no media type", i)
		case (len(f.Data) == 0) == (f.URL == ""):
			return Invalid("files", "file %d must have either Data or URL", i)
		}
		f.Name, f.Data = limits.Clean(f.Name), slices.Clone(f.Data)
		m.Parts = append(m.Parts, FilePart(f))
	}
	if err := m.Validate(); err != nil {
		return err
	}
	c.env.AddContext(m)
	return nil
}
