package cairn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
func (e *env) Update(op cairn.Op) error                     { e.ops = append(e.ops, op); return nil }
func (e *env) Change(before, after json.RawMessage) error   { return nil }
func (e *env) Emit(name string, data json.RawMessage) error { return nil }
func (e *env) AddContext(cairn.Message)                     {}
func (e *env) RecordUsage(string, float64)                  {}
func (e *env) Checkpoint()                                  {}

func ExampleNewStep() {
	e := &env{state: json.RawMessage(`{"issued": [41]}`)}
	step := cairn.NewStep(cairn.StepInfo{SessionID: "s1", Number: 1}, e)
	err := step.Append([]string{"issued"}, 42)
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

func ExampleClientTool() {
	type place struct {
		City string `json:"city"`
	}
	locate := cairn.ClientTool[struct{}, place]("locate", "Where the user is, as their browser knows.")
	call := locate.Pending()
	fmt.Println(call.Kind, call.Status)
	fmt.Println(call.CheckValue("result", json.RawMessage(`{"town": "Oslo"}`)))
	// Output:
	// client_tool open
	// result: does not satisfy the call's schema: missing "city"; unknown member "town"
}

func ExampleRawClientTool() {
	input := json.RawMessage(`{"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}`)
	ask := cairn.RawClientTool("ask_user", "Ask the user something.", input, json.RawMessage(`{"type": "string"}`))
	fmt.Println(ask.Waits(), ask.Check(json.RawMessage(`{"question": "Which order?"}`)))
	// Output:
	// client_tool <nil>
}

// refund is the function of the tools below.
func refund(ctx context.Context, call *cairn.Call, in Order) (string, error) {
	return fmt.Sprintf("order %d refunded", in.ID), nil
}

func ExampleRequireApproval() {
	tool := cairn.Func("refund", "Refund an order.", refund, cairn.RequireApproval())
	asks, err := tool.AsksApproval(context.Background(), nil, json.RawMessage(`{"id": 42, "reason": "late"}`))
	fmt.Println(tool.Waits(), asks, err)
	// Output:
	// approval true <nil>
}

func ExampleRequireApprovalIf() {
	tool := cairn.Func("refund", "Refund an order.", refund,
		cairn.RequireApprovalIf(func(ctx context.Context, call *cairn.Call, in Order) (bool, error) {
			return in.Reason == "unwanted", nil
		}))
	for _, arguments := range []string{`{"id": 42, "reason": "broken"}`, `{"id": 42, "reason": "unwanted"}`} {
		asks, err := tool.AsksApproval(context.Background(), nil, json.RawMessage(arguments))
		fmt.Println(asks, err)
	}
	// Output:
	// false <nil>
	// true <nil>
}

func ExampleAssignTo() {
	tool := cairn.Func("refund", "Refund an order.", refund,
		cairn.RequireApproval(), cairn.AssignTo(cairn.MostReviewers, "ann", "bob", "cat"))
	call := tool.Pending()
	fmt.Println(call.Reviewers, call.Quorum)
	// Output:
	// [ann bob cat] majority
}

func ExampleWaitAtMost() {
	tool := cairn.Func("refund", "Refund an order.", refund, cairn.RequireApproval(), cairn.WaitAtMost(24*time.Hour))
	fmt.Println(tool.AtMost())
	// Output:
	// 24h0m0s
}

func ExampleCache() {
	tool := cairn.Func("look_up", "Look an order up.", refund, cairn.Cache(cairn.CachePolicy{TTL: 10 * time.Minute}))
	agent := &cairn.Agent{Name: "shop", Tools: []cairn.Tool{tool}}
	fmt.Println(tool.Cache().Lifetime(), agent.CachedResults())
	// Output:
	// 10m0s 64
}

func ExampleSubAgent() {
	researcher := &cairn.Agent{Name: "researcher", Description: "Finds things out."}
	tool := cairn.SubAgent(researcher)
	arguments := json.RawMessage(`{"input": "Who wrote the first compiler?"}`)
	fmt.Println(tool.Name(), tool.Check(arguments))
	task, err := tool.Task(arguments)
	fmt.Println(task.Messages[0].Text(), err)
	// Output:
	// researcher <nil>
	// Who wrote the first compiler? <nil>
}

// show prints what a submission looks like on the wire, if it is valid.
func show(s cairn.Submission) {
	if err := s.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	text, err := json.Marshal(s)
	fmt.Println(string(text), err)
}

func ExampleApprove() {
	// A call as Result.Suspended and the inbox give it.
	call := cairn.CallRef{ID: "call_1", RootID: "s1", Kind: cairn.CallApproval, Tool: "refund", ApprovalID: "approval_1"}
	show(cairn.Approve(call).By("ann"))
	show(cairn.Approve(call).WithInput(Order{ID: 42, Reason: "late"}))
	// Output:
	// {"type":"approval-response","call_id":"call_1","approval_id":"approval_1","approved":true,"reviewer":"ann"} <nil>
	// {"type":"approval-response","call_id":"call_1","approval_id":"approval_1","approved":true,"input":{"id":42,"reason":"late"}} <nil>
}

func ExampleDeny() {
	call := cairn.CallRef{ID: "call_1", RootID: "s1", Kind: cairn.CallApproval, Tool: "refund", ApprovalID: "approval_1"}
	show(cairn.Deny(call, "The order is too old."))
	// Output:
	// {"type":"approval-response","call_id":"call_1","approval_id":"approval_1","reason":"The order is too old."} <nil>
}

func ExampleAnswer() {
	call := cairn.CallRef{ID: "call_2", RootID: "s1", Kind: cairn.CallClientTool, Tool: "locate"}
	show(cairn.Answer(call, map[string]string{"city": "Oslo"}))
	show(cairn.Answer(call, func() {}))
	// Output:
	// {"type":"client-tool-result","call_id":"call_2","result":{"city":"Oslo"}} <nil>
	// submission: a value does not encode as JSON: json: unsupported type: func()
}

func ExampleAnswerError() {
	call := cairn.CallRef{ID: "call_2", RootID: "s1", Kind: cairn.CallClientTool, Tool: "locate"}
	show(cairn.AnswerError(call, "The user does not want to tell."))
	// Output:
	// {"type":"client-tool-result","call_id":"call_2","error":"The user does not want to tell."} <nil>
}
