// Command mcp gives an agent the tools of an MCP server. The same program is the server, as "mcp server". One tool
// needs approval, and asks for an address during its call. Run mcp ask, then mcp answer for each of the two calls,
// possibly with days between.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// clerk returns an agent with the tools of a server. A real program would use a provider's model.
func clerk(server *mcp.Server) *cairn.Agent {
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == cairn.RoleTool {
			return scripted.Text("The shop says: " + string(last.ToolResults()[0].Output))
		}
		return scripted.Call("shop_ship", map[string]any{"order": 42})
	})
	return &cairn.Agent{Name: "clerk", Model: model, Toolsets: []cairn.Toolset{server}}
}

func main() {
	verb := strings.Join(os.Args[1:], " ")
	if !slices.Contains([]string{"ask", "answer", "server"}, verb) {
		fmt.Fprintln(os.Stderr, "usage: mcp ask | answer; first: go run ./examples/mcp ask")
		os.Exit(2)
	}
	ctx := context.Background()
	if verb == "server" {
		log.Fatal(serve(ctx))
	}
	// In a process with a single turn no earlier turn has listed the tools, so it waits for the server to start.
	server := must(mcp.Command("shop", []string{os.Args[0], "server"}, &mcp.Options{Approve: []string{"ship"}, Env: os.Environ(), ListTimeout: time.Minute}))
	defer server.Close()
	eng := must(engine.New(must(sqlitestore.Open("mcp.db", nil)), []*cairn.Agent{clerk(server)}, nil))
	defer eng.Close(ctx)
	switch verb {
	case "ask":
		report(eng.Execute(ctx, "session-1", "clerk", cairn.Text("Please ship order 42.")))
	case "answer":
		answer(ctx, eng)
		report(eng.Resume(ctx, "session-1"))
	}
}

// answer answers all calls in the inbox.
func answer(ctx context.Context, eng *engine.Engine) {
	for _, call := range must(eng.Inbox(ctx, store.CallQuery{})).Items {
		reply := cairn.Approve(call.CallRef)
		if call.Kind == cairn.CallQuestion {
			reply = cairn.Answer(call.CallRef, map[string]string{"street": "Elm Street 5"})
		}
		fmt.Printf("%s %q: %s\n", call.Kind, call.Prompt, must(eng.Submit(ctx, call.RootID, reply)).Outcome)
	}
}

func report(run *engine.Run, err error) {
	res := must(must(run, err).Wait(context.Background()))
	fmt.Println(res.Status, res.Text)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
