package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"

	"github.com/cairn-agents/cairn/internal/schema"
)

// Ask asks a person a question and stores the answer in answer, which must be a pointer. Its type gives the JSON
// Schema that the answer must satisfy (see [SchemaFor]; a pointer to an interface accepts any JSON). prompt is the
// text for the person. payload, encoded as JSON, is for the program that displays it; nil means none.
//
// While there is no answer, Ask returns [ErrSuspended], and the tool must return that error, wrapped or not. The
// call is then pending with [CallQuestion], the run is suspended, and the process may end. Once the question is
// answered and the run resumed, in any process, the function runs again from its start: its first Ask returns the
// first answer, its second Ask the second, and so on. The code before an Ask may therefore run several times and
// must ask the same questions in the same order. When a pass ends with a question, its writes through the handle
// (state, context, usage) are discarded; a custom event that it emitted before the question is on the log once.
//
// [AssignTo] and [WaitAtMost] set who may answer and for how long; the defaults are the tool's options, if it has any.
// When that time has passed, Ask returns an error with ErrTimeout. If the question is answered with [AnswerError], it
// returns an [ErrDenied] error. The tool may return either error or handle it. Answers are not cached with the tool's
// result.
//
// Ask returns ErrInvalid and asks nothing if the prompt, payload, answer or an option cannot be used, in a tool
// with [FinishWith], and in hooks and conditions.
func (c *Call) Ask(ctx context.Context, prompt string, payload, answer any, opts ...ToolOption) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	into := reflect.ValueOf(answer)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return Invalid("answer", "must be a non-nil pointer")
	}
	q, err := questionOf(opts)
	if err != nil {
		return err
	}
	if prompt == "" {
		return Invalid("prompt", "is empty")
	}
	if err := setPrompt(q, prompt, payload); err != nil {
		return err
	}
	var form *schema.Schema
	if t := into.Type().Elem(); t.Kind() != reflect.Interface {
		if form, err = schema.For(t); err != nil {
			return Invalid("answer", "%v", err)
		}
		q.Schema = form.JSON()
	}
	raw, err := c.env.Ask(*q)
	if err != nil {
		return err
	}
	if form != nil { // the answer may have been given to another version of the tool
		if list := form.Validate(raw); len(list) > 0 {
			e := Errorf(ErrTool, "answer no longer matches question %q: its schema has changed", prompt)
			e.Details = list
			return e
		}
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return Errorf(ErrTool, "decode answer to question %q: %w", prompt, err)
	}
	return nil
}

// Connect asks the user to connect an account at an address, which they open in a browser; prompt states the purpose.
// It is a question like [Call.Ask]'s, but its pending call has [CallConnect], and its payload has the member "url". The
// value of the answer is ignored: it only confirms that the user has visited the address.
func (c *Call) Connect(ctx context.Context, prompt, address string, opts ...ToolOption) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	q, err := questionOf(opts)
	if err != nil {
		return err
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return Invalid("address", "must be an absolute http or https URL")
	}
	if prompt == "" {
		return Invalid("prompt", "is empty")
	}
	if err := setPrompt(q, prompt, map[string]string{"url": address}); err != nil {
		return err
	}
	q.Kind = string(CallConnect)
	_, err = c.env.Ask(*q)
	return err
}

// questionOf returns a question with the given options.
func questionOf(opts []ToolOption) (*question, error) {
	t := Tool{def: definition{Wait: waiting{Kind: CallQuestion}}}.with(opts)
	w := t.def.Wait
	t.def.Wait = waiting{}
	err := w.Err
	if err == nil && (w.Kind != CallQuestion || w.NoEdits || !reflect.ValueOf(t.def).IsZero()) {
		err = errors.New("questions support only AssignTo and WaitAtMost")
	}
	if err == nil {
		err = checkAssigned(&w)
	}
	if err != nil {
		return nil, Invalid("options", "%v", err)
	}
	return &question{Reviewers: w.Reviewers, Quorum: string(w.Quorum), Assigned: w.Assigned, AtMost: w.AtMost}, nil
}
