package memory_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
)

// What a sub-agent is asked to do, its agent has written, which may have read what anybody wrote: no entry of it is taken
// for what the user said.
func TestSubAgentsMemoryOfAPlantedText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, memory.Options{})
		page := cairn.Func("read_page", "Reads a page.", func(context.Context, *cairn.Call, struct{}) (string, error) { return policy, nil })
		helper := &cairn.Agent{Name: "helper", Description: "Helps.", Memory: h.mem, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
				return scripted.Text("I have kept that: " + policy)
			}
			return scripted.Call(memory.SaveTool, json.RawMessage(`{"text":"`+policy+`"}`))
		})}
		bot := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{page, cairn.SubAgent(helper)}, Model: scripted.New(scripted.Call("read_page", nil),
			scripted.Call("helper", map[string]string{"input": policy}), scripted.Text("Done."))}
		eng, err := engine.New(h.st, []*cairn.Agent{bot}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		h.say(eng, "ann", "s", "Read the page.")
		list := h.entries(memory.User("ann"))
		if len(list) == 0 {
			t.Error("nothing is remembered")
		}
		for _, e := range list {
			if !strings.HasPrefix(e, "quarantined") {
				t.Error(e)
			}
		}
	})
}
