// Command guard checks an agent's replies against a rule, and observes the agent with hooks.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type lookup struct {
	Order int `json:"order"`
}

var support = &cairn.Agent{
	Name: "support",
	Model: scripted.New(
		scripted.Call("lookup", lookup{42}),
		scripted.Text("I promise that it arrives tomorrow.").Usage(90, 8),
		scripted.Text("It is on its way.").Usage(110, 6),
	),
	Tools: []cairn.Tool{cairn.Func("lookup", "Looks up an order.", func(_ context.Context, _ *cairn.Call, in lookup) (string, error) {
		return fmt.Sprintf("order %d was shipped", in.Order), nil
	})},
	Guard: noPromises,
	Hooks: &cairn.Hooks{
		BeforeTool: func(_ context.Context, call *cairn.Call) error {
			fmt.Printf("calls %s(%s)\n", call.Tool, call.Input)
			return nil // an error would be the call's result
		},
		AfterModel: func(_ context.Context, step *cairn.Step, reply *cairn.Message, _ cairn.Usage) {
			fmt.Printf("step %d: %q\n", step.Number, reply.Text())
		},
		RunComplete: func(_ context.Context, step *cairn.Step, r *cairn.Result) {
			fmt.Printf("%s after %d steps and %d tokens\n", step.SessionID, r.Steps, r.Usage.InputTokens+r.Usage.OutputTokens)
		},
	},
}

// noPromises judges each completion that would end a turn.
func noPromises(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
	if strings.Contains(c.Text, "promise") {
		return cairn.SendBack("Make no promises. Say it again without."), nil
	}
	return cairn.Accept(), nil
}

func main() {
	ctx := context.Background()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{support}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Where is order 42?"))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
}
