package cairn_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
)

type Order struct {
	ID     int    `json:"id" jsonschema:"the order's number" schema:"min=1"`
	Reason string `json:"reason" schema:"enum=broken|late|unwanted"`
}

func ExampleFunc() {
	refund := cairn.Func("refund", "Refund an order.",
		func(ctx context.Context, call *cairn.Call, in Order) (string, error) {
			return fmt.Sprintf("order %d refunded because it is %s", in.ID, in.Reason), nil
		})
	fmt.Println(refund.Check(json.RawMessage(`{"id": 0, "reason": "bored"}`)) != nil)
	out, err := refund.Run(context.Background(), nil, json.RawMessage(`{"id": 42, "reason": "broken"}`))
	fmt.Println(string(out), err)
	// Output:
	// true
	// "order 42 refunded because it is broken" <nil>
}

func ExampleRawFunc() {
	schema := json.RawMessage(`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`)
	weather := cairn.RawFunc("weather", "The weather in a city.", schema,
		func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"sky": "clear"}`), nil
		})
	fmt.Println(weather.Check(json.RawMessage(`{}`)))
	// Output:
	// arguments violate the schema: missing "city"
}

func ExampleOutputOf() {
	type Resolution struct {
		Solved  bool   `json:"solved"`
		Summary string `json:"summary"`
	}
	output := cairn.OutputOf[Resolution]()
	fmt.Println(output.Check(json.RawMessage(`{"solved": true}`)))

	res := &cairn.Result{Output: json.RawMessage(`{"solved": true, "summary": "refunded"}`)}
	resolution, err := cairn.OutputAs[Resolution](res)
	fmt.Println(resolution.Summary, err)
	// Output:
	// the output's members violate the schema: missing "summary"
	// refunded <nil>
}

func ExampleRawOutput() {
	output := cairn.RawOutput(json.RawMessage(`{"type": "object", "required": ["answer"]}`))
	fmt.Println(output.Check(json.RawMessage(`{"answer": 42}`)))
	// Output:
	// <nil>
}

func ExampleStateOf() {
	type Refunds struct {
		Issued []int `json:"issued"`
	}
	agent := &cairn.Agent{Name: "support", State: cairn.StateOf(Refunds{Issued: []int{}})}
	fmt.Println(string(agent.State.Initial()))
	fmt.Println(agent.State.Check(json.RawMessage(`{"issued": "none"}`)) != nil)
	// Output:
	// {"issued":[]}
	// true
}

// env is a tool's surroundings in a test: it keeps what the tool writes.
type env struct {
	state json.RawMessage
	ops   []cairn.Op
}

func (e *env) State() (json.RawMessage, error)              { return e.state, nil }
func (e *env) Update(ops []cairn.Op) error                  { e.ops = append(e.ops, ops...); return nil }
func (e *env) Emit(name string, data json.RawMessage) error { return nil }
func (e *env) AddContext(cairn.Message)                     {}
func (e *env) RecordUsage(string, float64)                  {}
func (e *env) Checkpoint()                                  {}

func ExampleNewStep() {
	e := &env{state: json.RawMessage(`{"issued": [41]}`)}
	step := cairn.NewStep(cairn.StepInfo{SessionID: "s1", Number: 1}, e)
	type refunds struct {
		Issued []int `json:"issued"`
	}
	err := cairn.UpdateState(step, func(s *refunds) { s.Issued = append(s.Issued, 42) })
	fmt.Println(err, e.ops[0].Kind, e.ops[0].Path, string(e.ops[0].Items[0]))
	// Output:
	// <nil> append /issued 42
}

func ExampleNewCall() {
	step := cairn.NewStep(cairn.StepInfo{SessionID: "s1", Number: 1}, &env{})
	first := cairn.NewCall(step, cairn.CallInfo{ID: "call_1", Tool: "refund"})
	again := cairn.NewCall(step, cairn.CallInfo{ID: "call_1", Tool: "refund"})
	other := cairn.NewCall(step, cairn.CallInfo{ID: "call_2", Tool: "refund"})
	fmt.Println(first.IdempotencyKey() == again.IdempotencyKey(), first.IdempotencyKey() == other.IdempotencyKey())
	// Output:
	// true false
}
