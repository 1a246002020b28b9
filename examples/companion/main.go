// Command companion has an agent work in the background. The user's turn ends at once, and the companion's result
// becomes part of the conversation at the next step.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

var scout = &cairn.Agent{
	Name:        "scout",
	Description: "Looks things up. Takes a while.",
	Model:       scripted.New(scripted.Text("The parcel is in Lisbon.")),
}

var clerk = &cairn.Agent{
	Name:       "clerk",
	Model:      model,
	Companions: []cairn.Companion{{Agent: scout, Mode: cairn.NonBlocking}},
}

// model replaces a real model, which would read the descriptions of the tools and choose these calls itself.
var model = scripted.New(
	scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "scout", "name": "sam", "message": "Where is the parcel?"}),
	scripted.Text("Sam is looking for it."),
	scripted.Text("Sam says that it is in Lisbon."),
)

func main() {
	ctx := context.Background()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{clerk}, nil))
	defer eng.Close(ctx)
	say(ctx, eng, "Where is my parcel?")

	// The companion has its own session and its own run.
	children := must(eng.Sessions(ctx, store.SessionQuery{ParentID: "session-1"}))
	sam := children.Items[0]
	report := must(must(eng.Attach(ctx, sam.ID)).Wait(ctx))
	fmt.Printf("%s, a %s: %s\n", sam.Name, sam.Kind, report.Text)
	say(ctx, eng, "And now?")
}

func say(ctx context.Context, eng *engine.Engine, text string) {
	run := must(eng.Execute(ctx, "session-1", "clerk", cairn.Text(text)))
	fmt.Println(must(run.Wait(ctx)).Text)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
