package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/schema"
)

// FinishTool is the name of the tool that an agent with an output type is given: its arguments are the output.
const FinishTool = "__finish__"

// Tool is something a model can call. Make one with [Func] or [RawFunc], with [ClientTool] for one that runs elsewhere,
// or with [SubAgent] for an agent. A Tool is immutable and may be shared by agents.
type Tool struct {
	name        string
	description string
	input       *schema.Schema
	run         func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error)
	finish      bool
	timeout     time.Duration
	cache       *CachePolicy
	wait        waiting
	agent       *Agent // of a sub-agent
	companion   bool   // talks to companions
	err         error
}

// ToolOption changes how a tool is run.
type ToolOption func(*Tool)

// FinishWith makes the tool's result the output of the turn: a successful call ends it. Calls of other tools in the
// same reply run first, and the tool sees the state they left.
func FinishWith() ToolOption { return func(t *Tool) { t.finish = true } }

// Timeout bounds one execution of the tool. When it passes, the tool's context is cancelled and the call counts as failed at
// once, with CodeTimeout: whatever a tool that goes on comes to or does with its handle has no effect. The default is no
// bound.
func Timeout(d time.Duration) ToolOption { return func(t *Tool) { t.timeout = d } }

// Func makes a tool of a function. In, a struct or a map with string keys, gives the arguments' JSON Schema (see
// [SchemaFor]); arguments that violate it never reach the function. Out is encoded as JSON for the model; a string is
// given to it as text.
//
// An error from the function is told to the model as the call's result and does not end the turn. A panic counts as an
// error. The function may be called at the same time as others of the same step, and, after a crash, again with the
// same Call.IdempotencyKey.
func Func[In, Out any](name, description string, fn func(ctx context.Context, call *Call, in In) (Out, error), opts ...ToolOption) Tool {
	t := Tool{name: name, description: description}
	t.input, t.err = schema.For(reflect.TypeFor[In]())
	if fn == nil {
		t.err = errNoFunc
		return t
	}
	t.run = func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, Errorf(CodeArguments, "arguments do not decode: %w", err)
		}
		out, err := fn(ctx, call, in)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, Errorf(CodeTool, "the result does not encode as JSON: %w", err)
		}
		return raw, nil
	}
	return t.with(opts)
}

var errNoFunc = errors.New("the function is nil")

func (t Tool) with(opts []ToolOption) Tool {
	for _, opt := range opts {
		opt(&t)
	}
	return t
}

// RawFunc makes a tool whose arguments and result stay JSON and whose schema is given, for tools that are not known
// when the program is written.
func RawFunc(name, description string, inputSchema json.RawMessage, fn func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error), opts ...ToolOption) Tool {
	t := Tool{name: name, description: description}
	t.input, t.err = schema.Parse(inputSchema)
	if fn == nil {
		t.err = errNoFunc
		return t
	}
	t.run = func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error) {
		return fn(ctx, call, input)
	}
	return t.with(opts)
}

// SchemaFor returns the JSON Schema of T as encoding/json encodes it. Fields without omitempty or omitzero are
// required, unknown members are refused. A field's "jsonschema" tag is its description; its "schema" tag holds
// constraints, as in `schema:"enum=red|green,minLength=1"`: enum, min, max, minLength, maxLength, minItems, maxItems,
// format and, last in the tag, pattern. A type may state its own schema in a method JSONSchema() json.RawMessage;
// recursive types must.
func SchemaFor[T any]() (json.RawMessage, error) {
	s, err := schema.For(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return s.JSON(), nil
}

// Name returns the tool's name.
func (t Tool) Name() string { return t.name }

// Description returns what the model is told about the tool.
func (t Tool) Description() string { return t.description }

// Finishes reports whether the tool's result ends the turn.
func (t Tool) Finishes() bool { return t.finish }

// Timeout returns the bound on one execution; 0 is none.
func (t Tool) Timeout() time.Duration { return t.timeout }

// Agent returns the agent that a sub-agent's tool delegates to, or nil.
func (t Tool) Agent() *Agent { return t.agent }

// Cache returns how results are cached, or nil.
func (t Tool) Cache() *CachePolicy { return t.cache }

// Spec returns what a model is told about the tool.
func (t Tool) Spec() ToolSpec {
	return ToolSpec{Name: t.name, Description: t.description, Schema: t.input.JSON()}
}

// Check returns a CodeArguments error with every violation if input does not satisfy the tool's schema.
func (t Tool) Check(input json.RawMessage) error {
	return checkSchema(t.input, CodeArguments, "arguments", input)
}

// Run executes the tool. The input must have passed Check; a panic of the function is not recovered. A result that cannot
// be kept is a CodeTool error: JSON that is not valid or nested deeper than MaxJSONDepth, text in it that is not valid
// UTF-8 or has a NUL, a number that is not finite, or more than MaxMessageBytes.
func (t Tool) Run(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error) {
	out, err := t.run(ctx, call, input)
	if err != nil {
		return nil, err
	}
	if problem := limits.JSON(out); problem != "" {
		return nil, Errorf(CodeTool, "the result %s", problem)
	}
	return out, nil
}

func checkSchema(s *schema.Schema, code Code, what string, raw json.RawMessage) error {
	list := s.Validate(raw)
	if len(list) == 0 {
		return nil
	}
	message := what + " violate the schema: " + list[0]
	for _, more := range list[1:] {
		message += "; " + more
	}
	return &Error{Code: code, Message: message, Details: list}
}

// toolName is what every provider accepts.
var toolName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

func (t Tool) validate() error {
	switch {
	case !toolName.MatchString(t.name):
		return fmt.Errorf("the name must be 1 to 64 letters, digits, _ or -, not beginning with a digit or -")
	case t.name == FinishTool || strings.HasPrefix(t.name, companionPrefix):
		return fmt.Errorf("the name is reserved")
	case t.err != nil:
		return t.err
	case t.run == nil && t.wait.kind != CallClientTool && t.agent == nil:
		return fmt.Errorf("make tools with cairn.Func, cairn.RawFunc, cairn.ClientTool or cairn.SubAgent")
	case limits.Text(t.description) != "":
		return fmt.Errorf("the description %s", limits.Text(t.description))
	case limits.JSON(t.input.JSON()) != "":
		return fmt.Errorf("the schema %s", limits.JSON(t.input.JSON()))
	case t.timeout < 0:
		return fmt.Errorf("the timeout is negative")
	case t.agent != nil && (t.finish || t.timeout > 0 || t.cache != nil || t.wait.kind != ""):
		return fmt.Errorf("a sub-agent takes no FinishWith, Timeout, Cache or approval; its own tools do")
	}
	if err := t.cache.validate(t); err != nil {
		return err
	}
	return t.wait.validate(t)
}
