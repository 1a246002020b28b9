package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// line is a process's connection to a store. The fault happens at its k-th call about a session, an ended turn or memories.
type line struct {
	*memstore.Store

	mu    sync.Mutex
	calls int
	k     int
	fault fault
	dead  bool
}

// fault is what happens at a call: before it, or after it so that the answer is lost. The process may die of it.
type fault struct{ after, dies bool }

func (f fault) String() string {
	return map[fault]string{{}: "the call is refused", {after: true}: "the answer is lost", {dies: true}: "the process dies before the call",
		{after: true, dies: true}: "the process dies after the call"}[f]
}

// fired reports whether the fault has happened.
func (l *line) fired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.k > 0 && l.calls >= l.k
}

func at[T any](l *line, call func() (T, error)) (T, error) {
	l.mu.Lock()
	l.calls++
	now, dead := l.calls == l.k, l.dead
	l.dead = dead || now && l.fault.dies
	l.mu.Unlock()
	var none T
	if dead || now && !l.fault.after {
		return none, cairn.Errorf(cairn.ErrUnavailable, "cut off")
	}
	v, err := call()
	if err == nil && now {
		return none, cairn.Errorf(cairn.ErrUnavailable, "the answer is lost")
	}
	return v, err
}

func only(err error) (struct{}, error) { return struct{}{}, err }

func (l *line) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	return at(l, func() (*cairn.Session, error) { return l.Store.Commit(ctx, id, c) })
}

func (l *line) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	return at(l, func() (*driver.Contents, error) { return l.Store.Read(ctx, id, want) })
}

func (l *line) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	_, err := at(l, func() (struct{}, error) { return only(l.Store.Stage(ctx, id, token, pieces...)) })
	return err
}

func (l *line) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "cut off")
	}
	return l.Store.Renew(ctx, id, token, ttl)
}

func (l *line) Memories() driver.Memories { return lineRows{l.Store.Memories(), l} }

type lineRows struct {
	driver.Memories
	l *line
}

func (r lineRows) Read(ctx context.Context, scope memory.Scope, reads ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	return at(r.l, func() (*driver.MemoryEntries, error) { return r.Memories.Read(ctx, scope, reads...) })
}

func (r lineRows) Write(ctx context.Context, w driver.MemoryWrite) (int64, error) {
	return at(r.l, func() (int64, error) { return r.Memories.Write(ctx, w) })
}

func (l *line) Records() driver.Records { return lineRecords{l.Store.Records(), l} }

type lineRecords struct {
	driver.Records
	l *line
}

func (r lineRecords) Put(ctx context.Context, w driver.RecordWrite) (*driver.Record, error) {
	return at(r.l, func() (*driver.Record, error) { return r.Records.Put(ctx, w) })
}

func (r lineRecords) Delete(ctx context.Context, namespace, key string, seen int64) error {
	_, err := at(r.l, func() (struct{}, error) { return only(r.Records.Delete(ctx, namespace, key, seen)) })
	return err
}

// begin starts a process on a line, with an agent that saves a fact. As with a provider, no two replies have the
// same call.
func begin(t *testing.T, l *line, d cairn.Durability) (*engine.Engine, *memory.Memory) {
	t.Helper()
	m, err := memory.New(l, &memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{Model: extracts("Ann lives in Bonn.")}}})
	if err != nil {
		t.Fatal(err)
	}
	a := &cairn.Agent{Name: "bot", Durability: d, Memory: m, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		for i := range req.Messages {
			if len(req.Messages[i].ToolUses()) > 0 {
				return scripted.Text("I see.")
			}
		}
		return scripted.Call(memory.SaveTool, json.RawMessage(`{"text":"Ann is allergic to nuts."}`)).ID("call_" + ids.Short())
	})}
	eng, err := engine.New(l, []*cairn.Agent{a}, &engine.Options{LeaseTTL: 3 * time.Second, WorkInterval: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng, m
}

// Whichever call of the store fails or is a process's last one, in a turn or in learning from it: once another process has
// worked, the memory has what was said in the turn, each fact that was extracted, and what its tool has saved, once.
func TestEachMemoryIsThereOnceWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	for _, d := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
		for _, f := range []fault{{}, {after: true}, {dies: true}, {after: true, dies: true}} {
			t.Run(fmt.Sprintf("%s, %s", f, d), func(t *testing.T) {
				t.Parallel()
				for k, fired := 1, true; fired; k++ {
					t.Run(fmt.Sprint(k), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { fired = killed(t, d, f, k) })
					})
				}
			})
		}
	}
}

func killed(t *testing.T, d cairn.Durability, f fault, k int) (fired bool) {
	l := &line{Store: memstore.New(nil), k: k, fault: f}
	turn := func(eng *engine.Engine) (*cairn.Result, error) {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("I live in Bonn, and I am allergic to nuts."), engine.WithUser("ann"))
		if err != nil {
			return nil, err
		}
		return run.Wait(t.Context())
	}
	eng, _ := begin(t, l, d)
	_, _ = turn(eng)
	testclock.Advance(time.Minute)
	fired = l.fired()
	if l.dead {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = eng.Close(ctx)
	}
	other, m := begin(t, &line{Store: l.Store}, d)
	if exists, err := driver.Exists(t.Context(), l.Store, "s"); err != nil {
		t.Fatal(err)
	} else if !exists {
		if _, err := turn(other); err != nil {
			t.Fatal(err)
		}
	}
	works(t, other, 6*time.Minute)
	row, err := other.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != cairn.SessionCompleted {
		t.Fatalf("the session is %s", row.Status)
	}
	said := "never"
	for msg, err := range other.AllMessages(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range msg.ToolResults() {
			said = string(r.Output)
		}
	}
	got := map[string]int{}
	for e, err := range m.All(t.Context(), memory.User("ann"), memory.ListQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Kind)+" "+e.Text]++
	}
	for _, text := range []string{"said I live in Bonn, and I am allergic to nuts.", "said I see.", "fact Ann lives in Bonn."} {
		if got[text] != 1 {
			t.Errorf("%q is there %d times: %v", text, got[text], got)
		}
	}
	if n := got["fact Ann is allergic to nuts."]; n > 1 || n == 0 && strings.Contains(said, "Saved") {
		t.Errorf("the memory whose call says %s is there %d times", said, n)
	}
	return fired
}
