package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/schema"
)

// waiting is what a tool waits for before it has a result.
type waiting struct {
	kind      CallKind // empty: nothing
	asks      func(ctx context.Context, call *Call, input json.RawMessage) (bool, error)
	result    *schema.Schema // of a client tool; nil for any
	reviewers []string
	quorum    Quorum
	atMost    time.Duration
	assigned  bool
	err       error
}

// ClientTool makes a tool that somebody outside runs: a browser, another service, a person. In gives the arguments' JSON
// Schema as in [Func], Out that of the result, which a submission is checked against. A call of it suspends the run; see
// [PendingCall].
func ClientTool[In, Out any](name, description string, opts ...ToolOption) Tool {
	t := Tool{name: name, description: description, wait: waiting{kind: CallClientTool}}
	t.input, t.err = schema.For(reflect.TypeFor[In]())
	if result := reflect.TypeFor[Out](); result.Kind() != reflect.Interface {
		var err error
		if t.wait.result, err = schema.For(result); t.err == nil && err != nil {
			t.err = fmt.Errorf("result: %w", err)
		}
	}
	return t.with(opts)
}

// RawClientTool makes a client-executed tool whose schemas are given. A nil resultSchema admits any JSON.
func RawClientTool(name, description string, inputSchema, resultSchema json.RawMessage, opts ...ToolOption) Tool {
	t := Tool{name: name, description: description, wait: waiting{kind: CallClientTool}}
	t.input, t.err = schema.Parse(inputSchema)
	if resultSchema != nil {
		var err error
		if t.wait.result, err = schema.Parse(resultSchema); t.err == nil && err != nil {
			t.err = fmt.Errorf("result: %w", err)
		}
	}
	return t.with(opts)
}

// RequireApproval lets the tool run only once somebody has approved the call. Until then the run is suspended.
func RequireApproval() ToolOption {
	return func(t *Tool) {
		t.require(func(context.Context, *Call, json.RawMessage) (bool, error) { return true, nil })
	}
}

// RequireApprovalIf requires approval of the calls for which a function of the arguments says so. In must be that of the
// tool. An error or a panic of the function means that approval is needed. A tool takes one of RequireApproval and
// RequireApprovalIf, once.
func RequireApprovalIf[In any](needed func(ctx context.Context, call *Call, in In) (bool, error)) ToolOption {
	return func(t *Tool) {
		t.require(func(ctx context.Context, call *Call, input json.RawMessage) (bool, error) {
			var in In
			if err := json.Unmarshal(input, &in); err != nil {
				return true, err
			}
			return needed(ctx, call, in)
		})
		if needed == nil {
			t.wait.err = errors.New("RequireApprovalIf: the function is nil")
		}
	}
}

func (t *Tool) require(asks func(context.Context, *Call, json.RawMessage) (bool, error)) {
	switch t.wait.kind {
	case CallClientTool:
		t.wait.err = errors.New("client-executed tools cannot require approval: whoever runs the tool can decline")
		return
	case CallApproval: // the weaker of two conditions must not win unseen
		t.wait.err = errors.New("approval is required twice: give one of RequireApproval and RequireApprovalIf")
		return
	}
	t.wait.kind, t.wait.asks = CallApproval, asks
}

// AssignTo names who may answer the tool's calls, and how many of them decide. Without it anybody may. The call of a
// client-executed tool has one result, so its quorum is AnyReviewer. Names are held to the rules of session ids, see
// [CheckSessionID].
func AssignTo(quorum Quorum, reviewers ...string) ToolOption {
	reviewers = slices.Clone(reviewers)
	return func(t *Tool) { t.wait.assigned, t.wait.quorum, t.wait.reviewers = true, quorum, reviewers }
}

// WaitAtMost makes a call that was not answered in that time count as failed. The time runs on while
// no process does; a worker sees to it that it is kept. The default is no bound.
func WaitAtMost(d time.Duration) ToolOption {
	return func(t *Tool) {
		t.wait.atMost = d
		if d <= 0 {
			t.wait.err = errors.New("WaitAtMost: the time must be positive")
		}
	}
}

func (w *waiting) validate(t Tool) error {
	switch {
	case w.err != nil:
		return w.err
	case w.kind == "" && (w.assigned || w.atMost != 0):
		return errors.New("AssignTo and WaitAtMost are for tools that wait: client-executed ones and those that require approval")
	case w.kind == CallClientTool && t.finish:
		return errors.New("client-executed tools cannot finish a turn")
	case w.kind == CallApproval && t.finish:
		return errors.New("tools that require approval cannot finish a turn")
	case w.kind == CallClientTool && t.timeout != 0:
		return errors.New("the timeout of a client-executed tool is set with WaitAtMost")
	case w.quorum != AnyReviewer && w.quorum != AllReviewers && w.quorum != MostReviewers:
		return fmt.Errorf("AssignTo: the quorum %q is unknown", w.quorum)
	case w.kind == CallClientTool && w.quorum != AnyReviewer:
		return errors.New("AssignTo: a client-executed tool has one result, so any one reviewer gives it")
	case w.assigned && len(w.reviewers) == 0:
		return errors.New("AssignTo: no reviewers")
	}
	for i, r := range w.reviewers {
		if problem := ids.Check(r); problem != "" {
			return fmt.Errorf("AssignTo: a reviewer's name %s", problem)
		}
		if slices.Contains(w.reviewers[:i], r) {
			return fmt.Errorf("AssignTo: reviewer %q is named twice", r)
		}
	}
	return nil
}

// Waits returns what the tool's calls wait for before they have a result: CallClientTool, CallApproval (for all calls or
// some of them), or empty.
func (t Tool) Waits() CallKind { return t.wait.kind }

// AsksApproval reports whether a call needs approval before the tool may run. An error says why it does. A panic of the
// tool's function is not recovered.
func (t Tool) AsksApproval(ctx context.Context, call *Call, input json.RawMessage) (bool, error) {
	if t.wait.asks == nil {
		return false, nil
	}
	asks, err := t.wait.asks(ctx, call, input)
	return asks || err != nil, err
}

// AtMost returns how long a call of the tool is waited for; 0 means for ever. The store makes a deadline of that, by its clock.
func (t Tool) AtMost() time.Duration { return max(t.wait.atMost, 0) }

// Pending returns what is written of a call that waits, but for its place, its input and its deadline.
func (t Tool) Pending() PendingCall {
	c := PendingCall{CallRef: CallRef{Kind: t.wait.kind, Tool: t.name}, Reviewers: slices.Clone(t.wait.reviewers), Quorum: t.wait.quorum, Status: CallOpen}
	switch {
	case t.wait.kind == CallApproval:
		c.Schema = t.input.JSON()
	case t.wait.result != nil:
		c.Schema = t.wait.result.JSON()
	}
	return c
}

// CheckValue returns an ErrInvalid error about a field, with every violation in Details, if a value does not satisfy the
// call's schema.
func (c *PendingCall) CheckValue(field string, value json.RawMessage) error {
	if len(c.Schema) == 0 {
		return nil
	}
	s, err := schema.Parse(c.Schema)
	if err != nil {
		return Errorf(CodeCorrupt, "call %q: stored schema: %w", c.ID, err)
	}
	if list := s.Validate(value); len(list) > 0 {
		e := Invalid(field, "does not satisfy the call's schema: %s", strings.Join(list, "; "))
		e.Details = list
		return e
	}
	return nil
}
