package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

func ExampleNew() {
	ctx := context.Background()
	st := memstore.New(nil)
	files, err := workspace.New(st, workspace.Memory(), &workspace.Options{
		Tools:    []string{"read", "write", "edit"},
		Manifest: workspace.Manifest{Files: map[string]string{"draft.txt": "Helo, world."}},
	})
	if err != nil {
		panic(err)
	}
	writer := &cairn.Agent{Name: "writer", Workspace: files, Model: scripted.New(
		scripted.Call("workspace_edit", map[string]any{"path": "draft.txt", "old": "Helo", "new": "Hello"}),
		scripted.Call("workspace_read", map[string]any{"path": "draft.txt"}),
		scripted.Text("Done."),
	)}
	eng, err := engine.New(st, []*cairn.Agent{writer}, nil)
	if err != nil {
		panic(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "writer", cairn.Text("Correct the draft."))
	if err != nil {
		panic(err)
	}
	if _, err := run.Wait(ctx); err != nil {
		panic(err)
	}
	for m, err := range eng.AllMessages(ctx, "s") {
		if err != nil {
			panic(err)
		}
		for _, r := range m.ToolResults() {
			fmt.Printf("%s: %s\n", r.Tool, r.Output)
		}
	}
	// Output:
	// workspace_edit: "Replaced 1 in draft.txt."
	// workspace_read: "Hello, world."
}

// A program without the agents lists the files of a session.
func ExampleNewReader() {
	ctx, st := context.Background(), memstore.New(nil)
	files, err := workspace.New(st, workspace.Memory(), nil)
	if err != nil {
		panic(err)
	}
	writer := &cairn.Agent{Name: "writer", Workspace: files, Model: scripted.New(
		scripted.Call("workspace_write", map[string]any{"path": "draft.txt", "content": "Hello, world."}), scripted.Text("Done."))}
	eng, err := engine.New(st, []*cairn.Agent{writer}, nil)
	if err != nil {
		panic(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "writer", cairn.Text("Write a draft."))
	if err != nil {
		panic(err)
	}
	if _, err := run.Wait(ctx); err != nil {
		panic(err)
	}

	reader, err := workspace.NewReader(st)
	if err != nil {
		panic(err)
	}
	viewer, err := engine.New(st, nil, nil)
	if err != nil {
		panic(err)
	}
	defer viewer.Close(ctx)
	page, err := viewer.WorkspaceFiles(ctx, "s", engine.WorkspaceAt{Reader: reader}, "", store.PageQuery{})
	if err != nil {
		panic(err)
	}
	for _, f := range page.Items {
		fmt.Println(f.Path, f.Size)
	}
	// Output: draft.txt 13
}

func ExampleMemory() {
	fmt.Println(workspace.Memory().Info().Commands())
	// Output: false
}

func ExampleDir() {
	base, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(base)
	p, err := workspace.Dir(filepath.Join(base, "workspaces"))
	if err != nil {
		panic(err)
	}
	// Remove the directories of sessions that were not used for a week, instead of for a day.
	fmt.Println(p.Info().Name, p.Sweep(context.Background(), 7*24*time.Hour))
	// Output: dir <nil>
}

func ExampleBubblewrap() {
	_, err := workspace.Bubblewrap("", nil)
	fmt.Println(errors.Is(err, cairn.ErrInvalid))
	// Output: true
}

func ExampleContainer() {
	_, err := workspace.Container("/var/lib/app/workspaces", &workspace.ContainerOptions{Network: true})
	fmt.Println(err)
	// Output: image: is empty
}
