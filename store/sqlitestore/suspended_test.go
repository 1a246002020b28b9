package sqlitestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type order struct {
	Order int `json:"order"`
}

// asking is an agent that asks for approval of a refund and completes when it is approved.
func asking() *cairn.Agent {
	refund := cairn.Func("refund", "Refunds an order.", func(_ context.Context, _ *cairn.Call, in order) (string, error) {
		return fmt.Sprint("refunded ", in.Order), nil
	}, cairn.RequireApproval(), cairn.WaitAtMost(7*24*time.Hour))
	return &cairn.Agent{Name: "support", Tools: []cairn.Tool{refund}, Model: forgetful{}}
}

// forgetful is a model that asks for the refund of order 42. Unlike a scripted model it keeps no requests.
type forgetful struct{}

func (forgetful) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: "forgetful"} }

func (forgetful) Stream(_ context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	chunks := []cairn.Chunk{{Type: cairn.ChunkToolStart, CallID: "1", Tool: "refund"}, {Type: cairn.ChunkToolArgs, CallID: "1", Text: `{"order":42}`}}
	if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
		chunks = []cairn.Chunk{{Type: cairn.ChunkText, Text: "It is done."}}
	}
	return func(yield func(cairn.Chunk, error) bool) {
		for _, c := range append(chunks, cairn.Chunk{Type: cairn.ChunkFinish}) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// asked returns a commit that leaves a session as a run of the asking agent does when it suspends for approval.
func asked(n int) (id string, c *driver.Commit) {
	id = fmt.Sprint("session-", n)
	run, step, call := fmt.Sprint("run_", n), fmt.Sprint("run_", n, "/1"), fmt.Sprint("call_", n)
	ref := cairn.CallRef{ID: call, RootID: id, SessionID: id, Kind: cairn.CallApproval, Tool: "refund", ApprovalID: fmt.Sprint("approval_", n)}
	input := json.RawMessage(`{"order":42}`)
	ref.Input, ref.Deadline = input, time.Now().Add(7*24*time.Hour)
	return id, &driver.Commit{
		Guard:  driver.Guard{New: true},
		Create: &cairn.Session{ID: id, Agent: "support", UserID: fmt.Sprint("user-", n%100)},
		StartRun: &cairn.Run{ID: run, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunSuspended, Reason: cairn.ReasonCalls, Steps: 1,
			Suspended: &cairn.Suspension{StepID: step, Calls: []cairn.CallRef{ref}}},
		Messages: []cairn.Message{{ID: run + "/in0", Role: cairn.RoleUser, RunID: run, Parts: []cairn.Part{cairn.TextPart("Order 42 arrived broken.")}},
			{ID: step + "/reply", Role: cairn.RoleAssistant, RunID: run, Parts: []cairn.Part{
				{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: call, Tool: "refund", Input: input}}}}},
		Step:       1,
		Checkpoint: &cairn.Checkpoint{ID: "cp_" + run, RunID: run, StepID: step, Step: 1},
		Status:     cairn.SessionPaused,
		Suspend:    &driver.Suspend{StepID: step, OpenCalls: 1, NextDeadline: ref.Deadline},
		Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: ref, RunID: run, StepID: step,
			Schema: define.Of(&asking().Tools[0]).Spec().Schema, Status: cairn.CallOpen}}},
	}
}

// BenchmarkSuspended measures what suspended sessions cost: opening a file that holds them, the first page of their
// inbox, and answering and resuming one.
func BenchmarkSuspended(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		file := filepath.Join(b.TempDir(), "cairn.db")
		ready := sync.OnceFunc(func() { suspend(b, file, n) }) // only if a sub-benchmark runs
		each := func(name string, fn func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/sessions=%d", name, n), func(b *testing.B) {
				ready()
				b.ResetTimer()
				fn(b)
			})
		}
		each("Open", func(b *testing.B) {
			for b.Loop() {
				_, _, closeAll := serve(b, file)
				closeAll()
			}
		})
		each("Inbox", func(b *testing.B) {
			_, eng, closeAll := serve(b, file)
			defer closeAll()
			for b.Loop() {
				page, err := eng.Inbox(b.Context(), driver.CallQuery{Limit: 10})
				if err != nil || len(page.Items) != 10 {
					b.Fatal(len(page.Items), err)
				}
			}
		})
		each("Resume", func(b *testing.B) {
			st, eng, closeAll := serve(b, file)
			defer closeAll()
			added := n
			for b.Loop() {
				id, c := asked(added) // another session for each one that is resumed
				added++
				resume(b, st, eng, id, c)
			}
		})
	}
}

// suspend fills a file with suspended sessions.
func suspend(tb testing.TB, file string, n int) {
	tb.Helper()
	st, err := sqlitestore.Open(file, &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	if err != nil {
		tb.Fatal(err)
	}
	defer st.Close()
	var group sync.WaitGroup
	const writers = 64
	for w := range writers {
		group.Go(func() {
			for i := w; i < n; i += writers {
				id, c := asked(i)
				if _, err := st.Commit(context.Background(), id, c); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// serve opens an engine on a file.
func serve(tb testing.TB, file string) (st *sqlitestore.Store, eng *engine.Engine, closeAll func()) {
	tb.Helper()
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	eng, err = engine.New(st, []*cairn.Agent{asking()}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return st, eng, func() {
		if err := eng.Close(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	}
}

// resume adds a suspended session, approves its call and waits for the resumed run.
func resume(tb testing.TB, st driver.Store, eng *engine.Engine, id string, c *driver.Commit) {
	tb.Helper()
	ctx := tb.Context()
	if _, err := st.Commit(ctx, id, c); err != nil {
		tb.Fatal(err)
	}
	if _, err := eng.Submit(ctx, id, cairn.Approve(c.Calls[0].Call.CallRef)); err != nil {
		tb.Fatal(err)
	}
	run, err := eng.Resume(ctx, id)
	if err != nil {
		tb.Fatal(err)
	}
	if res, err := run.Wait(ctx); err != nil || res.Status != cairn.RunCompleted {
		tb.Fatal(res, err)
	}
}

// TestSuspendedSessionsHoldNothing suspends many sessions in one process, and looks at what is left of them in memory.
func TestSuspendedSessionsHoldNothing(t *testing.T) {
	_, eng, closeAll := serve(t, filepath.Join(t.TempDir(), "cairn.db"))
	defer closeAll()
	suspendOne := func(i int) {
		run, err := eng.Execute(t.Context(), fmt.Sprint("session-", i), "support", cairn.Text("Order 42 arrived broken."))
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Reason != cairn.ReasonCalls {
			t.Fatal(res, err)
		}
	}
	const warm, more = 200, 400
	for i := range warm {
		suspendOne(i)
	}
	goroutines, heap := measure()
	for i := range more {
		suspendOne(warm + i)
	}
	after, grown := measure()
	if after > goroutines+8 { // readers of the pool come and go
		t.Errorf("%d goroutines, %d more suspended sessions later %d", goroutines, more, after)
	}
	if perSession := (int64(grown) - int64(heap)) / more; perSession > 256 {
		t.Errorf("%d bytes of heap are held per suspended session", perSession)
	}
}

// measure returns how many goroutines there are and how much of the heap is in use.
func measure() (goroutines int, heap uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// TestSuspendedSessionsCostNothing holds what BenchmarkSuspended measures to a limit: with many sessions that wait
// (100,000 in `make soak`) a file is opened, the first page of its inbox read, and one more session answered and
// resumed, in no more than three times what it takes with ten. The fastest of several tries counts, and that in one of
// several rounds, since the machine may be busy.
func TestSuspendedSessionsCostNothing(t *testing.T) {
	many := testenv.Choose(1_000, 100_000)
	for round := 0; ; round++ {
		few, dear := costs(t, 10), ""
		for name, took := range costs(t, many) {
			t.Logf("%s: %s with 10 sessions that wait, %s with %d", name, few[name], took, many)
			if took > 3*few[name]+time.Millisecond {
				dear += fmt.Sprintf("%s takes %s with %d sessions that wait, %s with 10\n", name, took, many, few[name])
			}
		}
		switch {
		case dear == "":
			return
		case round == 4:
			t.Fatal(dear)
		}
	}
}

// costs returns the shortest time of each operation on a file with so many sessions that wait.
func costs(t *testing.T, sessions int) map[string]time.Duration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cairn.db")
	suspend(t, file, sessions)
	shortest := map[string]time.Duration{}
	const tries = 15
	each := func(name string, do func(try int)) {
		for try := range tries {
			began := time.Now()
			do(try)
			if took := time.Since(began); try == 0 || took < shortest[name] {
				shortest[name] = took
			}
		}
	}
	each("open", func(int) {
		_, _, closeAll := serve(t, file)
		closeAll()
	})
	st, eng, closeAll := serve(t, file)
	defer closeAll()
	each("inbox", func(int) {
		page, err := eng.Inbox(t.Context(), driver.CallQuery{Limit: 10})
		if err != nil || len(page.Items) != 10 {
			t.Fatal(len(page.Items), err)
		}
	})
	each("resume", func(try int) {
		id, c := asked(sessions + try)
		resume(t, st, eng, id, c)
	})
	return shortest
}
