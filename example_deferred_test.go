package cairn_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

func ExampleDeferred() {
	type order struct {
		ID int `json:"id"`
	}
	refund := cairn.Func("refund_order", "Refund an order.", func(ctx context.Context, call *cairn.Call, in order) (string, error) {
		return fmt.Sprintf("order %d refunded", in.ID), nil
	}, cairn.Deferred("money back"))
	model := scripted.New( // in place of a model that searches of its own accord
		scripted.Call(cairn.FindTools, map[string]string{"query": "give money back"}),
		scripted.Call(cairn.CallTool, map[string]any{"name": "refund_order", "input": order{42}}),
		scripted.Text("You get your money back."))
	agent := &cairn.Agent{Name: "support", Model: model, Tools: []cairn.Tool{refund},
		DeferAbove: 1, // token; the default is that of a list which is worth a search
		Hooks: &cairn.Hooks{
			BeforeModel: func(ctx context.Context, step *cairn.Step, req *cairn.Request) error {
				fmt.Println("listed:", req.Tools[0].Name, req.Tools[1].Name)
				return nil
			},
			BeforeTool: func(ctx context.Context, call *cairn.Call) error {
				fmt.Println("called:", call.Tool, string(call.Input))
				return nil
			},
		}}

	fmt.Println(converse(agent, "I want my money back for order 42.").Text)
	// Output:
	// listed: tools__find tools__call
	// called: tools__find {"query":"give money back"}
	// listed: tools__find tools__call
	// called: refund_order {"id":42}
	// listed: tools__find tools__call
	// You get your money back.
}
