package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
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

// measured opens an engine in memory for a benchmark.
func measured(b *testing.B, st store.Store, agent *cairn.Agent) *engine.Engine {
	b.Helper()
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = eng.Close(context.Background()) })
	b.ReportAllocs()
	return eng
}

// whole executes a turn to its end.
func whole(b *testing.B, eng *engine.Engine, session string) {
	b.Helper()
	run, err := eng.Execute(b.Context(), session, "bot", cairn.Text("go"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := run.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSteps measures a turn of twenty steps with a tool call, in a new session that is erased.
func BenchmarkSteps(b *testing.B) {
	tool := cairn.Func("tool", "Works.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "ok", nil })
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) > 40 {
			return scripted.Text("done")
		}
		return scripted.Call("tool", struct{}{})
	})
	eng := measured(b, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model, Tools: []cairn.Tool{tool}})
	for b.Loop() {
		whole(b, eng, "s")
		if err := eng.Erase(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream measures a turn whose answer comes in two hundred deltas, in a new session that is erased.
func BenchmarkStream(b *testing.B) {
	deltas := make([]scripted.Step, 200)
	for i := range deltas {
		deltas[i] = scripted.Text("word ")
	}
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Reply(deltas...) })
	eng := measured(b, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model})
	for b.Loop() {
		whole(b, eng, "s")
		if err := eng.Erase(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeover measures how a run is taken over whose process died before its model answered, to its end.
func BenchmarkTakeover(b *testing.B) {
	st := memstore.New(nil)
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("done") })
	eng := measured(b, st, &cairn.Agent{Name: "bot", Model: model})
	for b.Loop() {
		_, err := st.Commit(b.Context(), "s", &driver.Commit{Create: &cairn.Session{Agent: "bot"}, Status: cairn.SessionActive,
			StartRun: &cairn.Run{ID: "run", Agent: "bot", Kind: cairn.RunExecute, Status: cairn.RunRunning},
			Messages: []cairn.Message{{ID: "m", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("go")}}},
			Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "dead"}})
		if err != nil {
			b.Fatal(err)
		}
		run, err := eng.Resume(b.Context(), "s")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := eng.Erase(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot measures a read of a session after ten turns.
func BenchmarkSnapshot(b *testing.B) {
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("done") })
	eng := measured(b, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model})
	for range 10 {
		whole(b, eng, "s")
	}
	for b.Loop() {
		if _, err := eng.Snapshot(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswer streams a reply of 200 chunks, one each millisecond, to a log whose appends take a while. It reports
// how long the model's stream takes and how many appends there are.
func BenchmarkAnswer(b *testing.B) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} {
		b.Run("append="+delay.String(), func(b *testing.B) {
			st := tapOn(nil)
			var appends atomic.Int64
			st.log.stepIn(func(context.Context, []cairn.Event) error {
				appends.Add(1)
				testclock.Deaf(delay)
				return nil
			})
			model := &chatty{chunks: 200}
			eng, err := engine.New(st, []*cairn.Agent{bot(model)}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer eng.Close(context.Background())
			var stream time.Duration
			for b.Loop() {
				model.read = make(chan struct{})
				began := time.Now()
				run, err := eng.Execute(b.Context(), "session", "bot", cairn.Text("go"))
				if err != nil {
					b.Fatal(err)
				}
				<-model.read
				stream += time.Since(began)
				if _, err := run.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(stream.Seconds()*1000/float64(b.N), "ms-stream")
			b.ReportMetric(float64(appends.Load())/float64(b.N), "appends/op")
		})
	}
}
