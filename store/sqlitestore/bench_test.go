package sqlitestore

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
)

// stepsPerRun is the number of steps of the benchmarks' runs.
const stepsPerRun = 10

// stepper commits steps of one session as an engine does.
type stepper struct {
	b   testing.TB
	st  driver.Store
	row *cairn.Session
	n   int
}

func newStepper(b testing.TB, st driver.Store, id string, state json.RawMessage) *stepper {
	b.Helper()
	row, err := driver.Create(b.Context(), st, &cairn.Session{ID: id, Agent: "support"}, state)
	if err != nil {
		b.Fatal(err)
	}
	return &stepper{b: b, st: st, row: row}
}

// step commits a reply, a tool result and a checkpoint. The first step of a run begins it and the last one ends it.
func (s *stepper) step() {
	s.n++
	runID := fmt.Sprintf("run-%d", (s.n-1)/stepsPerRun)
	c := &driver.Commit{
		Guard:      driver.Guard{Version: s.row.Version, Token: s.row.Lease.Token},
		Messages:   stepMessages(runID),
		Step:       (s.n-1)%stepsPerRun + 1,
		Checkpoint: &cairn.Checkpoint{ID: fmt.Sprintf("cp-%d", s.n), StepID: fmt.Sprintf("step-%d", s.n), RunID: runID, Step: s.n},
		Usage:      cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1, ToolCalls: 1},
		DropStaged: true,
		Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Minute},
	}
	switch s.n % stepsPerRun {
	case 1:
		c.StartRun = &cairn.Run{ID: runID, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}
		c.Status, c.Lease.Action, c.Lease.Owner = cairn.SessionActive, driver.LeaseTake, "worker"
	case 0:
		c.EndRun = &cairn.Run{ID: runID, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunCompleted}
		c.Status, c.Lease.Action = cairn.SessionCompleted, driver.LeaseRelease
	}
	row, err := s.st.Commit(s.b.Context(), s.row.ID, c)
	if err != nil {
		s.b.Fatal(err)
	}
	s.row = row
}

func stepMessages(runID string) []cairn.Message {
	input := json.RawMessage(`{"order":42,"reason":"arrived broken"}`)
	output := json.RawMessage(`{"order":42,"status":"refunded","amount":"19.90","currency":"EUR"}`)
	return []cairn.Message{
		{ID: "m1", Role: cairn.RoleAssistant, RunID: runID, Parts: []cairn.Part{
			cairn.TextPart(strings.Repeat("Let me look at that order. ", 10)),
			{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call-1", Tool: "refund", Input: input}}}},
		{ID: "m2", Role: cairn.RoleTool, RunID: runID, Parts: []cairn.Part{
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call-1", Tool: "refund", Output: output}}}},
	}
}

func benchStore(b *testing.B, opts *Options) *Store {
	return openAt(b, filepath.Join(b.TempDir(), "cairn.db"), opts)
}

// BenchmarkCommit measures the steps of a lone writer. Compare its rate with BenchmarkFloor's.
func BenchmarkCommit(b *testing.B) {
	for _, level := range levels {
		b.Run(level.name, func(b *testing.B) {
			s := newStepper(b, benchStore(b, &Options{Synchronous: level.sync}), "session", nil)
			b.ReportAllocs()
			for b.Loop() {
				s.step()
			}
		})
	}
}

var levels = []struct {
	name string
	sync Synchronous
}{{"full", Full}, {"normal", Normal}}

// BenchmarkFloor measures the transaction of BenchmarkCommit written by hand: the same rows from prepared texts, one
// update that is its own guard, and no reads.
func BenchmarkFloor(b *testing.B) {
	for _, level := range levels {
		b.Run(level.name, func(b *testing.B) {
			f := newFloor(b, level.sync)
			b.ReportAllocs()
			for b.Loop() {
				f.step()
			}
		})
	}
}

// floor is a session whose steps are written by hand.
type floor struct {
	b     *testing.B
	c     *conn
	r     *storedRow
	n     int
	texts [3]string // the JSON of two messages and a run
}

func newFloor(b *testing.B, level Synchronous) *floor {
	st := benchStore(b, &Options{Synchronous: level})
	s := newStepper(b, st, "session", nil)
	for range stepsPerRun {
		s.step()
	}
	f := &floor{b: b, c: st.writer.conn, r: &storedRow{session: s.row}, n: stepsPerRun}
	if err := st.writer.setLevel(level == Full); err != nil {
		b.Fatal(err)
	}
	var err error
	if f.r.key, err = findKey(f.c, "session"); err != nil {
		b.Fatal(err)
	}
	for i, v := range []any{stepMessages("run-0")[0], stepMessages("run-0")[1],
		&cairn.Run{ID: "run-0", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning, StartedAt: time.Now()}} {
		if f.texts[i], err = backend.EncodeJSON("text", v); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func (f *floor) exec(text string, args ...any) {
	if changed, err := f.c.exec(text, args...); err != nil || (changed == 0 && len(args) > 1) {
		f.b.Fatalf("%s: %d rows, %v", text, changed, err)
	}
}

func (f *floor) step() {
	n, key, now, row := f.n, f.r.key, time.Now(), f.r.session
	f.n++
	row.Version++
	row.Step++
	row.MessageCount += 2
	row.UpdatedAt, row.Lease.Until = now, now.Add(time.Minute)
	head, err := f.r.head(false)
	if err != nil {
		f.b.Fatal(err)
	}
	f.exec(sqlBegin)
	f.exec(sqlUpdateHead, append(head, row.Version-1, row.Lease.Token, micros(now), "session")...)
	f.exec(sqlInsertMessage, key<<31+int64(row.MessageCount-2), micros(now), 0, f.texts[0])
	f.exec(sqlInsertMessage, key<<31+int64(row.MessageCount-1), micros(now), 0, f.texts[1])
	f.exec(sqlInsertCheckpoint, key, fmt.Sprintf("cp-%d", n+1), fmt.Sprintf("step-%d", n+1), "run-1", 1, n, n+1,
		fmt.Sprintf("cp-%d", n), row.MessageCount, 0, 0, micros(now))
	switch run := fmt.Sprintf("run-%d", n/stepsPerRun); n % stepsPerRun {
	case 0:
		f.exec(sqlInsertRun, key<<31+int64(n/stepsPerRun+1), key, run, micros(now), 0, row.MessageCount, "", 0, f.texts[2], 0)
		f.exec(sqlUpdateStatus, key, "active", "")
	case stepsPerRun - 1:
		f.exec(sqlUpdateRun, key, run, f.texts[2], 0)
		f.exec(sqlUpdateStatus, key, "completed", run)
	}
	f.exec(sqlDropStaged, key)
	f.exec(sqlCommit)
}

// BenchmarkWriters measures concurrent steps of many sessions: they share flushes to disk.
func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			st := benchStore(b, nil)
			steppers := make([]*stepper, writers)
			for i := range steppers {
				steppers[i] = newStepper(b, st, fmt.Sprintf("session-%d", i), nil)
			}
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for _, s := range steppers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						s.step()
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// compare runs two functions alternately, so that other load on the machine affects both, and reports the median of
// subject as a multiple of the median of base.
func compare(b *testing.B, subject, base func()) {
	var times [2][]time.Duration
	for b.Loop() {
		for i, run := range []func(){subject, base} {
			started := time.Now()
			run()
			times[i] = append(times[i], time.Since(started))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	median := func(i int) float64 { return float64(times[i][len(times[i])/2]) }
	b.ReportMetric(median(0), "subject-ns")
	b.ReportMetric(median(1), "base-ns")
	b.ReportMetric(median(0)/median(1), "x")
}

// BenchmarkCommitAgainstFloor compares a step with the same transaction written by hand.
func BenchmarkCommitAgainstFloor(b *testing.B) {
	for _, level := range levels {
		b.Run(level.name, func(b *testing.B) {
			s := newStepper(b, benchStore(b, &Options{Synchronous: level.sync}), "session", nil)
			compare(b, s.step, newFloor(b, level.sync).step)
		})
	}
}

// BenchmarkHistory compares a step after 10,000 messages with one after 10: it must not take longer.
func BenchmarkHistory(b *testing.B) {
	after := func(messages int) *stepper {
		st := benchStore(b, nil)
		s := newStepper(b, st, "session", nil)
		fill := make([]cairn.Message, messages)
		for i := range fill {
			fill[i] = stepMessages("run-0")[i%2]
		}
		var err error
		if s.row, err = st.Commit(b.Context(), "session", &driver.Commit{Messages: fill}); err != nil {
			b.Fatal(err)
		}
		return s
	}
	compare(b, after(10_000).step, after(10).step)
}

// BenchmarkState compares a step with 1 MB of state that it does not change with one with 1 KB: it must not take
// longer.
func BenchmarkState(b *testing.B) {
	with := func(size int) *stepper {
		state := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
		return newStepper(b, benchStore(b, nil), "session", state)
	}
	compare(b, with(1<<20).step, with(1<<10).step)
}

// BenchmarkAppend measures a flush of eight text deltas, as an answer streams.
func BenchmarkAppend(b *testing.B) {
	log := benchStore(b, nil).EventLog().(*Log)
	w := driver.Writer{Session: "session", Token: 1, ID: "writer"}
	events := make([]cairn.Event, 8)
	for i := range events {
		events[i] = cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", RunID: "run", Step: 1, Time: time.Now(), Text: "some words"}
	}
	for b.Loop() {
		w.Batch++
		if _, err := log.AppendFenced(b.Context(), "session", driver.AnySequence, w, events...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream measures a step with two flushes of events before its commit.
func BenchmarkStream(b *testing.B) {
	st := benchStore(b, nil)
	s := newStepper(b, st, "session", nil)
	ev := cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", RunID: "run", Step: 1, Time: time.Now(), Text: "some words"}
	for b.Loop() {
		for range 2 {
			if _, err := st.EventLog().Append(b.Context(), "session", driver.AnySequence, ev, ev, ev); err != nil {
				b.Fatal(err)
			}
		}
		s.step()
	}
}

func init() {
	storetest.Elsewhere(func(place string) (driver.Log, error) {
		s, err := Open(place, nil)
		if err != nil {
			return nil, err
		}
		return s.EventLog(), nil
	})
}

func BenchmarkFollowAcrossProcesses(b *testing.B) {
	path := filepath.Join(b.TempDir(), "cairn.db")
	storetest.BenchFollowAcrossProcesses(b, openAt(b, path, nil).EventLog(), path)
}

// BenchmarkWatch measures the check of the files before and after each commit.
func BenchmarkWatch(b *testing.B) {
	s := benchStore(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.writer.watch.check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEventsOfSteps(b *testing.B) {
	storetest.BenchEvents(b, func(tb testing.TB) driver.Store {
		return openAt(tb, filepath.Join(tb.TempDir(), "cairn.db"), nil)
	}, nil)
}
