package crosshost_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/traces"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

// tracedVar, if set, makes the test binary a process that begins the turn in the database that it names, and exports its
// spans to the collector that collectorVar names.
const (
	tracedVar    = "CAIRN_TEST_TRACED"
	collectorVar = "CAIRN_TEST_COLLECTOR"
)

// caller is the span that begins the turn.
const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// support is the cast of the golden file of package traces.
func support() *cairn.Agent {
	find := cairn.Func("find_order", "Finds an order.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "order 7", nil })
	refund := cairn.Func("refund", "Refunds an order.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		return "", errors.New("the bank is closed")
	}, cairn.RequireApproval())
	reader := agent("reader", []scripted.Step{scripted.Text("30 days.").Usage(30, 3)})
	return agent("support", []scripted.Step{
		scripted.Reply(scripted.Call("find_order", struct{}{}).ID("call_find"), scripted.Call("reader", map[string]string{"input": "refunds"}).ID("call_read")).Usage(100, 10),
		scripted.Call("refund", struct{}{}).ID("call_refund").Usage(200, 20),
		scripted.Text("The bank is closed.").Usage(300, 30),
	}, find, refund, cairn.SubAgent(reader))
}

// traced is the life of the process that begins the turn.
func traced(database string) error {
	st, err := sqlitestore.Open(database, nil)
	if err != nil {
		return err
	}
	eng, err := engine.New(st, []*cairn.Agent{support()}, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv(collectorVar)+"/v1/traces"))
	if err != nil {
		return err
	}
	x, err := traces.New(eng, to, exports)
	if err != nil {
		return err
	}
	if err := ask(ctx, eng); err != nil {
		return err
	}
	return x.Run(ctx)
}

var exports = &traces.Options{Interval: 20 * time.Millisecond, LeaseTTL: 300 * time.Millisecond}

// ask begins the turn and waits until it is suspended.
func ask(ctx context.Context, eng *engine.Engine) error {
	run, err := eng.Execute(ctx, "s", "support", cairn.Text("Where is my order? Refund it."), engine.WithUser("ann"), engine.WithTags("gold"),
		engine.WithTraceParent(caller))
	if err != nil {
		return err
	}
	_, err = run.Wait(ctx)
	return err
}

// A turn waits for an approval, and its process is killed or ends. Another host resumes it. The collector receives the
// spans of the golden file of package traces, as if the turn had stayed in one host. An exporter that has no records, in a
// process without hosts, sends them all again, with the same ids and content.
func TestTurnIsOneTraceOnAllHosts(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "traces", "testdata", "turn.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := hosts(t)
	for _, way := range [][]hosttest.Host{{{}, all[1]}, {{}, all[2]}, {all[1], all[2]}, {all[2], all[1]}} {
		t.Run(cmp.Or(way[0].Name, "killed")+"-"+way[1].Name, func(t *testing.T) {
			t.Parallel()
			c := otlptest.New(t, nil)
			file := filepath.Join(t.TempDir(), "cairn.db")
			start := func(h hosttest.Host) (*engine.Engine, *traces.Exporter) {
				t.Helper()
				eng := h.Start(t, handle(t, file, nil), []*cairn.Agent{support()}, &engine.Options{})
				x, err := traces.New(eng, c.Exporter(t), exports)
				if err != nil {
					t.Fatal(err)
				}
				return eng, x
			}
			if way[0].Start == nil { // another process
				kill := startLife(t, tracedVar+"="+file, collectorVar+"="+c.URL)
				testclock.Await(t, "the first run to be exported", func() bool { return c.Received() >= 7 })
				kill()
			} else {
				eng, x := start(way[0])
				if err := errors.Join(ask(t.Context(), eng), x.Flush(t.Context()), eng.Close(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			answer(t, handle(t, file, nil))
			eng, x := start(way[1])
			run, err := eng.Resume(t.Context(), "s")
			if res := outcome(t, run, err); res.Status != cairn.RunCompleted {
				t.Fatalf("%+v", res)
			}
			if err := errors.Join(x.Flush(t.Context()), eng.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			if got := c.Describe(); got != string(golden) {
				t.Errorf("the spans differ from the golden file:\n%s", got)
			}
			again(t, c, handle(t, file, nil))
		})
	}
}

// again exports everything again.
func again(t *testing.T, c *otlptest.Collector, st driver.Store) {
	t.Helper()
	eng := inProcess(t, st, nil, &engine.Options{})
	records, err := eng.Records().List(t.Context(), store.RecordQuery{Namespace: driver.TraceRecords})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records.Items {
		if err := eng.Records().Delete(t.Context(), driver.TraceRecords, r.Key, store.AnyVersion); err != nil && !errors.Is(err, cairn.ErrNotFound) { // a lease ends by itself
			t.Fatal(err)
		}
	}
	before, spans := c.Received(), len(c.Spans())
	x, err := traces.New(eng, c.Exporter(t), exports)
	if err == nil {
		err = errors.Join(x.Flush(t.Context()), eng.Close(t.Context()))
	}
	if err != nil || c.Received() != before+spans || len(c.Spans()) != spans || len(c.Changed()) > 0 {
		t.Errorf("%d of %d spans came again, %d in all, of them changed: %q; %v", c.Received()-before, spans, len(c.Spans()), c.Changed(), err)
	}
}
