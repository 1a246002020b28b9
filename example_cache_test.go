package cairn_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// converse runs one turn of an agent and returns its outcome.
func converse(agent *cairn.Agent, text string) *cairn.Result {
	eng, res := turn(agent, text)
	defer eng.Close(context.Background())
	return res
}

// asked runs one turn of an agent, which suspends, and returns the call that is pending.
func asked(agent *cairn.Agent, text string) *cairn.PendingCall {
	ctx := context.Background()
	eng, res := turn(agent, text)
	defer eng.Close(ctx)
	call, err := eng.Call(ctx, res.SessionID, res.Suspended.Calls[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	return call
}

// turn runs one turn of an agent.
func turn(agent *cairn.Agent, text string) (*engine.Engine, *cairn.Result) {
	ctx := context.Background()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		log.Fatal(err)
	}
	run, err := eng.Execute(ctx, "session-1", agent.Name, cairn.Text(text))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return eng, res
}

func ExampleCache() {
	type city struct {
		Name string `json:"name"`
	}
	weather := cairn.Func("weather", "The weather in a city.",
		func(ctx context.Context, call *cairn.Call, in city) (string, error) {
			fmt.Println("asking the weather service about", in.Name)
			return "sunny", nil
		}, cairn.Cache(cairn.CachePolicy{TTL: 10 * time.Minute}))
	agent := &cairn.Agent{Name: "guide", Tools: []cairn.Tool{weather}, Model: scripted.New(
		scripted.Call("weather", city{"Rome"}), scripted.Call("weather", city{"Rome"}), scripted.Text("Still sunny."))}

	res := converse(agent, "Look at the weather in Rome twice.")
	fmt.Println(res.Text, res.Usage.ToolCalls, "calls,", res.Usage.ToolCacheHits, "from the cache")
	// Output:
	// asking the weather service about Rome
	// Still sunny. 2 calls, 1 from the cache
}

func ExampleStep_SwitchTools() {
	type order struct {
		ID int `json:"id"`
	}
	// One refund is all that a session gets.
	refund := cairn.Func("refund", "Refund an order.", func(ctx context.Context, call *cairn.Call, in order) (string, error) {
		return fmt.Sprintf("order %d refunded", in.ID), call.SwitchTools(map[string]bool{"refund": false})
	})
	agent := &cairn.Agent{Name: "support", Tools: []cairn.Tool{refund},
		Model: scripted.New(scripted.Call("refund", order{42}), scripted.Call("refund", order{43}), scripted.Text("One is refunded.")),
		Hooks: &cairn.Hooks{AfterTool: func(ctx context.Context, call *cairn.Call, result *cairn.ToolResult) {
			fmt.Println(string(result.Output), result.IsError)
		}}}

	fmt.Println(converse(agent, "Both, please.").Text)
	// Output:
	// "order 42 refunded" false
	// "the tool \"refund\" is switched off" true
	// One is refunded.
}
