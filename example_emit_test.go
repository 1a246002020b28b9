package cairn_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleStep_Emit() {
	type place struct {
		City string `json:"city"`
	}
	type progress struct {
		Percent int `json:"percent"`
	}
	report := cairn.Func("report", "Write a report.", func(_ context.Context, call *cairn.Call, in place) (string, error) {
		for percent := 0; percent <= 100; percent += 50 {
			if err := call.Emit("progress", progress{percent}, cairn.EmitID("report")); err != nil {
				return "", err
			}
		}
		return "It rains in " + in.City, nil
	})
	model := scripted.New(scripted.Call("report", place{"Oslo"}), scripted.Text("Done."))
	agent := &cairn.Agent{Name: "reporter", Model: model, Tools: []cairn.Tool{report}}
	ctx := context.Background()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "reporter", cairn.Text("How is the weather?"))
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := eng.Messages(ctx, "s", 2, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range messages[0].ToolResults()[0].Data { // only the last of its id is kept
		fmt.Println(d.Name, d.ID, string(d.Value))
	}
	// Output:
	// progress report {"percent":100}
}
