package temporalhost_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

var record = flag.Bool("record", false, "write the histories of testdata anew")

// TestRecord plays the turns of the recorded histories. It writes them only on request: the recorded ones show that
// today's code replays workflows begun by earlier code.
func TestRecord(t *testing.T) {
	t.Parallel()
	c := connect(t)
	tool := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func(name, "Does it.", func(context.Context, *cairn.Call, in) (string, error) { return name, nil }, opts...)
	}
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("look", in{}), scripted.Text("found")), Tools: []cairn.Tool{tool("look")}}
	delegate := scripted.Call("helper", map[string]string{"input": "look"})
	for name, turn := range map[string]struct {
		model cairn.Model
		tools []cairn.Tool
		want  cairn.RunStatus
	}{
		"reply": {scripted.New(scripted.Text("hello")), nil, cairn.RunCompleted},
		"tools": {scripted.New(scripted.Reply(scripted.Call("one", in{}), scripted.Call("two", in{}), scripted.Call("end", in{}))),
			[]cairn.Tool{tool("one"), tool("two"), tool("end", cairn.FinishWith())}, cairn.RunCompleted},
		"child":     {scripted.New(delegate, scripted.Text("done")), []cairn.Tool{cairn.SubAgent(helper)}, cairn.RunCompleted},
		"waits":     {scripted.New(scripted.Call("pay", in{})), []cairn.Tool{tool("pay", cairn.RequireApproval())}, cairn.RunSuspended},
		"continues": {rounds(4), []cairn.Tool{tool("note")}, cairn.RunCompleted},
		"fails":     {scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "no"))), nil, cairn.RunFailed},
		"judged":    {rounds(1), []cairn.Tool{tool("note")}, cairn.RunCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := &cairn.Agent{Name: "bot", Model: turn.model, Tools: turn.tools}
			if name == "judged" {
				agent.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
					return cairn.Accept(), nil
				}
				agent.Hooks = &cairn.Hooks{RunComplete: func(context.Context, *cairn.Step, *cairn.Result) {}}
			}
			eng := play(t, c, memstore.New(nil), agent, temporalhost.Options{StepsPerRun: 3})
			res, _ := execute(t, eng).Wait(t.Context())
			if res == nil || res.Status != turn.want {
				t.Fatalf("the turn came to %+v, want %s", res, turn.want)
			}
			if !*record {
				return
			}
			for i, events := range histories(t, c) {
				raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(&historypb.History{Events: events})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join("testdata", fmt.Sprintf("%s-%d.json", name, i+1)), raw, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
