package redisstore

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// A row with every field set, after a step that this process computed, is as the server has it, and the server's own
// commits continue from there.
func TestStepOfARowWithEverything(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	ctx := t.Context()
	commit := func(st *Store, c *driver.Commit) *cairn.Session {
		t.Helper()
		row, err := st.Commit(ctx, "session", c)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	usage := cairn.Usage{InputTokens: 1 << 40, OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, ModelCalls: 6, ToolCalls: 7,
		ToolErrors: 8, ToolCacheHits: 9, SubAgentRuns: 10, Custom: map[string]float64{"pages read": 1.0 / 3, "whole": 2}}
	row := commit(s, &driver.Commit{Create: &cairn.Session{ID: "session", Agent: "support", UserID: "user", Tags: []string{"a"}, Metadata: cairn.Metadata{"k": "v"},
		ExpiresAt: time.Now().Add(time.Hour), TraceParent: "trace", ParentID: "parent", RootID: "root", Kind: cairn.ChildCompanion, Name: "name"},
		StartRun: &cairn.Run{ID: "run", Status: cairn.RunRunning}, Status: cairn.SessionActive, Usage: usage, Recovered: true, LogSequence: 77,
		Lease:   driver.LeaseChange{Action: driver.LeaseTake, Owner: "a worker with a name of more than thirty-one bytes", TTL: time.Hour},
		Suspend: &driver.Suspend{StepID: "waits", OpenCalls: 3, NextDeadline: time.Now().Add(time.Minute)}, Enqueue: &driver.QueuedTurn{ID: "turn"},
		Checkpoint: &cairn.Checkpoint{ID: "first", StepID: "first"}})
	if row.Queued != 1 || row.SuspendedStep != "waits" {
		t.Fatalf("row is %+v", row)
	}
	row = commit(s, &driver.Commit{Rewind: "first", Recovered: true})
	called := 0
	s.intercept = func(name string) error {
		if called++; name != "step" {
			t.Errorf("a step runs %s", name)
		}
		return nil
	}
	row = commit(s, &driver.Commit{Guard: driver.Guard{Version: row.Version, Token: row.Lease.Token}, Usage: usage,
		State:      &driver.StateChange{Keyframe: json.RawMessage(`{"key":"frame"}`)},
		Checkpoint: &cairn.Checkpoint{ID: "second", StepID: "second"}, Messages: []cairn.Message{cairn.User(), cairn.User(), cairn.User()}})
	row = commit(s, &driver.Commit{Guard: driver.Guard{Version: row.Version}, State: &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte(`1`)}}},
		Checkpoint: &cairn.Checkpoint{ID: "third", StepID: "third"}, Lease: driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Minute}})
	s.intercept = nil
	if called != 2 {
		t.Errorf("%d scripts for two steps", called)
	}
	check := func(what string, got *cairn.Session) {
		t.Helper()
		want, err := driver.Load(ctx, other, "session")
		if err != nil {
			t.Fatal(err)
		}
		want.AsOf = got.AsOf // the time when each was read
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", what, got, want)
		}
	}
	check("after steps", row)
	if row.Recoveries != 2 || row.Usage.Custom["pages read"] != 2.0/3 || row.Queued != 1 || row.Epoch != 1 {
		t.Errorf("row is %+v", row)
	}
	if due, err := other.Due(ctx, driver.DueQuery{}); err != nil || len(due.Items) != 0 {
		t.Errorf("due: %+v, %v", due, err)
	}
	row = commit(other, &driver.Commit{Rewind: "second", Status: cairn.SessionPaused})
	state, err := driver.State(ctx, s, "session", "")
	if err != nil || string(state) != `{"key":"frame"}` || row.State.KeyframeBytes != 15 || row.State.ChangeBytes != 0 {
		t.Errorf("after going back: state %s, %+v, %v", state, row.State, err)
	}
	// The row that this process has cached is outdated now.
	row = commit(s, &driver.Commit{Checkpoint: &cairn.Checkpoint{ID: "fourth", StepID: "fourth"}})
	check("after another process's commit", row)
	if row.Epoch != 2 || row.Status != cairn.SessionPaused {
		t.Errorf("another process's commit was overwritten: %+v", row)
	}
}

func TestPackedNumbers(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, 127, 128, 1 << 16, 1 << 40, math.MaxInt64, -1, math.MinInt64} {
		p := newPacker(nil)
		p.int64("n", n)
		u := unpacker{data: string(p.done())}
		if pairs, name, got := u.pairs(), u.text(), u.int64(); pairs != 1 || name != "n" || got != n || u.err != nil {
			t.Errorf("%d became %d %q %d, %v", n, pairs, name, got, u.err)
		}
	}
}

func FuzzRow(f *testing.F) {
	r := storedRow{session: &cairn.Session{Status: cairn.SessionActive, MessageCount: 3, RunID: "run", Usage: cairn.Usage{InputTokens: 1, Custom: map[string]float64{"x": 0.5}}}}
	f.Add(string(r.head(nil, 0, false)))
	f.Add("\x81\xa4tags\xa1[")
	f.Add("\xdf\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, packed string) {
		readStored("session", []any{packed, packed, "1", "2", "3"})
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(`8[1,2,3,4,5,6,7,"parent",null,"run/1",1,2]`)
	f.Add(`1763720000000000/{"id":"run/1/reply","role":"user"}`)
	f.Add("[1,2,3,\"s\",\"u\",\"a\",[]]\n{\"input\":1}")
	f.Add(`1763720000000000{"role":"user"}`)
	f.Fuzz(func(t *testing.T, text string) {
		readCheckpoint("session", "id", text)
		readCall("root", "id", text)
		readRun("session", "id", text, text, text)
		readMessages([]any{text})
		readStaged([]any{text, text}, "")
		readStop(text)
		readBatch(nil, "log", []any{"7-2", []any{"e", text}}, 0, 10)
		readBatch(nil, "log", []any{text, []any{"e", text}}, 0, 10)
	})
}
