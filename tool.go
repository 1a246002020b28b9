package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/schema"
)

// FinishTool is the name of the tool that an agent with an output type is given: its arguments are the output.
const FinishTool = "__finish__"

// Tool is something that a model can call. Make one with [Func] or [RawFunc], with [ClientTool] if it runs
// elsewhere, or with [SubAgent] for an agent. A Tool is immutable and may be shared by agents.
type Tool struct {
	def definition
}

// definition is the part of a tool that package define reads.
type definition = bridge.Tool[Call, CachePolicy, RetryPolicy, Agent, CallKind, Quorum]

// ToolOption changes how a tool is run.
type ToolOption func(*Tool)

// FinishWith makes the tool's result the output of the turn: a successful call ends the turn. Calls of other tools
// in the same reply run first, and the tool sees the state after them, as with [Serial]. If one of them ends in an
// error, or is denied, the tool does not run: the model reads why and calls it again.
func FinishWith() ToolOption { return func(t *Tool) { t.def.Finishes = true } }

// Serial makes each call of the tool run by itself: after all calls that precede it in the reply, whose writes to the
// state it sees, and before all calls that follow. Use it for tools that decide by the state that other calls of the
// reply may change. If an earlier call is pending, for example until it is approved, the call runs once that one has a
// result. Calls of tools without it run in parallel.
func Serial() ToolOption { return func(t *Tool) { t.def.Serial = true } }

// Timeout limits one execution of the tool. When it passes, the tool's context is cancelled and the call fails at once
// with ErrTimeout; later results of the tool and later writes through its handle have no effect. By default there is no
// limit. For a sub-agent it limits the whole consultation, see [SubAgent].
func Timeout(d time.Duration) ToolOption { return func(t *Tool) { t.def.Timeout = d } }

// ErrorText sets the function that returns the text for an error of the tool's function. The model reads this text, and
// the transcript and the event log keep it. The error itself is logged by the engine's logger. It overrides
// [Agent.ErrorText]; the default is the error's own text. Cairn's own messages about a call, such as schema violations,
// are not changed. If fn panics or returns an empty text, the text is "the tool failed".
func ErrorText(fn func(err error) string) ToolOption { return func(t *Tool) { t.def.ErrorText = fn } }

// Func makes a tool of a function. In, a struct or a map with string keys, determines the JSON Schema of the
// arguments (see [SchemaFor]); arguments that violate it never reach the function. Out is encoded as JSON for the
// model; a string is passed to it as text.
//
// An error from the function becomes the call's result, which the model reads, and does not end the turn. A panic
// counts as an error. The function may run concurrently with others of the same step and, after a crash, again with
// the same Call.IdempotencyKey.
func Func[In, Out any](name, description string, fn func(ctx context.Context, call *Call, in In) (Out, error), opts ...ToolOption) Tool {
	t := Tool{def: definition{Name: name, Description: description}}
	t.def.Input, t.def.Err = schema.For(reflect.TypeFor[In]())
	if fn == nil {
		t.def.Err = errNoFunc
		return t
	}
	t.def.Func = func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, Errorf(ErrArguments, "decode arguments: %w", err)
		}
		out, err := fn(ctx, call, in)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, Errorf(ErrTool, "%w, but its result cannot be encoded as JSON: %w", bridge.ErrRan, err)
		}
		return raw, nil
	}
	return t.with(opts)
}

var errNoFunc = errors.New("function is nil")

func (t Tool) with(opts []ToolOption) Tool {
	for _, opt := range opts {
		opt(&t)
	}
	return t
}

// RawFunc makes a tool with a given schema, whose arguments and result remain JSON, for tools that are not known
// when the program is written.
func RawFunc(name, description string, inputSchema json.RawMessage, fn func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error), opts ...ToolOption) Tool {
	t := Tool{def: definition{Name: name, Description: description}}
	t.def.Input, t.def.Err = schema.Parse(inputSchema)
	if fn == nil {
		t.def.Err = errNoFunc
		return t
	}
	t.def.Func = func(ctx context.Context, call *Call, input json.RawMessage) (json.RawMessage, error) {
		return fn(ctx, call, input)
	}
	return t.with(opts)
}

// SchemaFor returns the JSON Schema of T as encoding/json encodes it. Fields without omitempty or omitzero are
// required; unknown members are rejected. A field's "jsonschema" tag is its description; its "schema" tag holds
// constraints, as in `schema:"enum=red|green,minLength=1"`: enum, min, max, minLength, maxLength, minItems,
// maxItems, format and, last in the tag, pattern. A type may provide its own schema with a method JSONSchema()
// json.RawMessage; recursive types must.
func SchemaFor[T any]() (json.RawMessage, error) {
	s, err := schema.For(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return s.JSON(), nil
}

// Name returns the tool's name.
func (t Tool) Name() string { return t.def.Name }

// Description returns the tool's purpose, as the model reads it.
func (t Tool) Description() string { return t.def.Description }
