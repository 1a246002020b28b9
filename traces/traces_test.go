package traces_test

import (
	"context"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/traces"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

var golden = flag.Bool("golden", false, "write the golden files")

// compare compares a text with a golden file.
func compare(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *golden {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs:\n%s", file, text)
	}
}

// open opens the store of a scenario with an engine and an exporter to the collector.
func open(t *testing.T, file string, c *otlptest.Collector, opts *traces.Options) (*engine.Engine, *traces.Exporter) {
	t.Helper()
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	eng, err := engine.New(st, cast(), options(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(t.Context()) })
	x, err := traces.New(eng, c.Exporter(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return eng, x
}

// must ends the test on an error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A turn consults a sub-agent, calls a tool and waits for an approval. Its process is killed while it waits. Another one
// resumes it: the turn is one trace, below the caller's span, whose spans have the times that the store recorded.
func TestTurnThatOutlivesItsProcess(t *testing.T) {
	c := otlptest.New(t, nil)
	file := filepath.Join(t.TempDir(), "cairn.db")
	kill(start(t, "ask", file, c.URL, true))
	eng, x := open(t, file, c, tracing())
	ctx := t.Context()

	page := must(eng.Inbox(ctx, store.CallQuery{}))(t)
	must(eng.Submit(ctx, "s", cairn.Approve(cairn.CallRef{ID: page.Items[0].ID, ApprovalID: page.Items[0].ApprovalID})))(t)
	run := must(eng.Resume(ctx, "s"))(t)
	if res := must(run.Wait(ctx))(t); res.Status != cairn.RunCompleted {
		t.Fatalf("%+v", res)
	}
	flushed(t, x)
	compare(t, "turn.txt", c.Describe())

	runs := must(eng.Runs(ctx, "s", store.PageQuery{}))(t)
	for _, r := range runs.Items {
		for _, s := range c.Spans() {
			if otlptest.Attribute(s, "cairn.run.id") == r.ID && otlptest.Attribute(s, "gen_ai.operation.name") == "invoke_agent" &&
				(int64(s.StartTimeUnixNano) != r.StartedAt.UnixNano() || int64(s.EndTimeUnixNano) != r.EndedAt.UnixNano()) {
				t.Errorf("run %d from %s to %s has the span %v", r.Turn, r.StartedAt, r.EndedAt, s)
			}
		}
	}
	before := c.Received()
	if err := x.Flush(ctx); err != nil || c.Received() != before {
		t.Errorf("%d spans were sent again: %v", c.Received()-before, err)
	}
	forgotten := must(eng.Records().List(ctx, store.RecordQuery{Namespace: driver.TraceRecords, Prefix: "tree_"}))(t)
	if len(forgotten.Items) != 1 || strings.Contains(string(forgotten.Items[0].Value), "ann") {
		t.Errorf("%v", forgotten)
	}
	if err := eng.Erase(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if left := must(eng.Records().List(ctx, store.RecordQuery{Namespace: driver.TraceRecords, Prefix: "tree_"}))(t); len(left.Items) > 0 {
		t.Errorf("an erased tree left %v", left.Items)
	}
}

// flushed exports until this exporter has had the right to do so.
func flushed(t *testing.T, x *traces.Exporter) {
	t.Helper()
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// events yields the events of a session that are not void.
func events(t *testing.T, eng *engine.Engine, id string) iter.Seq[*cairn.Event] {
	t.Helper()
	var list []cairn.Event
	for at := (cairn.Cursor{}); ; {
		page := must(eng.History(t.Context(), id, at, 1000))(t)
		for _, ev := range page {
			if ev.Type == cairn.EventStepDiscarded {
				list = slices.DeleteFunc(list, func(earlier cairn.Event) bool { return ev.Voids(&earlier) && earlier.Type != cairn.EventRunEnd })
			}
			list = append(list, ev)
			at = ev.Cursor()
		}
		if len(page) < 1000 {
			break
		}
	}
	return func(yield func(*cairn.Event) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// settle works until no run of the sessions is in progress and none is queued.
func settle(t *testing.T, eng *engine.Engine, sessions []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Work(ctx) }()
	testclock.Await(t, "the sessions to rest", func() bool {
		for _, id := range sessions {
			if row := must(eng.Session(t.Context(), id))(t); row.Status == cairn.SessionActive || row.Queued > 0 {
				return false
			}
		}
		return true
	})
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
