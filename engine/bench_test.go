package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// BenchmarkTurn measures a whole turn in memory: a new session, two model calls and one tool, from Execute to the
// result, and the session's deletion.
func BenchmarkTurn(b *testing.B) {
	type sum struct{ A, B int }
	add := cairn.Func("add", "Adds two numbers.", func(_ context.Context, _ *cairn.Call, in sum) (int, error) {
		return in.A + in.B, nil
	})
	call, answer := scripted.Call("add", sum{1, 2}), scripted.Text("The sum is three.")
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return answer
		}
		return call
	})
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "adder", Model: model, Tools: []cairn.Tool{add}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		run, err := eng.Execute(b.Context(), "session", "adder", cairn.Text("1 + 2?"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := eng.Erase(b.Context(), "session"); err != nil { // or the heap grows with b.N
			b.Fatal(err)
		}
	}
}
