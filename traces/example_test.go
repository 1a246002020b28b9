package traces_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/traces"
)

func ExampleNew() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("Hello.").Usage(12, 2))}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	to := tracetest.NewInMemoryExporter() // in a program: otlptracehttp.New(ctx)
	x, err := traces.New(eng, to, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	run, _ := eng.Execute(ctx, "s", "support", cairn.Text("hi"))
	_, _ = run.Wait(ctx)
	if err := x.Flush(ctx); err != nil { // a program calls x.Run
		fmt.Println(err)
	}
	for _, span := range to.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// chat scripted
	// invoke_agent support
}
