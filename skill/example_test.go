package skill_test

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
	"github.com/cairn-agents/cairn/store/memstore"
)

//go:embed testdata/skills
var files embed.FS

func ExampleNew() {
	folder, _ := fs.Sub(files, "testdata/skills")
	skills, err := skill.New([]skill.Provider{skill.FS(folder)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := scripted.New(
		scripted.Call("load_skill", map[string]string{"name": "refunds"}),
		scripted.Call("read_skill_file", map[string]string{"skill": "refunds", "path": "limits.md"}),
		scripted.Text("Up to 50 euros need no approval."))
	agent := &cairn.Agent{Name: "support", Model: model, Toolsets: []cairn.Toolset{skills}}

	ctx := context.Background()
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(ctx)
	run, _ := eng.Execute(ctx, "session-1", "support", cairn.Text("May I refund 30 euros?"))
	for ev, err := range run.Events(ctx) {
		if err == nil && ev.Type == cairn.EventSkillLoaded {
			fmt.Println("loaded", ev.Name)
		}
	}
	res, _ := run.Wait(ctx)
	fmt.Println(res.Text)
	// Output:
	// loaded refunds
	// Up to 50 euros need no approval.
}

func ExampleDefine() {
	tone := skill.Define(skill.Skill{
		Info: skill.Info{Name: "tone", Description: "How to write to customers. Use it before each reply."},
		Body: "Write short sentences. Never promise a date.",
	}, nil)
	infos, err := tone.List(context.Background())
	fmt.Println(infos[0].Name, err)
	// Output: tone <nil>
}
