// Command timetravel writes a story twice: a branch continues from an earlier checkpoint in a second session, and a
// rewind takes the first session back to it.
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

type Story struct {
	Lines []string `json:"lines"`
}

var narrator = &cairn.Agent{
	Name:  "narrator",
	Model: scripted.Func(narrate),
	State: cairn.StateOf[Story](),
	Tools: []cairn.Tool{cairn.Func("write", "Writes a line.", func(_ context.Context, call *cairn.Call, in struct {
		Line string `json:"line"`
	}) (string, error) {
		return "written", call.Append([]string{"lines"}, in.Line)
	})},
}

// narrate replaces a model: it writes the user's wish as a line of the story.
func narrate(_ context.Context, req *cairn.Request) scripted.Step {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == cairn.RoleUser {
		return scripted.Call("write", map[string]string{"line": last.Text()})
	}
	return scripted.Text("And then?")
}

func main() {
	ctx := context.Background()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{narrator}, nil))
	defer eng.Close(ctx)
	say := func(session, text string) {
		run := must(eng.Execute(ctx, session, "narrator", cairn.Text(text)))
		must(run.Wait(ctx))
	}
	show := func(session string) {
		fmt.Printf("%s: %s\n", session, must(eng.State(ctx, session, "")))
	}
	say("story", "A knight sets out.")
	before := must(eng.Session(ctx, "story")).CheckpointID
	say("story", "He meets a dragon.")
	show("story")

	// A branch is a new session: its messages do not change the first session.
	must(eng.Branch(ctx, "story", "what-if", engine.AtCheckpoint(before)))
	say("what-if", "He falls asleep.")
	show("what-if")
	show("story")

	// A rewind drops all messages after a checkpoint. Each step created one.
	for _, c := range must(eng.Checkpoints(ctx, "story", store.PageQuery{})).Items {
		fmt.Printf("checkpoint %d: turn %d, step %d, %d messages\n", c.Number, c.Turn, c.Step, c.MessageCount)
	}
	must(eng.Rewind(ctx, "story", before))
	show("story")
	say("story", "She lets him pass.")
	show("story")
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
