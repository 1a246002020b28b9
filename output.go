package cairn

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/cairn-agents/cairn/internal/schema"
)

// OutputType declares the Go type of an agent's final output. Make one with [OutputOf].
type OutputType struct {
	typ    reflect.Type
	schema *schema.Schema
	err    error
	native bool
}

// OutputOf declares T, a struct, as an agent's output. The model is given the tool [FinishTool], whose arguments are
// the output; they are checked against the schema of T (see [SchemaFor]). An output is not taken while another call of
// the same reply has ended in an error, or was denied: the model reads the error and then calls the tool again.
func OutputOf[T any]() *OutputType {
	t := reflect.TypeFor[T]()
	s, err := schema.For(t)
	return &OutputType{typ: t, schema: s, err: err}
}

// RawOutput declares an output by its JSON Schema, which must describe an object.
func RawOutput(jsonSchema json.RawMessage) *OutputType {
	s, err := schema.Parse(jsonSchema)
	return &OutputType{schema: s, err: err}
}

// Native returns the type for the structured output of the model's provider: the provider is given the schema with the
// request, and the text with which the model ends is the output. The session has it as a call of [FinishTool], so
// guards, checks and events stay the same; the text of such a reply is not streamed. Models whose adapter cannot do so,
// and those behind agents of other servers, are given the tool, and so are models whose server refuses structured
// output, from that refusal on. Providers restrict the schemas: see docs/PROVIDERS.md.
func (o *OutputType) Native() *OutputType {
	native := *o
	native.native = true
	return &native
}

// IsNative reports whether the output is asked for by [OutputType.Native].
func (o *OutputType) IsNative() bool { return o.native }

// Schema returns the output's JSON Schema.
func (o *OutputType) Schema() json.RawMessage { return o.schema.JSON() }

// Check returns an ErrOutput error that lists every violation if raw does not satisfy the output type.
func (o *OutputType) Check(raw json.RawMessage) error {
	if list := o.schema.Validate(raw); len(list) > 0 {
		return &Error{Code: ErrOutput, Message: "output violates the schema: " + strings.Join(list, "; "), Details: list}
	}
	if o.typ == nil {
		return nil
	}
	if err := json.Unmarshal(raw, reflect.New(o.typ).Interface()); err != nil {
		return Errorf(ErrOutput, "decode output as %s: %w", o.typ, err)
	}
	return nil
}

// OutputAs decodes the typed output of a run's [*Result], or of the [Completion] that a guard is given. It returns an
// ErrOutput error if there is no output or it has another type.
func OutputAs[T any](from HasOutput) (T, error) {
	var out T
	raw, err := from.output()
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, Errorf(ErrOutput, "decode output as %T: %w", out, err)
	}
	return out, nil
}

// HasOutput is the type of argument that [OutputAs] takes: a [*Result] or a [Completion].
type HasOutput interface {
	output() (json.RawMessage, error)
}

func (r *Result) output() (json.RawMessage, error) {
	if len(r.Output) == 0 {
		return nil, Errorf(ErrOutput, "run %s has no output (status %s)", r.RunID, r.Status)
	}
	return r.Output, nil
}

func (c Completion) output() (json.RawMessage, error) {
	if len(c.Output) == 0 {
		return nil, Errorf(ErrOutput, "completion has no output (%s)", c.Reason)
	}
	return c.Output, nil
}

// InputAs decodes the arguments of a call: of the [Call] that a hook is given, or of a [PendingCall] that a person
// is asked about. It returns an ErrArguments error if they have another type. The arguments of a pending call are
// those that the model gave; a reviewer's changes to them are in its Answer.
func InputAs[T any](call HasInput) (T, error) {
	var in T
	if err := json.Unmarshal(call.input(), &in); err != nil {
		return in, Errorf(ErrArguments, "decode arguments as %T: %w", in, err)
	}
	return in, nil
}

// HasInput is the type of argument that [InputAs] takes: a [*Call] or a [*PendingCall].
type HasInput interface{ input() json.RawMessage }

func (c *Call) input() json.RawMessage { return c.Input }

func (c *PendingCall) input() json.RawMessage { return c.Input }

// Completion describes an output that is about to end a turn.
type Completion struct {
	// Reason is the reason why the turn would end: a reply, a finishing tool, a stop condition.
	Reason Reason `json:"reason,omitempty"`
	// Text is the text of the last reply.
	Text string `json:"text,omitempty"`
	// Output is the typed output; nil if there is none.
	Output json.RawMessage `json:"output,omitempty"`
}

// Verdict is a completion guard's decision. The zero value accepts.
type Verdict struct {
	// Output replaces the typed output, if set. It must satisfy the output type.
	Output json.RawMessage
	// Text replaces the text of the result, if set. The transcript keeps the model's own text.
	Text string
	// Feedback, if set, continues the turn and is sent to the model as a message.
	Feedback string
	// Err, if set, fails the run.
	Err error
}

// Accept lets the turn end.
func Accept() Verdict { return Verdict{} }

// SendBack continues the turn with the feedback as a message to the model.
func SendBack(feedback string) Verdict { return Verdict{Feedback: feedback} }

// Fail fails the run with the error.
func Fail(err error) Verdict { return Verdict{Err: err} }

// Guard decides whether a turn may end. If it returns an error, that counts as [Fail]. After a crash it may be
// called again for the same completion.
type Guard func(ctx context.Context, step *Step, c Completion) (Verdict, error)
