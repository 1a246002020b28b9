package cairn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/schema"
)

// waiting is what a tool's calls wait for before they have a result.
type waiting = bridge.Wait[Call, CallKind, Quorum]

// ClientTool makes a tool that a client runs: a browser, another service, a person. In determines the JSON Schema of
// the arguments as in [Func], Out the schema of the result; submissions are checked against it. A call of the tool
// suspends the run; see [PendingCall].
func ClientTool[In, Out any](name, description string, opts ...ToolOption) Tool {
	t := Tool{def: definition{Name: name, Description: description, Wait: waiting{Kind: CallClientTool}}}
	t.def.Input, t.def.Err = schema.For(reflect.TypeFor[In]())
	if result := reflect.TypeFor[Out](); result.Kind() != reflect.Interface {
		var err error
		if t.def.Wait.Result, err = schema.For(result); t.def.Err == nil && err != nil {
			t.def.Err = fmt.Errorf("result: %w", err)
		}
	}
	return t.with(opts)
}

// RawClientTool makes a client-executed tool with given schemas. A nil resultSchema accepts any JSON.
func RawClientTool(name, description string, inputSchema, resultSchema json.RawMessage, opts ...ToolOption) Tool {
	t := Tool{def: definition{Name: name, Description: description, Wait: waiting{Kind: CallClientTool}}}
	t.def.Input, t.def.Err = schema.Parse(inputSchema)
	if resultSchema != nil {
		var err error
		if t.def.Wait.Result, err = schema.Parse(resultSchema); t.def.Err == nil && err != nil {
			t.def.Err = fmt.Errorf("result: %w", err)
		}
	}
	return t.with(opts)
}

// ApprovalOption changes a reviewer's choices.
type ApprovalOption func(*waiting)

// NoEdits requires that the arguments of a call are approved unchanged: an answer with other arguments is
// ErrInvalid.
func NoEdits() ApprovalOption { return func(w *waiting) { w.NoEdits = true } }

// RequireApproval lets the tool run only after a reviewer has approved the call. Until then the run is suspended.
// The reviewer may change the arguments, unless NoEdits is given; they are checked against the tool's schema, and
// the model is shown the arguments that were used.
func RequireApproval(opts ...ApprovalOption) ToolOption {
	return func(t *Tool) {
		t.require(func(context.Context, *Call, json.RawMessage) (*question, error) { return &question{}, nil }, opts)
	}
}

// Prompt is the reason for a call: a text for the reviewer, and a payload, encoded as JSON, for the program that
// displays it. Both are on the pending call, see [CallRef]. Together they may have 1 MiB at most.
type Prompt struct {
	// Text is the reason for the call, for the person who decides.
	Text string
	// Payload is for the program that displays the prompt: any value that encodes as JSON; nil means none.
	Payload any
}

// RequireApprovalIf requires approval of the calls for which needed, a function of the arguments, returns true or a
// *Prompt with the reason; false or a nil *Prompt means that no approval is needed. In must be the input type of
// the tool. If the function returns an error or panics, approval is needed. A tool takes one of RequireApproval and
// RequireApprovalIf, once.
func RequireApprovalIf[In any, Need bool | *Prompt](needed func(ctx context.Context, call *Call, in In) (Need, error), opts ...ApprovalOption) ToolOption {
	return func(t *Tool) {
		t.require(func(ctx context.Context, call *Call, input json.RawMessage) (*question, error) {
			var in In
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			need, err := needed(ctx, call, in)
			q := &question{}
			switch need := any(need).(type) {
			case bool:
				if !need {
					q = nil
				}
			case *Prompt:
				if need == nil {
					return nil, err
				}
				err = cmp.Or(err, setPrompt(q, need.Text, need.Payload))
			}
			return q, err
		}, opts)
		if needed == nil {
			t.def.Wait.Err = errors.New("RequireApprovalIf: function is nil")
		}
	}
}

func (t *Tool) require(asks func(context.Context, *Call, json.RawMessage) (*question, error), opts []ApprovalOption) {
	switch t.def.Wait.Kind {
	case CallClientTool:
		t.def.Wait.Err = errors.New("client-executed tools cannot require approval: the client that runs the tool can decline")
		return
	case CallApproval: // the weaker of two conditions must not win silently
		t.def.Wait.Err = errors.New("set either RequireApproval or RequireApprovalIf, not both")
		return
	}
	t.def.Wait.Kind, t.def.Wait.Asks = CallApproval, asks
	for _, opt := range opts {
		opt(&t.def.Wait)
	}
}

// AssignTo sets who may answer the tool's calls, and how many of them decide. Without it, anyone may answer. It can
// also be used for a single question of a tool, see [Call.Ask]. The call of a client-executed tool has one result,
// so its quorum is AnyReviewer. Names follow the rules of session ids, see [CheckSessionID]. In a tenant's session they are
// names of the tenant's people, see [InTenant]; a call that names anyone else fails.
func AssignTo(quorum Quorum, reviewers ...string) ToolOption {
	reviewers = slices.Clone(reviewers)
	return func(t *Tool) { t.def.Wait.Assigned, t.def.Wait.Quorum, t.def.Wait.Reviewers = true, quorum, reviewers }
}

// WaitAtMost makes a call fail if it is not answered within d. The time elapses even while no process runs; a worker
// enforces it. It can also be used for a single question of a tool, see [Call.Ask]. The default is the engine's limit,
// Options.WaitAtMost, which by default is unlimited.
func WaitAtMost(d time.Duration) ToolOption {
	return func(t *Tool) {
		t.def.Wait.AtMost = d
		if d <= 0 {
			t.def.Wait.Err = errors.New("WaitAtMost: must be positive")
		}
	}
}

func (t *Tool) validateWait() error {
	w := &t.def.Wait
	switch {
	case w.Err != nil:
		return w.Err
	case w.Kind == "" && !t.def.Effectful && (w.Assigned || w.AtMost != 0):
		return errors.New("AssignTo and WaitAtMost are only for client-executed tools and tools that require approval or are effectful")
	case w.Kind == CallClientTool && t.def.Finishes:
		return errors.New("client-executed tools cannot finish a turn")
	case w.Kind == CallApproval && t.def.Finishes:
		return errors.New("tools that require approval cannot finish a turn")
	case w.Kind == CallClientTool && t.def.Timeout != 0:
		return errors.New("client-executed tools do not support Timeout; use WaitAtMost")
	case w.Kind == CallClientTool && w.Quorum != AnyReviewer:
		return errors.New("AssignTo: client-executed tools support only AnyReviewer")
	}
	return checkAssigned(w)
}

// checkAssigned reports what is wrong with the assignment made by AssignTo.
func checkAssigned(w *waiting) error {
	switch {
	case w.Quorum != AnyReviewer && w.Quorum != AllReviewers && w.Quorum != MostReviewers:
		return fmt.Errorf("AssignTo: unknown quorum %q", w.Quorum)
	case w.Assigned && len(w.Reviewers) == 0:
		return errors.New("AssignTo: no reviewers")
	}
	for i, r := range w.Reviewers {
		if problem := ids.CheckUser(r); problem != "" {
			return fmt.Errorf("AssignTo: reviewer name %s", problem)
		}
		if slices.Contains(w.Reviewers[:i], r) {
			return fmt.Errorf("AssignTo: duplicate reviewer %q", r)
		}
	}
	return nil
}

// CheckValue returns an ErrInvalid error about field, with every violation in Details, if value does not satisfy
// the call's schema.
func (c *PendingCall) CheckValue(field string, value json.RawMessage) error {
	if len(c.Schema) == 0 {
		return nil
	}
	s, err := schema.Parse(c.Schema)
	if err != nil {
		return Errorf(ErrCorrupt, "call %q: stored schema: %w", c.ID, err)
	}
	if list := s.Validate(value); len(list) > 0 {
		e := Invalid(field, "violates the schema of the call: %s", strings.Join(list, "; "))
		e.Details = list
		return e
	}
	return nil
}

// question is a question to a person.
type question = bridge.Question

// setPrompt sets the prompt and payload of a question. If they cannot be kept, the error is ErrInvalid or
// ErrTooLarge.
func setPrompt(q *question, text string, payload any) error {
	text = limits.Clean(text)
	if err := CheckText("prompt", text); err != nil {
		return err
	}
	var raw json.RawMessage
	if payload != nil {
		var err error
		if raw, err = json.Marshal(payload); err != nil {
			return Invalid("payload", "cannot be encoded as JSON: %v", err)
		}
		raw, _ = limits.CleanJSON(raw)
		if err := CheckJSON("payload", raw); err != nil {
			return err
		}
	}
	if len(text)+len(raw) > MaxPromptBytes {
		return &Error{Code: ErrTooLarge, Field: "prompt", Message: "prompt: too large with its payload (max 1 MiB)"}
	}
	q.Prompt, q.Payload = text, raw
	return nil
}
