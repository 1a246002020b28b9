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

// DefaultMaxSteps is the number of steps a turn may take when its agent does not say.
const DefaultMaxSteps = 50

// Agent is a model with instructions, tools and rules. It is a plain value; the engine checks it when it is
// registered and it must not change afterwards.
type Agent struct {
	// Name identifies the agent; sessions are bound to it.
	Name string
	// Version distinguishes this definition of the agent from others of its name; empty for an agent that has none. A run names the
	// version that it has, see [Run.AgentVersion], and keeps it when it is resumed, retried or taken over by an engine that has
	// that version too: see Engine.Replace. It is held to the rules of session ids.
	Version string
	// KeepVersion has a turn take the version of the turn before, if the engine has that; otherwise a turn takes the latest.
	KeepVersion bool
	// Description says what the agent is for.
	Description string
	// Instructions are the system prompt. InstructionsFunc makes it from the state instead; keep what it returns
	// stable, since a change invalidates the provider's prompt cache. At most one of the two may be set.
	Instructions     string
	InstructionsFunc func(ctx context.Context, step *Step) (string, error)
	// Model answers. Required.
	Model Model
	// Models are others that a run may ask in place of Model, by their names: see engine.WithModel.
	Models map[string]Model
	// Settings are what each call of a model is asked with; the zero value is the provider's defaults.
	Settings Settings
	// Tools are what the model may call. A session can have some of them switched off, with [Step.SwitchTools] or
	// Engine.SwitchTools; a message says so to the model, and the list that it is sent stays the same.
	Tools []Tool
	// Toolsets give the agent further tools, which are asked for when a turn begins: those of MCP servers, for example.
	Toolsets []Toolset
	// DeferAbove is how large the definitions of the agent's tools may be, with those of its toolsets, before the model is not
	// sent those that are [Deferred]: in tokens, of which three bytes of name, description and schema are taken for one. 0
	// means DefaultDeferAbove; a negative number has all tools listed. A session that has found tools keeps to it.
	DeferAbove int
	// ShowToolErrors puts the text of every error of a call on the event log, which the user in front of the
	// conversation may read. By default the log says only that the tool failed, unless the error of the tool, or of the
	// hook that was against the call, is an *Error, whose message is taken to be meant for others; that of a panic, and
	// why an agent failed that was consulted, is not. The model reads all of them.
	ShowToolErrors bool
	// ErrorText makes the text of an error of a tool's function: what the model reads, and what the transcript and the event
	// log keep of it. nil means the error's own text. A tool may have its own, see [ErrorText].
	ErrorText func(err error) string
	// Companions are agents that this one keeps and consults, with tools that it is given.
	Companions []Companion
	// State declares the type of the session's state. nil means an untyped object that begins empty.
	State *StateType
	// Output declares a typed output. nil means that the turn's result is the last reply's text.
	Output *OutputType
	// MaxSteps bounds the model calls of a turn; 0 means DefaultMaxSteps. An agent with an output type is made to
	// finish with the last one; a turn that uses all of them without an output fails with ErrMaxSteps.
	MaxSteps int
	// StopWhen, if set, is asked after each step whose tools have run; true ends the turn, if the guard lets it. An
	// agent with an output type is made to call [FinishTool] then. A condition that panics, or takes longer than the
	// engine's Options.HookTimeout, does not hold.
	StopWhen func(ctx context.Context, step *Step) bool
	// Guard, if set, decides about whatever would end the turn: a reply, the output, a tool with [FinishWith],
	// StopWhen.
	Guard Guard
	// Hooks are called in each of the agent's runs, after those of the engine; nil is none.
	Hooks *Hooks
	// Durability says when steps are committed. The default is PerStep.
	Durability Durability
	// Compaction says when the older part of a history is summarised, so that it fits the model's window. nil means the
	// defaults.
	Compaction *Compaction
	// Retry says how failing model calls are retried. nil means the default of 3 retries.
	Retry *RetryPolicy
	// TTL is how long a session of the agent may be idle before it expires; 0 means the engine's Options.TTL, a
	// negative value for ever. A session keeps what it was created with; the session of a sub-agent goes with its
	// root.
	TTL time.Duration
}

// Durability says when an agent's steps are committed. A turn's end, a suspension and a stop always are.
type Durability struct {
	def bridge.Durability
}

var (
	// PerStep commits each step when its tools have run. A crash repeats at most one step.
	PerStep = Durability{}
	// PerTool also stages the model's reply and each tool result as they happen. A crash repeats neither.
	PerTool = Durability{bridge.Durability{Mode: bridge.PerTool}}
	// Manual commits only where [Step.Checkpoint] asks for it. A crash repeats the steps since.
	Manual = Durability{bridge.Durability{Mode: bridge.Manual}}
)

// Interval commits a step if at least d has passed since the last commit. A crash repeats the steps since.
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

// Validate reports the first mistake in the definition, naming the agent and the field. It also asks the model, if that is
// a [Validator].
func (a *Agent) Validate() error {
	if problem := ids.Check(a.Name); problem != "" {
		return Invalid("agent", "the name %s", problem)
	}
	if problem := ids.Check(a.Version); problem != "" && a.Version != "" {
		return Invalid("agent", "agent %q: the version %s", a.Name, problem)
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
		return bad("instructions", "set either Instructions or InstructionsFunc")
	case limits.Text(a.Instructions) != "":
		return bad("instructions", "%s", limits.Text(a.Instructions))
	case limits.Text(a.Description) != "":
		return bad("description", "%s", limits.Text(a.Description))
	case a.MaxSteps < 0:
		return bad("max_steps", "%d is negative", a.MaxSteps)
	case a.Durability.def.Mode == bridge.ByInterval && a.Durability.def.Interval <= 0:
		return bad("durability", "the interval must be positive")
	case a.State != nil && a.State.err != nil:
		return bad("state", "%v", a.State.err)
	case a.Output != nil && a.Output.err != nil:
		return bad("output", "%v", a.Output.err)
	case a.Output != nil && !describesObject(a.Output.Schema()):
		return bad("output", "the schema must describe an object")
	case a.Retry.problem() != "":
		return bad("retry", "%s", a.Retry.problem())
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
			return bad(field, "is defined twice")
		}
		seen[t.def.Name] = true
	}
	return nil
}

func (a *Agent) validateToolsets(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, ts := range a.Toolsets {
		field := fmt.Sprintf("toolsets[%d]", i)
		if ts == nil {
			return bad(field, "is nil")
		}
		name := ts.Name()
		if problem := ids.Check(name); problem != "" {
			return bad(field, "the name %s", problem)
		}
		if seen[name] {
			return bad(field, "the name %q is taken", name)
		}
		seen[name] = true
	}
	return nil
}

// validateModels checks the models, and asks those that know whether they can be asked.
func (a *Agent) validateModels(bad func(field, format string, args ...any) error) error {
	known := func(field string, m Model) error {
		v, ok := m.(Validator)
		if !ok {
			return nil
		}
		err := v.Validate()
		if err != nil {
			err = &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf("agent %q: %s: %v", a.Name, field, err), Cause: err}
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
			return bad(field, "the name %s", ids.Check(name))
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
		return fmt.Errorf("the name must be 1 to 64 letters, digits, _ or -, not beginning with a digit or -")
	case t.def.Name == FinishTool || t.def.Name == FindTools || t.def.Name == CallTool || strings.HasPrefix(t.def.Name, companionPrefix):
		return fmt.Errorf("the name is reserved")
	case t.def.Err != nil:
		return t.def.Err
	case t.def.Func == nil && t.def.Wait.Kind != CallClientTool && t.def.Agent == nil:
		return fmt.Errorf("make tools with cairn.Func, cairn.RawFunc, cairn.ClientTool or cairn.SubAgent")
	case limits.Text(t.def.Description) != "":
		return fmt.Errorf("the description %s", limits.Text(t.def.Description))
	case limits.JSON(t.def.Input.JSON()) != "":
		return fmt.Errorf("the schema %s", limits.JSON(t.def.Input.JSON()))
	case t.def.Timeout < 0:
		return fmt.Errorf("the timeout is negative")
	case t.def.Agent != nil && (t.def.Finishes || t.def.Timeout > 0 || t.def.Cache != nil || t.def.Wait.Kind != "" || t.def.Retry != nil || t.def.ErrorText != nil):
		return fmt.Errorf("a sub-agent takes no FinishWith, Timeout, Cache, Retry, ErrorText or approval; its own tools do")
	case t.def.Func == nil && (t.def.Retry != nil || t.def.ErrorText != nil):
		return fmt.Errorf("a client-executed tool takes no Retry or ErrorText: nothing is run here")
	}
	if problem := t.def.Retry.problem(); problem != "" {
		return fmt.Errorf("Retry: %s", problem)
	}
	if err := checkKeywords(t.def.Keywords); err != nil {
		return err
	}
	if err := t.def.Cache.validate(t); err != nil {
		return err
	}
	if !describesObject(t.def.Input.JSON()) {
		return errors.New("the input must be an object: a struct or a map with string keys")
	}
	return t.validateWait()
}
