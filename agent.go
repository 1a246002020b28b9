package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Agent is a model with instructions, tools and rules. It is a plain value. The engine validates it when it is
// registered; it must not be modified after that.
type Agent struct {
	// Name identifies the agent; sessions are bound to it.
	Name string
	// Version distinguishes this definition of the agent from others with the same name; empty for an unversioned
	// agent. A run records its version, see [Run.AgentVersion], and keeps it when it is resumed, retried or taken
	// over by an engine that has that version too: see Engine.Replace. It follows the rules of session ids.
	Version string
	// KeepVersion makes a turn use the version of the previous turn, if the engine has it. Otherwise a turn uses
	// the latest version.
	KeepVersion bool
	// Description states the agent's purpose.
	Description string
	// Instructions are the system prompt. InstructionsFunc, if set, builds it from the state instead. Its result
	// should be stable: a change invalidates the provider's prompt cache. At most one of the two may be set.
	Instructions     string
	InstructionsFunc func(ctx context.Context, step *Step) (string, error)
	// Model generates the replies. Required.
	Model Model
	// Models are alternatives to Model, by name, that a run may select: see engine.WithModel.
	Models map[string]Model
	// Settings apply to each model call; the zero value means the provider's defaults.
	Settings Settings
	// Tools are the tools that the model may call. [Step.SwitchTools] and Engine.SwitchTools switch some of them
	// off for a session: a message informs the model, and the list of tools in its requests stays the same.
	Tools []Tool
	// Toolsets provide further tools, for example from MCP servers. Each is asked for its tools when a turn begins.
	Toolsets []Toolset
	// Memory holds the agent's knowledge from earlier turns and other sessions; nil means none. Sub-agents and companions
	// have their own.
	Memory Memory
	// Workspace is the agent's file system and shell; nil means none. Each session has its own. Sub-agents and companions
	// have the workspaces of their agents.
	Workspace Workspace
	// DeferAbove is the total size of the agent's tool definitions, toolsets included, above which requests leave out
	// the [Deferred] ones. It is in tokens; three bytes of name, description and schema count as one token. 0 means
	// DefaultDeferAbove; a negative number lists all tools. Once the model of a session has found deferred tools, that
	// session keeps them off the list regardless of the size.
	DeferAbove int
	// ShowToolErrors publishes the text of every tool error on the event log, which the end user of the
	// conversation may read. By default, the log only says that the tool failed, unless the tool, or the hook that
	// vetoed the call, returned an *Error, whose message is assumed to be meant for others. The texts of panics and
	// of the failures of consulted agents are not. The model reads all of them.
	ShowToolErrors bool
	// ErrorText returns the text for an error of a tool's function. The model reads this text, and the transcript and
	// the event log keep it. nil means the error's own text. A tool may override it, see [ErrorText].
	ErrorText func(err error) string
	// Companions are agents that this one keeps and consults, by means of the tools that it is given for them.
	Companions []Companion
	// State declares the type of the session's state. nil means an untyped object that is initially empty.
	State *StateType
	// Output declares a typed output. nil means that the turn's result is the last reply's text.
	Output *OutputType
	// MaxSteps limits the model calls of a turn; 0 means DefaultMaxSteps. An agent with an output type is made to
	// finish with the last one; a turn that uses all of them without an output fails with ErrMaxSteps.
	MaxSteps int
	// Budget limits the usage of the agent: Budget{USD: 0.50} is half a dollar per turn, its sub-agents included. At the
	// limit, the run waits for a person by default. The zero value sets no limit.
	Budget Budget
	// StopWhen, if set, is called after each step that ran tools. If it returns true, the turn ends, provided that
	// the guard accepts. An agent with an output type is then made to call [FinishTool]. A condition that panics,
	// or takes longer than the engine's Options.HookTimeout, counts as false.
	StopWhen func(ctx context.Context, step *Step) bool
	// Guard, if set, is consulted before anything ends the turn: a reply, the output, a tool with [FinishWith],
	// StopWhen.
	Guard Guard
	// Hooks are called in each of the agent's runs, after the engine's hooks; nil means none.
	Hooks *Hooks
	// Durability determines when steps are committed. The default is PerStep.
	Durability Durability
	// Compaction determines when the older part of a history is summarized to fit the model's window. nil means the
	// defaults.
	Compaction *Compaction
	// Retry is the policy for failed model calls. nil means the default of 3 retries.
	Retry *RetryPolicy
	// TTL is how long a session of the agent may be idle before it expires. 0 means the engine's Options.TTL; a
	// negative value means never. A session keeps the TTL that it was created with. A sub-agent's session expires
	// with its root.
	TTL time.Duration
}

// Durability determines when an agent's steps are committed. The end of a turn, a suspension and a stop are always
// committed.
type Durability struct {
	def bridge.Durability
}

var (
	// PerStep commits each step when its tools have run. A crash repeats at most one step.
	PerStep = Durability{}
	// PerTool also stages the model's reply and each tool result as they happen. A crash repeats none of them.
	PerTool = Durability{bridge.Durability{Mode: bridge.PerTool}}
	// Manual commits only when [Step.Checkpoint] asks for it. A crash repeats the steps since the last commit.
	Manual = Durability{bridge.Durability{Mode: bridge.Manual}}
)

// Interval commits a step if at least d has passed since the last commit. A crash repeats the steps since then.
func Interval(d time.Duration) Durability {
	return Durability{bridge.Durability{Mode: bridge.ByInterval, Interval: d}}
}

// String names the durability.
func (d Durability) String() string {
	switch d.def.Mode {
	case bridge.PerTool:
		return "per_tool"
	case bridge.ByInterval:
		return d.def.Interval.String()
	case bridge.Manual:
		return "manual"
	}
	return "per_step"
}

// Validate reports the first mistake in the definition, naming the agent and the field. It also calls Validate of a
// model that is a [Validator].
func (a *Agent) Validate() error {
	if problem := ids.CheckPath(a.Name); problem != "" {
		return Invalid("agent", "name %s", problem)
	}
	if problem := ids.Check(a.Version); problem != "" && a.Version != "" {
		return Invalid("agent", "agent %q: version %s", a.Name, problem)
	}
	bad := func(field, format string, args ...any) error {
		e := Invalid(field, format, args...)
		e.Message = fmt.Sprintf("agent %q: %s", a.Name, e.Message)
		return e
	}
	switch {
	case a.Model == nil:
		return bad("model", "is required")
	case a.Instructions != "" && a.InstructionsFunc != nil:
		return bad("instructions", "set either Instructions or InstructionsFunc, not both")
	case limits.Text(a.Instructions) != "":
		return bad("instructions", "%s", limits.Text(a.Instructions))
	case limits.Text(a.Description) != "":
		return bad("description", "%s", limits.Text(a.Description))
	case a.MaxSteps < 0:
		return bad("max_steps", "%d is negative", a.MaxSteps)
	case a.Durability.def.Mode == bridge.ByInterval && a.Durability.def.Interval <= 0:
		return bad("durability", "interval must be positive")
	case a.State != nil && a.State.err != nil:
		return bad("state", "%v", a.State.err)
	case a.Output != nil && a.Output.err != nil:
		return bad("output", "%v", a.Output.err)
	case a.Output != nil && !describesObject(a.Output.Schema()):
		return bad("output", "schema must describe an object")
	case a.Retry.problem() != "":
		return bad("retry", "%s", a.Retry.problem())
	}
	if err := a.Budget.validate(bad); err != nil {
		return err
	}
	if err := a.Compaction.validate(bad); err != nil {
		return err
	}
	if err := a.validateModels(bad); err != nil {
		return err
	}
	if err := a.Settings.validate(bad); err != nil {
		return err
	}
	if err := a.validateTools(bad); err != nil {
		return err
	}
	if err := a.validateToolsets(bad); err != nil {
		return err
	}
	return a.validateCompanions(bad)
}

func (a *Agent) validateTools(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, t := range a.Tools {
		field := fmt.Sprintf("tool %q", t.def.Name)
		if t.def.Name == "" {
			field = fmt.Sprintf("tools[%d]", i)
		}
		if err := t.validate(); err != nil {
			return bad(field, "%v", err)
		}
		if seen[t.def.Name] {
			return bad(field, "duplicate tool name")
		}
		seen[t.def.Name] = true
	}
	return nil
}

func (a *Agent) validateToolsets(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, ts := range a.toolsets() {
		field := fmt.Sprintf("toolsets[%d]", i)
		if i >= len(a.Toolsets) {
			field = "memory"
			if i == len(a.Toolsets) && a.Workspace != nil {
				field = "workspace"
			}
		}
		if ts == nil {
			return bad(field, "is nil")
		}
		name := ts.Name()
		if problem := ids.Check(name); problem != "" {
			return bad(field, "name %s", problem)
		}
		if seen[name] {
			return bad(field, "duplicate name %q", name)
		}
		if r, ok := ts.(ReservedToolset); ok {
			for _, reserved := range r.ReservedTools() {
				if slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.def.Name == reserved }) {
					return bad(fmt.Sprintf("tool %q", reserved), "the name is reserved for the toolset %q", name)
				}
			}
		}
		seen[name] = true
	}
	return nil
}

// toolsets are the agent's toolsets, with its workspace and its memory at the end.
func (a *Agent) toolsets() []Toolset {
	list := slices.Clip(a.Toolsets)
	if a.Workspace != nil {
		list = append(list, a.Workspace)
	}
	if a.Memory != nil {
		list = append(list, a.Memory)
	}
	return list
}

// validateModels checks the models, and calls Validate of those that are a [Validator].
func (a *Agent) validateModels(bad func(field, format string, args ...any) error) error {
	known := func(field string, m Model) error {
		v, ok := m.(Validator)
		if !ok {
			return nil
		}
		err := v.Validate()
		if err != nil {
			err = &Error{Code: ErrInvalid, Field: field, Message: fmt.Sprintf("agent %q: %s: %v", a.Name, field, err), Cause: err}
		}
		return err
	}
	if err := known("model", a.Model); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Models)) {
		field := fmt.Sprintf("models[%q]", name)
		switch {
		case ids.Check(name) != "":
			return bad(field, "name %s", ids.Check(name))
		case a.Models[name] == nil:
			return bad(field, "is nil")
		}
		if err := known(field, a.Models[name]); err != nil {
			return err
		}
	}
	return nil
}

func describesObject(raw json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(raw, &s) == nil && s.Type == "object"
}

func (t Tool) validate() error {
	switch {
	case !ids.Tool(t.def.Name):
		return fmt.Errorf("name must be 1 to 64 letters, digits, _ or -, not beginning with a digit or -")
	case t.def.Name == FinishTool || t.def.Name == FindTools || t.def.Name == CallTool || strings.HasPrefix(t.def.Name, companionPrefix):
		return fmt.Errorf("name is reserved")
	case t.def.Err != nil:
		return t.def.Err
	case t.def.Func == nil && t.def.Wait.Kind != CallClientTool && t.def.Agent == nil:
		return fmt.Errorf("zero Tool; create tools with cairn.Func, cairn.RawFunc, cairn.ClientTool or cairn.SubAgent")
	case limits.Text(t.def.Description) != "":
		return fmt.Errorf("description %s", limits.Text(t.def.Description))
	case limits.JSON(t.def.Input.JSON()) != "":
		return fmt.Errorf("schema %s", limits.JSON(t.def.Input.JSON()))
	case t.def.Timeout < 0:
		return fmt.Errorf("timeout is negative")
	case t.def.Agent != nil && (t.def.Finishes || t.def.Wait.Kind != "" || t.def.Retry != nil || t.def.ErrorText != nil):
		return fmt.Errorf("sub-agent tools do not support FinishWith, Retry, ErrorText or approval; set them on the sub-agent's own tools")
	case t.def.Func == nil && (t.def.Retry != nil || t.def.ErrorText != nil):
		return fmt.Errorf("client-executed tools do not support Retry or ErrorText: the client runs them")
	}
	if problem := t.def.Retry.problem(); problem != "" {
		return fmt.Errorf("Retry: %s", problem)
	}
	if err := checkKeywords(t.def.Keywords); err != nil {
		return err
	}
	if err := t.validateEffect(); err != nil {
		return err
	}
	if err := t.def.Cache.validate(t); err != nil {
		return err
	}
	if !describesObject(t.def.Input.JSON()) {
		return errors.New("input must be an object: a struct or a map with string keys")
	}
	return t.validateWait()
}

// validateEffect reports a mistake of the options about effects.
func (t Tool) validateEffect() error {
	switch {
	case t.def.Confirm != nil && !t.def.Effectful:
		return errors.New("Confirm requires Effectful")
	case t.def.Effectful && t.def.Func == nil:
		return errors.New("Effectful is for functions: a client or another agent runs this tool")
	case t.def.Effectful && t.def.Finishes:
		return errors.New("effectful tools cannot finish a turn: their calls may wait for a person")
	case t.def.Effectful && t.def.Cache != nil:
		return errors.New("set either Effectful or Cache, not both: a cached result has no effect")
	}
	return nil
}
