package cairn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
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
	support := &cairn.Agent{Name: "support", Tools: []cairn.Tool{refund},
		Model: scripted.New(scripted.Call("refund", Order{42, "bored"}), scripted.Call("refund", Order{42, "broken"}), scripted.Text("Done.")),
		Hooks: &cairn.Hooks{AfterTool: func(ctx context.Context, call *cairn.Call, result *cairn.ToolResult) {
			fmt.Println("failed:", result.IsError)
		}}}

	fmt.Println(converse(support, "Order 42 is broken.").Text)
	// Output:
	// failed: true
	// failed: false
	// Done.
}

func ExampleRawFunc() {
	schema := json.RawMessage(`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`)
	weather := cairn.RawFunc("weather", "The weather in a city.", schema,
		func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"sky": "clear"}`), nil
		})
	guide := &cairn.Agent{Name: "guide", Tools: []cairn.Tool{weather},
		Model: scripted.New(scripted.Call("weather", map[string]string{"city": "Rome"}), scripted.Text("It is clear."))}

	fmt.Println(converse(guide, "How is the weather in Rome?").Text)
	// Output:
	// It is clear.
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
	// output violates the schema: summary: is required
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

func ExampleClientTool() {
	type place struct {
		City string `json:"city"`
	}
	locate := cairn.ClientTool[struct{}, place]("locate", "Where the user is, as their browser knows.")
	guide := &cairn.Agent{Name: "guide", Tools: []cairn.Tool{locate},
		Model: scripted.New(scripted.Call("locate", struct{}{}), scripted.Text("Take tram 12."))}

	res := converse(guide, "How do I get home?")
	fmt.Println(res.Status, res.Suspended.Calls[0].Tool)
	// Output:
	// suspended locate
}

func ExampleRawClientTool() {
	input := json.RawMessage(`{"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}`)
	ask := cairn.RawClientTool("ask_user", "Ask the user something.", input, json.RawMessage(`{"type": "string"}`))
	support := &cairn.Agent{Name: "support", Tools: []cairn.Tool{ask},
		Model: scripted.New(scripted.Call("ask_user", map[string]string{"question": "Which order?"}), scripted.Text("Thank you."))}

	res := converse(support, "My order is broken.")
	fmt.Println(res.Status, res.Suspended.Calls[0].Kind)
	// Output:
	// suspended client_tool
}

// refund is the function of the tools below.
func refund(ctx context.Context, call *cairn.Call, in Order) (string, error) {
	return fmt.Sprintf("order %d refunded", in.ID), nil
}

// refunder returns an agent with a tool that refunds an order, for a model that calls it.
func refunder(reason string, opts ...cairn.ToolOption) *cairn.Agent {
	return &cairn.Agent{Name: "support", Tools: []cairn.Tool{cairn.Func("refund", "Refund an order.", refund, opts...)},
		Model: scripted.New(scripted.Call("refund", Order{42, reason}), scripted.Text("Done."))}
}

func ExampleRequireApproval() {
	res := converse(refunder("late", cairn.RequireApproval()), "Refund order 42.")
	fmt.Println(res.Status, res.Suspended.Calls[0].Kind)
	// Output:
	// suspended approval
}

func ExampleRequireApprovalIf() {
	unwanted := cairn.RequireApprovalIf(func(ctx context.Context, call *cairn.Call, in Order) (bool, error) {
		return in.Reason == "unwanted", nil
	})
	fmt.Println(converse(refunder("broken", unwanted), "Refund order 42, it is broken.").Status)
	fmt.Println(converse(refunder("unwanted", unwanted), "Refund order 42, I do not want it.").Status)
	// Output:
	// completed
	// suspended
}

func ExampleAssignTo() {
	call := asked(refunder("late", cairn.RequireApproval(), cairn.AssignTo(cairn.MostReviewers, "ann", "bob", "cat")), "Refund order 42.")
	fmt.Println(call.Reviewers, call.Quorum)
	// Output:
	// [ann bob cat] majority
}

func ExampleWaitAtMost() {
	call := asked(refunder("late", cairn.RequireApproval(), cairn.WaitAtMost(24*time.Hour)), "Refund order 42.")
	fmt.Println(call.Deadline.Sub(call.CreatedAt).Round(time.Minute))
	// Output:
	// 24h0m0s
}

func ExampleSubAgent() {
	researcher := &cairn.Agent{Name: "researcher", Description: "Finds things out.", Model: scripted.New(scripted.Text("Grace Hopper."))}
	writer := &cairn.Agent{Name: "writer", Tools: []cairn.Tool{cairn.SubAgent(researcher)}, Model: scripted.New(
		scripted.Call("researcher", map[string]string{"input": "Who wrote the first compiler?"}), scripted.Text("It was Grace Hopper."))}

	fmt.Println(converse(writer, "Who wrote the first compiler?").Text)
	// Output:
	// It was Grace Hopper.
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
	// submission: cannot be encoded as JSON: json: unsupported type: func()
}

func ExampleAnswerError() {
	call := cairn.CallRef{ID: "call_2", RootID: "s1", Kind: cairn.CallClientTool, Tool: "locate"}
	show(cairn.AnswerError(call, "The user does not want to say."))
	// Output:
	// {"type":"client-tool-result","call_id":"call_2","error":"The user does not want to say."} <nil>
}
