// Command nested has a planner consult a researcher, which consults an archive. The planner also has a critic as a
// companion, whose session keeps earlier messages. The archive asks the planner's user: the whole tree is suspended,
// and then resumed.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

var archive = &cairn.Agent{Name: "archive", Description: "Finds documents.",
	Model: scripted.New(scripted.Call("which_year", nil), scripted.Text("In 1999 the shop sold 12 lamps.")),
	Tools: []cairn.Tool{cairn.ClientTool[struct{}, int]("which_year", "Asks the user for a year.")}}

var researcher = &cairn.Agent{Name: "researcher", Description: "Answers questions about the shop.",
	Model: scripted.New(scripted.Call("archive", ask("lamps sold")), scripted.Text("12 lamps, says the archive.")),
	Tools: []cairn.Tool{cairn.SubAgent(archive)}}

var critic = &cairn.Agent{Name: "critic", Description: "Judges drafts, and remembers them.",
	Model: scripted.New(scripted.Text("Too short."), scripted.Text("Better than the first draft."))}

var planner = &cairn.Agent{Name: "planner", Tools: []cairn.Tool{cairn.SubAgent(researcher)},
	Companions: []cairn.Companion{{Agent: critic}},
	Model: scripted.New(
		scripted.Call("researcher", ask("How many lamps were sold?")),
		scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "critic", "name": "carl", "message": "Draft: 12 lamps."}),
		scripted.Call(cairn.CompanionSend, map[string]string{"name": "carl", "message": "Draft: 12 lamps, in 1999."}),
		scripted.Text("In 1999 the shop sold 12 lamps."))}

// ask returns the arguments of a sub-agent's tool.
func ask(task string) map[string]string { return map[string]string{"input": task} }

func main() {
	ctx := context.Background()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{planner}, nil))
	defer eng.Close(ctx)
	run := must(eng.Execute(ctx, "session-1", "planner", cairn.Text("How did we do?")))
	res := must(run.Wait(ctx))
	for _, call := range res.Suspended.Calls { // of the whole tree; answers go to the root
		fmt.Println(res.Status, "for", call.Tool)
		must(eng.Submit(ctx, call.RootID, cairn.Answer(call, 1999)))
	}
	run = must(eng.Resume(ctx, "session-1"))
	for ev, err := range run.Events(ctx) { // including events of its children
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
