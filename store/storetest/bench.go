package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Bench measures the most frequent operations of a session on the stores that open returns. Step is the commit of a
// step with two messages and a checkpoint; its cost must not depend on the session's history and unchanged state.
func Bench(b *testing.B, open OpenStore) {
	b.Run("Step", func(b *testing.B) { benchStep(b, open, 0, 0) })
	for _, messages := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("Step/history=%d", messages), func(b *testing.B) { benchStep(b, open, messages, 0) })
	}
	for _, kib := range []int{1, 1024} {
		b.Run(fmt.Sprintf("Step/state=%dKiB", kib), func(b *testing.B) { benchStep(b, open, 0, kib<<10) })
	}
	b.Run("StepWithState", func(b *testing.B) { benchStepWithState(b, open) })
	for _, writers := range []int{4, 16} {
		b.Run(fmt.Sprintf("Step/writers=%d", writers), func(b *testing.B) { benchParallelSteps(b, open, writers) })
	}
	b.Run("Turn", func(b *testing.B) { benchTurn(b, open) })
	b.Run("Stage", func(b *testing.B) { benchStage(b, open) })
	b.Run("Renew", func(b *testing.B) { benchRenew(b, open) })
	for _, messages := range []int{10, 1000} {
		b.Run(fmt.Sprintf("Snapshot/messages=%d", messages), func(b *testing.B) { benchSnapshot(b, open, messages) })
	}
	for _, messages := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("Resume/messages=%d", messages), func(b *testing.B) { benchResume(b, open, messages) })
	}
	b.Run("Branch", func(b *testing.B) { benchBranch(b, open) })
	b.Run("List", func(b *testing.B) { benchList(b, open) })
	b.Run("Runs", func(b *testing.B) { benchRuns(b, open) })
}

// BenchLog measures appends to the event logs that open returns, alone and with readers.
func BenchLog(b *testing.B, open OpenLog) {
	for _, size := range []int{1, 16} {
		b.Run(fmt.Sprintf("Append/events=%d", size), func(b *testing.B) { benchAppend(b, open, size, 0) })
	}
	b.Run("Append/numbered", func(b *testing.B) { benchAppendNumbered(b, open) })
	for _, readers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("Append/readers=%d", readers), func(b *testing.B) { benchAppend(b, open, 1, readers) })
	}
	for _, readers := range []int{0, 1000} {
		b.Run(fmt.Sprintf("Stream/readers=%d", readers), func(b *testing.B) { benchStream(b, open, readers) })
	}
	b.Run("Read", func(b *testing.B) { benchRead(b, open) })
	b.Run("Latency", func(b *testing.B) { benchLatency(b, open) })
}

// bench is one benchmark's store.
type bench struct {
	*testing.B
	ctx context.Context
	st  driver.Store
}

func newBench(b *testing.B, open OpenStore) *bench {
	b.ReportAllocs()
	return &bench{B: b, ctx: b.Context(), st: open(b)}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// begin makes a session with a history and a state of given sizes, in the middle of a run.
func (b *bench) begin(id string, messages, stateBytes int) *cairn.Session {
	b.Helper()
	c := beginCommit("run-of-"+id, "worker", time.Hour)
	c.Create = &cairn.Session{Agent: agentName}
	c.InitialState = fmt.Appendf(nil, `{"body":%q}`, strings.Repeat("x", stateBytes))
	for range messages {
		c.Messages = append(c.Messages, cairn.User(cairn.TextPart(typicalText)))
	}
	s, err := b.st.Commit(b.ctx, id, c)
	b.must(err)
	return s
}

var typicalText = strings.Repeat("A sentence of a typical reply. ", 8)

// typicalStep returns the commit of a reply with a tool call, and its result.
func typicalStep(s *cairn.Session) *driver.Commit {
	n := s.Step + 1
	id := fmt.Sprintf("%s-%d", s.RunID, n)
	input := json.RawMessage(`{"order":42,"reason":"arrived broken"}`)
	return &driver.Commit{
		Guard: driver.Guard{Token: s.Lease.Token, Version: s.Version},
		Messages: []cairn.Message{
			{ID: id + "a", Role: cairn.RoleAssistant, RunID: s.RunID, Parts: []cairn.Part{cairn.TextPart(typicalText),
				{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "refund", Input: input}}}},
			{ID: id + "b", Role: cairn.RoleTool, RunID: s.RunID, Parts: []cairn.Part{
				{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: id, Tool: "refund", Output: input}}}},
		},
		Step:        n,
		Checkpoint:  &cairn.Checkpoint{ID: "cp-" + id, RunID: s.RunID, StepID: "step-" + id, Step: n, LogSequence: int64(10 * n)},
		LogSequence: int64(10 * n),
		Usage:       cairn.Usage{InputTokens: 1000, OutputTokens: 60, ModelCalls: 1, ToolCalls: 1},
		Lease:       driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour},
		DropStaged:  true,
	}
}

func benchStep(outer *testing.B, open OpenStore, messages, stateBytes int) {
	b := newBench(outer, open)
	s := b.begin("session", messages, stateBytes)
	for b.Loop() {
		var err error
		s, err = b.st.Commit(b.ctx, s.ID, typicalStep(s))
		b.must(err)
	}
}

func benchStepWithState(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	s := b.begin("session", 0, 1<<10)
	for b.Loop() {
		c := typicalStep(s)
		c.State = &driver.StateChange{Ops: []cairn.Op{replaceOp("/last", `"refund"`)}}
		if s.State.ChangeBytes > 4<<10 {
			c.State.Keyframe = fmt.Appendf(nil, `{"body":%q,"last":"refund"}`, strings.Repeat("x", 1<<10))
		}
		var err error
		s, err = b.st.Commit(b.ctx, s.ID, c)
		b.must(err)
	}
}

// benchParallelSteps has each writer drive a session of its own.
func benchParallelSteps(outer *testing.B, open OpenStore, writers int) {
	b := newBench(outer, open)
	sessions := make([]*cairn.Session, writers)
	for i := range sessions {
		sessions[i] = b.begin(fmt.Sprint("session-", i), 0, 0)
	}
	errs := make([]error, writers)
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for i := range writers {
		group.Go(func() {
			s := sessions[i]
			for left.Add(-1) >= 0 && errs[i] == nil {
				s, errs[i] = b.st.Commit(b.ctx, s.ID, typicalStep(s))
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		b.must(err)
	}
}

// benchTurn measures a whole turn of two steps on a session of many turns: three writes.
func benchTurn(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	_, err := driver.Create(b.ctx, b.st, &cairn.Session{ID: "session", Agent: agentName}, nil)
	b.must(err)
	for n := 0; b.Loop(); n++ {
		s, err := b.st.Commit(b.ctx, "session", beginCommit(fmt.Sprint("run-", n), "worker", time.Hour))
		b.must(err)
		s, err = b.st.Commit(b.ctx, "session", typicalStep(s))
		b.must(err)
		last, end := typicalStep(s), endCommit(s)
		last.EndRun, last.Status, last.Lease = end.EndRun, end.Status, end.Lease
		_, err = b.st.Commit(b.ctx, "session", last)
		b.must(err)
	}
}

func benchStage(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	s := b.begin("session", 0, 0)
	data := encode(typicalText)
	for n := 0; b.Loop(); n++ {
		b.must(b.st.Stage(b.ctx, s.ID, s.Lease.Token, driver.Staged{StepID: "step", Key: fmt.Sprint(n), Data: data}))
		if n%16 == 15 {
			b.StopTimer()
			_, err := b.st.Commit(b.ctx, s.ID, &driver.Commit{DropStaged: true})
			b.must(err)
			b.StartTimer()
		}
	}
}

func benchRenew(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	s := b.begin("session", 10, 0)
	for b.Loop() {
		_, err := b.st.Renew(b.ctx, s.ID, s.Lease.Token, time.Hour)
		b.must(err)
	}
}

func benchSnapshot(outer *testing.B, open OpenStore, messages int) {
	b := newBench(outer, open)
	s := b.begin("session", messages, 1<<10)
	for b.Loop() {
		_, err := b.st.Read(b.ctx, s.ID, driver.ToDrive(0))
		b.must(err)
	}
}

// benchResume reads what a process needs to resume a session whose messages are summarized, except for the last 20.
func benchResume(outer *testing.B, open OpenStore, messages int) {
	b := newBench(outer, open)
	s := b.begin("session", messages, 1<<10)
	summary := cairn.Context("what was before")
	summary.Summary = &cairn.Summary{From: s.MessageCount - 20}
	_, err := b.st.Commit(b.ctx, s.ID, &driver.Commit{Messages: []cairn.Message{summary}})
	b.must(err)
	for b.Loop() {
		snap, err := b.st.Read(b.ctx, s.ID, driver.ToDrive(0))
		b.must(err)
		if len(snap.Messages) != 21 {
			b.Fatalf("%d messages are read, want 21", len(snap.Messages))
		}
	}
}

func benchBranch(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	s := b.begin("session", 100, 1<<10)
	for n := 0; b.Loop(); n++ {
		_, err := b.st.Branch(b.ctx, s.ID, driver.BranchPoint{}, &cairn.Session{ID: fmt.Sprint("branch-", n), Agent: agentName})
		b.must(err)
	}
}

// benchList reads the first page of one user's sessions among many.
func benchList(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	for i := range 1000 {
		_, err := driver.Create(b.ctx, b.st, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: agentName, UserID: fmt.Sprint("user-", i%20)}, nil)
		b.must(err)
	}
	for b.Loop() {
		page, err := b.st.List(b.ctx, driver.SessionQuery{UserID: "user-7", Limit: 20})
		b.must(err)
		if len(page.Items) != 20 {
			b.Fatalf("%d sessions, want 20", len(page.Items))
		}
	}
}

// followAll has readers follow a log while a benchmark writes; they must not slow the writer. A tenth of them stalls
// after the first event. leave stops the readers and waits for them.
func followAll(b *testing.B, log driver.Log, readers int) (leave func()) {
	if _, err := log.Append(b.Context(), "log", driver.AnySequence, say("first")); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var arrived, group sync.WaitGroup
	for i := range readers {
		arrived.Add(1)
		group.Go(func() {
			for ev, err := range log.Follow(ctx, "log", 0) {
				if err != nil {
					b.Error(err)
				} else if ev.Sequence == 1 {
					arrived.Done()
				}
				if i%10 == 9 {
					<-ctx.Done()
				}
			}
		})
	}
	arrived.Wait()
	return func() {
		cancel()
		group.Wait()
	}
}

// benchStream measures how long an append takes for a writer of an event every millisecond, as a model streams.
func benchStream(b *testing.B, open OpenLog, readers int) {
	log := open(b)
	defer followAll(b, log, readers)()
	var times []time.Duration
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for b.Loop() {
		<-pace.C
		started := time.Now()
		if _, err := log.Append(b.Context(), "log", driver.AnySequence, say("a few words")); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "append-ns")
}

// benchAppend measures a writer that appends as fast as it can; readers take their share of the processors.
func benchAppend(b *testing.B, open OpenLog, size, readers int) {
	b.ReportAllocs()
	log := open(b)
	defer followAll(b, log, readers)()
	batch := make([]cairn.Event, size)
	for i := range batch {
		batch[i] = say("a few words")
	}
	for b.Loop() {
		if _, err := log.Append(b.Context(), "log", driver.AnySequence, batch...); err != nil {
			b.Fatal(err)
		}
	}
}

// benchAppendNumbered measures the appends of a run. It measures nothing of a log that is not a Fencer.
func benchAppendNumbered(b *testing.B, open OpenLog) {
	b.ReportAllocs()
	log, ok := open(b).(driver.Fencer)
	if !ok {
		return
	}
	w := driver.Writer{Session: "log", Token: 1, ID: "writer"}
	for b.Loop() {
		w.Batch++
		if _, err := log.AppendFenced(b.Context(), "log", driver.AnySequence, w, say("a few words")); err != nil {
			b.Fatal(err)
		}
	}
}

func benchRead(b *testing.B, open OpenLog) {
	b.ReportAllocs()
	log := open(b)
	if _, err := log.Append(b.Context(), "log", driver.AnySequence, lines(1, 1001)...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		list, err := log.Read(b.Context(), "log", 400, 100)
		if err != nil || len(list) != 100 {
			b.Fatalf("%d events, %v", len(list), err)
		}
	}
}

// benchLatency measures the time from an append to its arrival at a follower.
func benchLatency(b *testing.B, open OpenLog) {
	log := open(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	seen := make(chan int64, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for ev, err := range log.Follow(ctx, "log", 0) {
			if err != nil {
				b.Error(err)
				return
			}
			seen <- ev.Sequence
		}
	})
	for b.Loop() {
		last, err := log.Append(b.Context(), "log", driver.AnySequence, say("a few words"))
		if err != nil {
			b.Fatal(err)
		}
		if got := <-seen; got != last {
			b.Fatalf("event %d arrived, want %d", got, last)
		}
	}
	cancel()
	group.Wait()
}
