package scale

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// copied is how many sessions BenchCopy copies.
const copied = 2000

// BenchCopy measures copies of sessions of one turn from one store to another, each time to an empty one, which open
// opens.
func BenchCopy(b *testing.B, from driver.Importer, open func(testing.TB) driver.Importer) {
	fill(b, from)
	benchCopy(b, from, open)
}

// BenchCopyFrom measures copies of sessions of one turn from a store to memory: read together, and one by one.
func BenchCopyFrom(b *testing.B, from driver.Importer) {
	fill(b, from)
	memory := func(testing.TB) driver.Importer { return memstore.New(nil) }
	b.Run("together", func(b *testing.B) { benchCopy(b, from, memory) })
	b.Run("single", func(b *testing.B) { benchCopy(b, struct{ driver.Importer }{from}, memory) })
}

// fill makes the sessions that are copied.
func fill(b *testing.B, from driver.Importer) {
	bot := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text("Four words of text.")
	})}
	eng, err := engine.New(from, []*cairn.Agent{bot}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range copied {
		run, err := eng.Execute(b.Context(), fmt.Sprint("session-", i), "bot", cairn.Text("Say four words."))
		if err == nil {
			_, err = run.Wait(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := eng.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// benchCopy copies the sessions.
func benchCopy(b *testing.B, from driver.Importer, open func(testing.TB) driver.Importer) {
	roots := func(yield func(string, error) bool) {
		for i := 0; i < copied && yield(fmt.Sprint("session-", i), nil); i++ {
		}
	}
	var cost time.Duration
	for b.Loop() {
		b.StopTimer()
		to := open(b)
		b.StartTimer()
		began := spent()
		for t, err := range store.CopyTrees(b.Context(), from, to, roots) {
			if !t.Copied || t.Err != nil || err != nil {
				b.Fatalf("copy: %+v, %v", t, err)
			}
		}
		cost += spent() - began
	}
	b.ReportMetric(float64(copied*b.N)/b.Elapsed().Seconds(), "sessions/s")
	b.ReportMetric(float64(cost.Microseconds())/float64(copied*b.N), "µs-cpu/session")
	b.ReportMetric(0, "ns/op")
}
