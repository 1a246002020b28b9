// Command skills gives an agent instructions that it loads when a task needs them.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
	"github.com/cairn-agents/cairn/store/memstore"
)

//go:embed skills
var files embed.FS // skills/refunds/SKILL.md, and a file that it refers to

func agent() (*cairn.Agent, error) {
	skills, err := skill.New([]skill.Provider{
		skill.FS(files),
		skill.Define(skill.Skill{
			Info: skill.Info{Name: "tone", Description: "How to write to customers."},
			Body: "Write short sentences. Never promise a date.",
		}, nil),
	}, &skill.Options{Preload: []string{"tone"}})
	if err != nil {
		return nil, err
	}
	return &cairn.Agent{
		Name: "support",
		Model: scripted.New(
			scripted.Call("load_skill", map[string]string{"name": "refunds"}),
			scripted.Call("read_skill_file", map[string]string{"skill": "refunds", "path": "limits.md"}),
			scripted.Text("Yes. Up to 50 euros need no approval."),
		),
		Toolsets: []cairn.Toolset{skills},
	}, nil
}

func main() {
	ctx := context.Background()
	support, err := agent()
	if err != nil {
		log.Fatal(err)
	}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{support}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("May I refund 30 euros?"))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case ev.Type == cairn.EventSkillLoaded:
			fmt.Println("loaded", ev.Name)
		}
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
}
