package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// silent is a model that never answers.
type silent struct{}

func (silent) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: "silent"} }

func (silent) Stream(context.Context, *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(func(cairn.Chunk, error) bool) {}
}

type loop struct {
	Next *loop `json:"next"`
}

func nothing(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil }

func raw(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) { return nil, nil }

func goodAgent() *cairn.Agent {
	return &cairn.Agent{
		Name: "support", Instructions: "Help.", Model: silent{}, MaxSteps: 3, Durability: cairn.Interval(time.Second),
		Tools: []cairn.Tool{cairn.Func("look_up", "", nothing), cairn.RawFunc("raw-1", "", json.RawMessage(`{"type":"object"}`), raw)},
		State: cairn.StateOf(struct{ N int }{1}), Output: cairn.OutputOf[struct{ Done bool }](), Retry: &cairn.RetryPolicy{Max: -1},
	}
}

// keyless is a model that cannot be asked.
type keyless struct{ cairn.Model }

func (keyless) Validate() error { return errors.New("no key") }

// TestAgentMistakes makes one mistake at a time: the error names the agent and the field.
func TestAgentMistakes(t *testing.T) {
	t.Parallel()
	if err := goodAgent().Validate(); err != nil {
		t.Fatal(err)
	}
	object := json.RawMessage(`{"type":"object"}`)
	for name, test := range map[string]struct {
		spoil func(*cairn.Agent)
		field string
		says  string
	}{
		"no model":                     {func(a *cairn.Agent) { a.Model = nil }, "model", "required"},
		"nil among the models":         {func(a *cairn.Agent) { a.Models = map[string]cairn.Model{"fast": nil} }, `models["fast"]`, "nil"},
		"a model without a name":       {func(a *cairn.Agent) { a.Models = map[string]cairn.Model{"": a.Model} }, `models[""]`, "empty"},
		"a model that cannot be asked": {func(a *cairn.Agent) { a.Models = map[string]cairn.Model{"fast": keyless{a.Model}} }, `models["fast"]`, "no key"},
		"two instructions": {func(a *cairn.Agent) {
			a.InstructionsFunc = func(context.Context, *cairn.Step) (string, error) { return "", nil }
		}, "instructions", "either"},
		"bad instructions":         {func(a *cairn.Agent) { a.Instructions = "\xff" }, "instructions", "UTF-8"},
		"instructions with a NUL":  {func(a *cairn.Agent) { a.Instructions = "\x00" }, "instructions", "NUL"},
		"bad description":          {func(a *cairn.Agent) { a.Description = "\xff" }, "description", "UTF-8"},
		"description with a NUL":   {func(a *cairn.Agent) { a.Description = "\x00" }, "description", "NUL"},
		"negative tokens":          {func(a *cairn.Agent) { a.Settings.MaxOutputTokens = -5 }, "settings.max_output_tokens", "-5"},
		"temperature of nothing":   {func(a *cairn.Agent) { a.Settings.Temperature = new(math.NaN()) }, "settings.temperature", "NaN"},
		"negative temperature":     {func(a *cairn.Agent) { a.Settings.Temperature = new(-0.5) }, "settings.temperature", "-0.5"},
		"infinite top p":           {func(a *cairn.Agent) { a.Settings.TopP = new(math.Inf(1)) }, "settings.top_p", "Inf"},
		"bad effort":               {func(a *cairn.Agent) { a.Settings.ReasoningEffort = "\xff" }, "settings.reasoning_effort", "UTF-8"},
		"bad stop sequence":        {func(a *cairn.Agent) { a.Settings.StopSequences = []string{"ok", "\x00"} }, "settings.stop_sequences", "NUL"},
		"options that are no JSON": {func(a *cairn.Agent) { a.Settings.Options = map[string]any{"a": func() {}} }, "settings.options", "JSON"},
		"options with a NUL":       {func(a *cairn.Agent) { a.Settings.Options = map[string]any{"a": "\x00"} }, "settings.options", "NUL"},
		"tool's description":       {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("x", "\xff", nothing) }, `tool "x"`, "UTF-8"},
		"tool's description's NUL": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("x", "a\x00", nothing) }, `tool "x"`, "NUL"},
		"raw schema with a NUL": {func(a *cairn.Agent) {
			a.Tools[0] = cairn.RawFunc("x", "", json.RawMessage(`{"type":"object","title":"\u0000"}`), raw)
		}, `tool "x"`, "NUL"},
		"negative steps":   {func(a *cairn.Agent) { a.MaxSteps = -1 }, "max_steps", "-1"},
		"no interval":      {func(a *cairn.Agent) { a.Durability = cairn.Interval(0) }, "durability", "positive"},
		"state not object": {func(a *cairn.Agent) { a.State = cairn.StateOf([]int{1}) }, "state", "[]int"},
		"state is nil":     {func(a *cairn.Agent) { a.State = cairn.StateOf[map[string]int](nil) }, "state", "object"},
		"state of a list":  {func(a *cairn.Agent) { a.State = cairn.StateOf[[]int]() }, "state", "[]int"},
		"two states":       {func(a *cairn.Agent) { a.State = cairn.StateOf(struct{}{}, struct{}{}) }, "state", "2 initial states"},
		"state not JSON":   {func(a *cairn.Agent) { a.State = cairn.StateOf(func() {}) }, "state", "func"},
		"output recursive": {func(a *cairn.Agent) { a.Output = cairn.OutputOf[loop]() }, "output", "recursive"},
		"output a scalar":  {func(a *cairn.Agent) { a.Output = cairn.OutputOf[string]() }, "output", "object"},
		"output no schema": {func(a *cairn.Agent) { a.Output = cairn.RawOutput(json.RawMessage(`{`)) }, "output", "JSON"},
		"negative wait":    {func(a *cairn.Agent) { a.Retry.First = -1 }, "retry", "negative"},
		"negative limit":   {func(a *cairn.Agent) { a.Retry.Limit = -1 }, "retry", "negative"},
		"tool twice":       {func(a *cairn.Agent) { a.Tools = append(a.Tools, a.Tools[0]) }, `tool "look_up"`, "duplicate tool name"},
		"tool of zero":     {func(a *cairn.Agent) { a.Tools = append(a.Tools, cairn.Tool{}) }, "tools[2]", "name"},
		"tool's name":      {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("look up", "", nothing) }, `tool "look up"`, "name"},
		"tool's long name": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func(strings.Repeat("x", 65), "", nothing) }, `tool "xxx`, "name"},
		"tool is reserved": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func(cairn.FinishTool, "", nothing) }, `tool "__finish__"`, "reserved"},
		"tool is ours":     {func(a *cairn.Agent) { a.Tools[0] = cairn.Func(cairn.FindTools, "", nothing) }, `tool "tools__find"`, "reserved"},
		"tool is ours too": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func(cairn.CallTool, "", nothing) }, `tool "tools__call"`, "reserved"},
		"empty keyword":    {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("x", "", nothing, cairn.Deferred("a", "")) }, `tool "x"`, "keywords[1] is empty"},
		"long keyword": {func(a *cairn.Agent) {
			a.Tools[0] = cairn.Func("x", "", nothing, cairn.Deferred(strings.Repeat("x", 65)))
		}, `tool "x"`, "keywords[0] is too long"},
		"hostile keyword": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("x", "", nothing, cairn.Deferred("\x00")) }, `tool "x"`, "a keyword"},
		"many keywords": {func(a *cairn.Agent) {
			a.Tools[0] = cairn.Func("x", "", nothing, cairn.Deferred(make([]string, cairn.MaxKeywords+1)...))
		}, `tool "x"`, "too many keywords (max 32)"},
		"tool's input": {func(a *cairn.Agent) {
			a.Tools[0] = cairn.Func("x", "", func(context.Context, *cairn.Call, string) (string, error) { return "", nil })
		}, `tool "x"`, "object"},
		"tool's recursion": {func(a *cairn.Agent) {
			a.Tools[0] = cairn.Func("x", "", func(context.Context, *cairn.Call, loop) (string, error) { return "", nil })
		}, `tool "x"`, "recursive"},
		"tool's timeout":  {func(a *cairn.Agent) { a.Tools[0] = cairn.Func("x", "", nothing, cairn.Timeout(-1)) }, `tool "x"`, "timeout"},
		"tool's function": {func(a *cairn.Agent) { a.Tools[0] = cairn.Func[struct{}, string]("x", "", nil) }, `tool "x"`, "nil"},
		"raw function":    {func(a *cairn.Agent) { a.Tools[0] = cairn.RawFunc("x", "", object, nil) }, `tool "x"`, "nil"},
		"raw schema":      {func(a *cairn.Agent) { a.Tools[0] = cairn.RawFunc("x", "", nil, raw) }, `tool "x"`, "JSON"},
		"raw type":        {func(a *cairn.Agent) { a.Tools[0] = cairn.RawFunc("x", "", json.RawMessage(`{"type":"string"}`), raw) }, `tool "x"`, "object"},
	} {
		a := goodAgent()
		test.spoil(a)
		err := a.Validate()
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || !strings.HasPrefix(e.Field, test.field) ||
			!strings.HasPrefix(e.Message, `agent "support": `+test.field) || !strings.Contains(e.Message, test.says) {
			t.Errorf("%s: error %q in field %q, want one in %q that says %q", name, err, e.Field, test.field, test.says)
		}
	}
	for _, name := range []string{"", "a\n", " a", "\xff", strings.Repeat("x", 201)} {
		a := goodAgent()
		a.Name = name
		var e *cairn.Error
		if err := a.Validate(); !errors.As(err, &e) || e.Field != "agent" {
			t.Errorf("name %q: error %v", name, err)
		}
	}
}

func TestAgentDefaults(t *testing.T) {
	t.Parallel()
	a := &cairn.Agent{Name: "plain", Model: silent{}}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	if define.Steps(a) != cairn.DefaultMaxSteps || define.Steps(goodAgent()) != 3 {
		t.Errorf("steps %d and %d", define.Steps(a), define.Steps(goodAgent()))
	}
	if define.ToolOf(a.Tools, "look_up") != nil {
		t.Error("an agent without tools has one")
	}
	if tool := define.ToolOf(goodAgent().Tools, "raw-1"); tool == nil || tool.Name != "raw-1" {
		t.Errorf("tool %+v", tool)
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		durability        cairn.Durability
		name              string
		stages            bool
		soon, late, asked bool
	}{
		{cairn.Durability{}, "per_step", false, true, true, true},
		{cairn.PerStep, "per_step", false, true, true, true},
		{cairn.PerTool, "per_tool", true, true, true, true},
		{cairn.Manual, "manual", false, false, false, true},
		{cairn.Interval(time.Second), "1s", false, false, true, true},
	} {
		d := define.Durability(&cairn.Agent{Durability: test.durability})
		if test.durability.String() != test.name || d.Stages() != test.stages || d.Due(time.Second-1, false) != test.soon ||
			d.Due(time.Second, false) != test.late || d.Due(0, true) != test.asked {
			t.Errorf("%s: stages %v, due %v, %v, %v", test.durability, d.Stages(), d.Due(time.Second-1, false), d.Due(time.Second, false), d.Due(0, true))
		}
	}
}

// unruly is a type whose methods panic.
type unruly struct {
	Text string `json:"text"`
}

func (unruly) JSONSchema() json.RawMessage  { panic("no schema") }
func (unruly) MarshalJSON() ([]byte, error) { panic("no JSON") }

// A misbehaving type that an agent is defined with is reported as a mistake of the definition.
func TestTypesWhoseMethodsPanicAreMistakesOfTheDefinition(t *testing.T) {
	t.Parallel()
	model := silent{}
	run := func(context.Context, *cairn.Call, unruly) (string, error) { return "", nil }
	for field, agent := range map[string]*cairn.Agent{
		`tool "t"`: {Name: "a", Model: model, Tools: []cairn.Tool{cairn.Func("t", "", run)}},
		"output":   {Name: "a", Model: model, Output: cairn.OutputOf[unruly]()},
		"state":    {Name: "a", Model: model, State: cairn.StateOf(unruly{})},
	} {
		err := agent.Validate()
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != field || !strings.Contains(e.Message, "panic") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := cairn.SchemaFor[unruly](); err == nil {
		t.Error("SchemaFor has no error")
	}
}
