package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The request of each reply can be shown later, as it was, though the agent has changed; each block is stored once.
func TestRequestsOfReplies(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	tool := func(name, description string) cairn.Tool {
		return cairn.Func(name, description, func(context.Context, *cairn.Call, struct{}) (string, error) { return "ok", nil })
	}
	model := func(n int) cairn.Model {
		return scripted.New(scripted.Call("look", struct{}{}), scripted.Text(fmt.Sprint("reply ", n)), scripted.Text("more"), scripted.Text("even more"))
	}
	first := &cairn.Agent{Name: "bot", Instructions: "Be brief.", Model: model(1), Tools: []cairn.Tool{tool("look", "Looks."), tool("wait", "Waits.")},
		Compaction: &cairn.Compaction{Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("short") })}}
	eng := open(t, st, first)
	turn(t, eng, "s", "go")
	turn(t, eng, "s", "on")
	if _, err := eng.Compact(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "and on")
	changed := *first
	changed.Instructions, changed.Model, changed.Tools = "Be long.", model(2), []cairn.Tool{tool("look", "Looks twice."), tool("wait", "Waits.")}
	changed.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, _ *cairn.Step, req *cairn.Request) error {
		req.System += " And kind."
		return nil
	}}
	if err := eng.Replace(&changed); err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "again")

	var got []string
	blocks := map[string]int{}
	list := messages(t, st, "s")
	for i, m := range list {
		if m.Role != cairn.RoleAssistant {
			if m.Fingerprint != nil {
				t.Errorf("message %d has a fingerprint", i)
			}
			continue
		}
		if m.Public().Fingerprint != nil {
			t.Error("a user may see the fingerprint")
		}
		if m.Fingerprint != nil {
			for hash := range m.Fingerprint.Blocks {
				blocks[hash]++
			}
		}
		req, err := eng.Request(t.Context(), "s", i)
		if err != nil {
			t.Fatal(err)
		}
		var tools []string
		for _, s := range req.Tools {
			tools = append(tools, s.Name+": "+s.Description)
		}
		got = append(got, fmt.Sprintf("%d: %q %q messages %d to %d, summary %d, changed %t", i, req.Instructions, tools, req.First, req.Last, req.Summary, req.Changed))
	}
	before, after := `"Be brief." ["look: Looks." "wait: Waits."]`, `"Be long. And kind." ["look: Looks twice." "wait: Waits."]`
	want := []string{
		"1: " + before + " messages 0 to 0, summary 0, changed false",
		"3: " + before + " messages 0 to 2, summary 0, changed false",
		"5: " + before + " messages 0 to 4, summary 0, changed false",
		"8: " + before + " messages 5 to 7, summary 6, changed false",
		"10: " + after + " messages 5 to 9, summary 6, changed true",
		"12: " + after + " messages 5 to 11, summary 6, changed true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the requests are\n%q, want\n%q", got, want)
	}
	for hash, n := range blocks {
		if n != 1 {
			t.Errorf("block %s is stored %d times", hash, n)
		}
	}
	if len(blocks) != 2+3+2 { // instructions, tools, lists
		t.Errorf("%d blocks are stored", len(blocks))
	}
	_, err := eng.Request(t.Context(), "s", len(list))
	wantError(t, err, cairn.ErrNotFound)
	_, err = eng.Request(t.Context(), "s", 0)
	wantError(t, err, cairn.ErrInvalid)
}
