package dboshost_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// BenchmarkStep measures the cost of one more step, a model call and a tool: turns of 21 steps in memory against turns
// of one, in goroutines and on DBOS.
func BenchmarkStep(b *testing.B) {
	b.Run("inprocess", func(b *testing.B) {
		eng, err := engine.New(memstore.New(nil), []*cairn.Agent{busy()}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer eng.Close(context.Background())
		measureSteps(b, eng)
	})
	b.Run("sqlite", func(b *testing.B) {
		eng, _ := serve(b, "sqlite:"+filepath.Join(b.TempDir(), "dbos.db"), memstore.New(nil), []*cairn.Agent{busy()}, &engine.Options{}, nil)
		measureSteps(b, eng)
		eng.Close(context.Background())
	})
	b.Run("postgresql", func(b *testing.B) {
		eng, _ := serve(b, testenv.Postgres(b), memstore.New(nil), []*cairn.Agent{busy()}, &engine.Options{}, nil)
		measureSteps(b, eng)
		eng.Close(context.Background())
	})
}

// busy returns an agent that calls its tool as often as the user's text says.
func busy() *cairn.Agent {
	agent := worker(func(context.Context) (string, error) { return "worked", nil })
	agent.MaxSteps = moreSteps + 10
	agent.Model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		asked, calls := 0, 0
		for i := range req.Messages {
			if m := &req.Messages[i]; m.Role == cairn.RoleUser {
				asked, _ = strconv.Atoi(m.Text())
				calls = 0
			} else if m.Role == cairn.RoleTool {
				calls++
			}
		}
		if calls < asked {
			return scripted.Call("work", nothing{})
		}
		return scripted.Text("Done.")
	})
	return agent
}

const moreSteps = 20

func measureSteps(b *testing.B, eng *engine.Engine) {
	b.Helper()
	var times [2]time.Duration
	n := 0
	for b.Loop() {
		for i, steps := range []int{0, moreSteps} {
			began := time.Now()
			n++
			run, err := eng.Execute(b.Context(), "session-"+strconv.Itoa(n), "worker", cairn.Text(strconv.Itoa(steps)))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := run.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			times[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64((times[1]-times[0]).Microseconds())/float64(b.N*moreSteps), "µs/step")
	b.ReportMetric(float64(times[0].Microseconds())/float64(b.N), "µs/turn")
}
