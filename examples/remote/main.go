// Command remote has an agent consult an agent of another server. The other agent asks for an approval, which the
// user of this program gives: pending calls of the other server are pending calls here as well.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

type refund struct {
	Order string `json:"order"`
}

// bank is the agent of the other server.
var bank = &cairn.Agent{Name: "bank",
	Model: scripted.New(scripted.Call("refund", refund{"A-7"}), scripted.Text("Order A-7 is refunded.")),
	Tools: []cairn.Tool{cairn.Func("refund", "Refunds an order.",
		func(context.Context, *cairn.Call, refund) (string, error) { return "done", nil }, cairn.RequireApproval())}}

// other returns the other server, with its own store.
func other() *httptest.Server {
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{bank}, nil))
	return httptest.NewServer(must(server.New(eng, &server.Options{AllowUnauthenticated: true})))
}

func main() {
	ctx := context.Background()
	srv := other()
	defer srv.Close()

	far := client.RemoteAgent(must(client.New(srv.URL, nil)), client.RemoteOptions{Name: "bank", Description: "Moves money."})
	clerk := &cairn.Agent{Name: "clerk", Tools: []cairn.Tool{cairn.SubAgent(far)},
		Model: scripted.New(scripted.Call("bank", map[string]string{"input": "Refund A-7."}), scripted.Text("It is done."))}
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{clerk}, nil))
	defer eng.Close(ctx)

	run := must(eng.Execute(ctx, "session-1", "clerk", cairn.Text("I want my money back.")))
	for _, call := range must(run.Wait(ctx)).Suspended.Calls { // including calls of agents on other servers
		fmt.Println("approved:", call.Tool, string(call.Input))
		must(eng.Submit(ctx, call.RootID, cairn.Approve(call)))
	}
	run = must(eng.Resume(ctx, "session-1"))
	for ev, err := range run.Events(ctx) {
		if ev := must(ev, err); ev.Type == cairn.EventSubagentEnd {
			fmt.Println(ev.Agent, "has an answer of", ev.Name+":", ev.Status)
		}
	}
	fmt.Println(must(run.Wait(ctx)).Text)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
