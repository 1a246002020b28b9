// Command workspace gives an agent a directory of files and a shell, which outlast the process.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

// replies stand for a model that sorts a list of names, and shows it in the next turn.
var replies = []scripted.Step{
	scripted.Call("workspace_shell", map[string]any{"command": "sort names.txt > sorted.txt && wc -l < sorted.txt"}),
	scripted.Text("I have sorted the names."),
	scripted.Call("workspace_read", map[string]any{"path": "sorted.txt"}),
	scripted.Text("Here they are."),
}

func agent(st store.Store, dir string) (*cairn.Agent, error) {
	sandbox, err := workspace.Bubblewrap(dir, nil)
	if err != nil {
		return nil, err
	}
	files, err := workspace.New(st, sandbox, &workspace.Options{
		Approve:  []string{`\bgit\s+push\b`}, // a person approves these commands
		Manifest: workspace.Manifest{Files: map[string]string{"names.txt": "Zoe\nAnn\nBob\n"}},
	})
	if err != nil {
		return nil, err
	}
	return &cairn.Agent{Name: "clerk", Model: scripted.New(replies...), Workspace: files}, nil
}

func main() {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "clerk-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil { // for the user of the sandbox
		log.Fatal(err)
	}
	st := memstore.New(nil)
	say(ctx, st, filepath.Join(base, "machine-1"), "Sort the names, please.")
	replies = replies[2:]
	say(ctx, st, filepath.Join(base, "machine-2"), "Show them to me.")
}

// say has one turn in an engine with directories of its own, as a process on another machine would.
func say(ctx context.Context, st store.Store, dir, text string) {
	clerk, err := agent(st, dir)
	if err != nil {
		log.Fatal(err)
	}
	eng, err := engine.New(st, []*cairn.Agent{clerk}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "names", "clerk", cairn.Text(text))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Type == cairn.EventToolEnd {
			fmt.Printf("%s: %s\n", ev.Tool, ev.Data)
		}
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
}
