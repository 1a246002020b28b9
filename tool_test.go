package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// of returns the definition of a tool.
func of(t cairn.Tool) *define.Tool { return define.Of(&t) }

type transfer struct {
	To     string  `json:"to" schema:"minLength=2"`
	Amount float64 `json:"amount" schema:"min=1"`
}

func TestFunc(t *testing.T) {
	t.Parallel()
	var got transfer
	tool := of(cairn.Func("transfer", "Moves money.", func(_ context.Context, call *cairn.Call, in transfer) (map[string]string, error) {
		got = in
		return map[string]string{"call": call.ID}, nil
	}, cairn.FinishWith(), cairn.Timeout(time.Second)))
	if tool.Name != "transfer" || tool.Description != "Moves money." || !tool.Finishes || tool.Timeout != time.Second {
		t.Errorf("tool %+v", tool)
	}
	if spec := tool.Spec(); spec.Name != "transfer" || spec.Description != "Moves money." || !strings.Contains(string(spec.Schema), `"minLength":2`) {
		t.Errorf("spec %+v", spec)
	}
	call := &cairn.Call{Step: &cairn.Step{}, ID: "call-1"}
	out, err := tool.Run(t.Context(), call, json.RawMessage(`{"to":"bob","amount":2.5}`))
	if err != nil || string(out) != `{"call":"call-1"}` || got != (transfer{"bob", 2.5}) {
		t.Errorf("out %s, %v, in %+v", out, err, got)
	}
}

func TestFuncErrors(t *testing.T) {
	t.Parallel()
	fails := of(cairn.Func("fails", "", func(context.Context, *cairn.Call, struct{}) (int, error) { return 0, io.EOF }))
	if out, err := fails.Run(t.Context(), nil, json.RawMessage(`{}`)); err != io.EOF || out != nil {
		t.Errorf("the function's error becomes %s, %v", out, err)
	}
	strange := of(cairn.Func("strange", "", func(context.Context, *cairn.Call, struct{}) (func(), error) { return nil, nil }))
	if _, err := strange.Run(t.Context(), nil, json.RawMessage(`{}`)); cairn.AsError(err).Code != cairn.ErrTool {
		t.Errorf("a result that does not encode: %v", err)
	}
	if _, err := fails.Run(t.Context(), nil, json.RawMessage(`[]`)); cairn.AsError(err).Code != cairn.ErrArguments {
		t.Errorf("arguments that do not decode: %v", err)
	}
}

func TestCheckListsEveryViolation(t *testing.T) {
	t.Parallel()
	tool := of(cairn.Func("transfer", "", func(context.Context, *cairn.Call, transfer) (int, error) { return 0, nil }))
	if err := tool.Check(json.RawMessage(`{"to":"bob","amount":1}`)); err != nil {
		t.Error(err)
	}
	err := tool.Check(json.RawMessage(`{"to":"b","amount":0,"more":1}`))
	var e *cairn.Error
	if !errors.As(err, &e) || e.Code != cairn.ErrArguments || len(e.Details) != 3 {
		t.Fatalf("error %v with details %q", err, e.Details)
	}
	for _, want := range []string{"to: ", "amount: ", "more: unknown member"} {
		if !strings.Contains(e.Message, want) || !slices.ContainsFunc(e.Details, func(d string) bool { return strings.Contains(d, want) }) {
			t.Errorf("%q does not name %q", e.Message, want)
		}
	}
	for _, bad := range []string{``, `{`, `null`, `{} {}`} {
		if err := tool.Check(json.RawMessage(bad)); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrArguments {
			t.Errorf("arguments %q: %v", bad, err)
		}
	}
}

func TestRawFunc(t *testing.T) {
	t.Parallel()
	echo := of(cairn.RawFunc("echo", "", json.RawMessage(`{"type":"object","required":["a"]}`),
		func(_ context.Context, _ *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			if strings.Contains(string(input), "fail") {
				return nil, io.EOF
			}
			return input[5 : len(input)-1], nil
		}))
	if err := echo.Check(json.RawMessage(`{}`)); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrArguments {
		t.Errorf("arguments that violate the schema: %v", err)
	}
	if out, err := echo.Run(t.Context(), nil, json.RawMessage(`{"a":[1]}`)); err != nil || string(out) != `[1]` {
		t.Errorf("out %s, %v", out, err)
	}
	if _, err := echo.Run(t.Context(), nil, json.RawMessage(`{"a":"x",}`)); cairn.AsError(err).Code != cairn.ErrTool {
		t.Errorf("a result that is not JSON: %v", err)
	}
	if _, err := echo.Run(t.Context(), nil, json.RawMessage(`{"a":"fail"}`)); err != io.EOF {
		t.Errorf("the function's error becomes %v", err)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	type verdict struct {
		Score int    `json:"score" schema:"min=1,max=5"`
		Note  string `json:"note,omitempty"`
	}
	for name, output := range map[string]*cairn.OutputType{
		"typed": cairn.OutputOf[verdict](),
		"raw":   cairn.RawOutput(json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer","minimum":1,"maximum":5},"note":{"type":"string"}},"required":["score"],"additionalProperties":false}`)),
	} {
		if err := output.Check(json.RawMessage(`{"score":3}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var e *cairn.Error
		if err := output.Check(json.RawMessage(`{"score":9,"more":1}`)); !errors.As(err, &e) || e.Code != cairn.ErrOutput || len(e.Details) != 2 {
			t.Errorf("%s: error %v", name, err)
		}
	}
	got, err := cairn.OutputAs[verdict](&cairn.Result{Output: json.RawMessage(`{"score":3}`)})
	if err != nil || got.Score != 3 {
		t.Errorf("output %+v, %v", got, err)
	}
	if got, err = cairn.OutputAs[verdict](cairn.Completion{Output: json.RawMessage(`{"score":4}`)}); err != nil || got.Score != 4 {
		t.Errorf("output of a completion %+v, %v", got, err)
	}
	if _, err := cairn.OutputAs[verdict](cairn.Completion{Reason: cairn.ReasonReply}); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrOutput {
		t.Errorf("a completion without output: %v", err)
	}
	arguments := json.RawMessage(`{"score":5}`)
	for _, call := range []cairn.HasInput{&cairn.Call{Input: arguments}, &cairn.PendingCall{CallRef: cairn.CallRef{Input: arguments}}} {
		if in, err := cairn.InputAs[verdict](call); err != nil || in.Score != 5 {
			t.Errorf("input of %T: %+v, %v", call, in, err)
		}
		if _, err := cairn.InputAs[[]string](call); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrArguments {
			t.Errorf("input of %T as another type: %v", call, err)
		}
	}
	for _, r := range []*cairn.Result{{RunID: "run-1", Status: cairn.RunFailed}, {Output: json.RawMessage(`{"score":"x"}`)}} {
		if _, err := cairn.OutputAs[verdict](r); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrOutput {
			t.Errorf("output of %+v: %v", r, err)
		}
	}
}

func TestSchemaForErrors(t *testing.T) {
	t.Parallel()
	if _, err := cairn.SchemaFor[loop](); err == nil || !strings.Contains(err.Error(), "recursive") {
		t.Errorf("error %v", err)
	}
}
