package cairn_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleCall_Attach() {
	chart := cairn.Func("chart", "Draws a chart of the orders.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		return "Orders by month.", call.Attach(cairn.File{Name: "orders.png", MediaType: "image/png", Data: []byte("…")})
	})
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		if last.CallID == "" {
			return scripted.Call("chart", struct{}{})
		}
		return scripted.Text("I see " + last.Parts[1].File.Name)
	})
	ctx := context.Background()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "analyst", Model: model, Tools: []cairn.Tool{chart}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "analyst", cairn.Text("How are the orders?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := run.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Text)
	// Output: I see orders.png
}
