package engine_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type refunds struct {
	Cents int    `json:"cents"`
	Note  string `json:"note"`
}

type amount struct {
	Cents int `json:"cents"`
}

// refund runs in parallel with other calls. Add counts the amounts of all of them.
func refund(_ context.Context, call *cairn.Call, in amount) (string, error) {
	return "refunded", call.Add([]string{"cents"}, in.Cents)
}

// report runs alone, and sees what the calls before it wrote.
func report(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
	return "written down", cairn.UpdateState(call, func(s *refunds) { s.Note = fmt.Sprintf("%d cents in all", s.Cents) })
}

func ExampleEngine_parallel() {
	ctx := context.Background()
	clerk := &cairn.Agent{
		Name:  "clerk",
		State: cairn.StateOf[refunds](),
		Tools: []cairn.Tool{
			cairn.Func("refund", "Refunds an amount.", refund),
			cairn.Func("report", "Writes down the sum.", report, cairn.Serial()),
		},
		Model: scripted.New(
			scripted.Reply(scripted.Call("refund", amount{300}), scripted.Call("refund", amount{400}), scripted.Call("report", struct{}{})),
			scripted.Text("Done.")),
	}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{clerk}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "clerk", cairn.Text("Refund both."))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	state, err := engine.StateAs[refunds](ctx, eng, "s")
	fmt.Println(state.Cents, state.Note, err)
	// Output:
	// 700 700 cents in all <nil>
}
