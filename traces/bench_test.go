package traces_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/traces"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

// BenchmarkTurn compares turns on SQLite with and without an exporter to a collector in the same process: of two steps
// and a tool, whose model takes 20 ms for each reply. It alternates between both for a minute; on the busiest machine the
// medians are comparable.
func BenchmarkTurn(b *testing.B) {
	c := otlptest.New(b, nil)
	st, err := sqlitestore.Open(filepath.Join(b.TempDir(), "cairn.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "seen", nil })
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{look}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleUser {
			return scripted.Reply(scripted.Pause(20*time.Millisecond), scripted.Call("look", struct{}{}).Usage(100, 10))
		}
		return scripted.Reply(scripted.Pause(20*time.Millisecond), scripted.Text("I have seen it.").Usage(120, 12))
	})}
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.Background())
	x, err := traces.New(eng, c.Exporter(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	took := map[bool][]time.Duration{}
	turn := 0
	for b.Loop() {
		for block := range 20 {
			on := block%2 == 1
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if on {
					_ = x.Run(ctx)
				}
			}()
			for until := time.Now().Add(3 * time.Second); time.Now().Before(until); turn++ {
				began := time.Now()
				run, err := eng.Execute(ctx, fmt.Sprint("s", turn/20), "bot", cairn.Text("look"))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := run.Wait(ctx); err != nil {
					b.Fatal(err)
				}
				took[on] = append(took[on], time.Since(began))
			}
			stop()
			<-ended
		}
	}
	for on, name := range map[bool]string{false: "off", true: "on"} {
		list := took[on]
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds()), name+"-µs/turn")
		b.ReportMetric(float64(len(list)), name+"-turns")
	}
	b.ReportMetric(float64(c.Received()), "spans")
}
