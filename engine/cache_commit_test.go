package engine_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	t.Parallel()
	st := &ledger{tap: tapOn(nil)}
	var r, other rates
	agent := bot(obey(), r.tool("rate", cairn.CachePolicy{Max: 4}), other.tool("other", cairn.CachePolicy{Max: 1}))
	eng := open(t, st, agent)
	says(t, eng, "rate:a rate:b other:x other:y rate:a")
	if got, want := st.written(), "+0-0 +1-0 +1-0 +1-0 +1-0 +1-0 +0-0"; got != want {
		t.Errorf("commits write %s, want %s: the last hit changes the order", got, want)
	}
	says(t, eng, "rate:a rate:a")
	if got, want := st.written(), "+0-0 +0-0 +0-0 +0-0"; got != want {
		t.Errorf("commits write %s, want %s: the order stays", got, want)
	}
	// Another process knows of the order, too.
	eng = open(t, st, agent, named("two"))
	r.seen()
	says(t, eng, "rate:c rate:a rate:b")
	if got := r.seen(); got != "c b" {
		t.Errorf("run with %q: a was used last and should be there, b should not", got)
	}
	if got, want := st.written(), "+0-0 +1-1 +1-0 +1-1 +0-0"; got != want {
		t.Errorf("commits write %s, want %s", got, want)
	}
	other.seen()
	says(t, eng, "other:y other:x")
	if got := other.seen(); got != "x" {
		t.Errorf("run with %q: of the other tool x was used longer ago than what is kept, y was not", got)
	}
	snap, err := st.Read(t.Context(), "s", driver.ToDrive(0))
	if err != nil || len(snap.Cache) != 4 {
		t.Errorf("%d entries are stored, %v: want four of both tools", len(snap.Cache), err)
	}
	wantSound(t, st, "s")
}

// A turn costs the same writes with a cache, and without one nothing is written of it.
func TestCacheCostsNoWriteOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			var calls [2][]string
			for i, look := range []cairn.Tool{echo("look"), echo("look", cairn.Cache(cairn.CachePolicy{}))} {
				st := &ledger{tap: tapOn(nil)}
				agent := bot(obey(), look)
				agent.Durability = d
				eng := open(t, st, agent)
				for range 2 {
					says(t, eng, "look:a look:b look:a look:c")
				}
				calls[i] = st.seen()
				if i == 0 && strings.Trim(st.written(), "+-0 ") != "" {
					t.Error("an agent without cached tools writes to the cache")
				}
			}
			if !slices.Equal(calls[0], calls[1]) {
				t.Errorf("store calls %v, with a cache %v", calls[0], calls[1])
			}
		})
	}
}

func TestParallelCallsDoNotShare(t *testing.T) {
	t.Parallel()
	var r rates
	st := &ledger{tap: tapOn(nil)}
	res := says(t, open(t, st, bot(obey(), r.tool("rate", cairn.CachePolicy{}))), "rate:a+rate:a rate:a+rate:a")
	if got := r.seen(); got != "a a" || res.Usage.ToolCacheHits != 2 || res.Usage.ToolCalls != 4 {
		t.Errorf("run with %q, usage %+v: want the first two to run, the others to be hits", got, res.Usage)
	}
	if got, want := st.written(), "+0-0 +1-0 +0-0 +0-0"; got != want {
		t.Errorf("commits write %s, want %s", got, want)
	}
	wantSound(t, st, "s")
}

// A paused session's results expire as any others do, and the process that continues has them.
func TestResultsOfAPausedSession(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{59 * time.Minute: "", time.Hour: "x"} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				var r rates
				agent := bot(obey(), r.tool("rate", cairn.CachePolicy{}), echo("pay", cairn.RequireApproval()))
				res := turn(t, open(t, st, agent), "s", "rate:x+pay:1 rate:x")
				wantStatus(t, res, cairn.RunSuspended, cairn.ReasonStepPartial)
				if got := r.seen(); got != "x" {
					t.Fatalf("run with %q before the pause", got)
				}
				testclock.Advance(after)
				two := open(t, st, agent, named("two"))
				submit(t, two, "s", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
				res = resume(t, two, "s")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				if got := r.seen(); got != want || res.Usage.ToolCacheHits != int64(1-len(want)) {
					t.Errorf("run with %q, want %q; usage %+v", got, want, res.Usage)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

func TestRewindKeepsResultsAndBranchHasNone(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var r rates
	eng := open(t, st, bot(obey(), r.tool("rate", cairn.CachePolicy{})))
	says(t, eng, "rate:a")
	page, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	says(t, eng, "rate:b")
	if _, err := eng.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Branch(t.Context(), "s", "branch"); err != nil {
		t.Fatal(err)
	}
	r.seen()
	says(t, eng, "rate:a rate:b")
	if got := r.seen(); got != "" {
		t.Errorf("run with %q after the rewind", got)
	}
	turn(t, eng, "branch", "rate:a rate:a")
	if got := r.seen(); got != "a" {
		t.Errorf("run with %q in the branch", got)
	}
}

func TestResultsAreForToolsThatAreCached(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var r rates
	says(t, open(t, st, bot(obey(), r.tool("rate", cairn.CachePolicy{}))), "rate:a")
	plain := open(t, st, bot(obey(), echo("rate")), named("two"))
	if res := says(t, plain, "rate:a"); res.Usage.ToolCacheHits != 0 {
		t.Errorf("usage %+v of a tool that is no longer cached", res.Usage)
	}
	wantOutcomes(t, st, "s", "rate=a 1 rate=a")
}

// The cache already has the results of steps that are not committed yet, and concurrent writers of the session do not
// remove them.
func TestDeferredStepsHaveTheirResults(t *testing.T) {
	t.Parallel()
	st := &ledger{tap: tapOn(nil)}
	var r rates
	var eng *engine.Engine
	agent := bot(obey(), r.tool("rate", cairn.CachePolicy{Max: 2}), tool("add", func(ctx context.Context, _ *cairn.Call, in in) (string, error) {
		return "", eng.AddContext(ctx, "s", in.Text)
	}))
	agent.Durability = cairn.Manual
	eng = open(t, st, agent)
	res := says(t, eng, "rate:a rate:b rate:a rate:c add:rain rate:c rate:b rate:a")
	if got := r.seen(); got != "a b c b a" || res.Usage.ToolCacheHits != 2 {
		t.Errorf("run with %q, usage %+v", got, res.Usage)
	}
	// The beginning, the addition, the step that it joins, that step once it knows of the addition, and the end. A result
	// that was added and removed again is not published.
	if got, want := st.written(), "+0-0 +0-0 +2-0 +2-0 +2-1"; got != want {
		t.Errorf("commits write %s, want %s", got, want)
	}
	says(t, open(t, st, agent, named("two")), "rate:a rate:b")
	if got := r.seen(); got != "" {
		t.Errorf("run with %q in another process", got)
	}
	wantSound(t, st, "s")
}

// The cache is the result of the commits: a process that dies before a commit leaves nothing, and nothing is kept
// twice.
func TestCrashTakesUncommittedResultsAlong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		durability cairn.Durability
		runs       string
	}{
		{cairn.PerStep, "a b b"}, // its second step was not committed
		{cairn.PerTool, "a b"},   // but staged
		{cairn.Manual, "a b a b"},
	} {
		t.Run(c.durability.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				var r rates
				agent := bot(obey(), r.tool("rate", cairn.CachePolicy{}))
				agent.Durability = c.durability
				ended := 0
				agent.Hooks = &cairn.Hooks{AfterTool: func(context.Context, *cairn.Call, *cairn.ToolResult) {
					if ended++; ended == 3 {
						st.cut()
					}
				}}
				_, _ = start(t, open(t, st, agent, shortLease), "s", "rate:a rate:a+rate:b rate:b").Wait(t.Context())
				bringToEnd(t, st, agent)
				if got := sorted(r.seen()); got != sorted(c.runs) {
					t.Errorf("run with %q, want %q", got, c.runs)
				}
				res := runsOf(t, st.Store, "s")[0]
				if res.Usage.ToolCacheHits != 2 || res.Usage.ToolCalls != 4 {
					t.Errorf("usage %+v: want 2 hits of 4 calls, whatever was repeated", res.Usage)
				}
				snap, err := st.Store.Read(t.Context(), "s", driver.ToDrive(0))
				if err != nil || len(snap.Cache) != 2 {
					t.Errorf("%d entries are stored, %v", len(snap.Cache), err)
				}
				wantCachedMarks(t, history(t, st.Store, "s"), 2)
				wantSound(t, st.Store, "s")
			})
		})
	}
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// wantCachedMarks checks how many ends of calls are marked as cached, as seen by a reader that drops discarded steps.
func wantCachedMarks(t *testing.T, events []cairn.Event, want int) {
	t.Helper()
	marks := map[int]int{} // by step
	for i := range events {
		switch ev := &events[i]; {
		case ev.Type == cairn.EventStepDiscarded:
			maps.DeleteFunc(marks, func(step, _ int) bool { return step >= ev.Step })
		case ev.Type == cairn.EventToolEnd && ev.Cached:
			marks[ev.Step]++
		}
	}
	total := 0
	for _, n := range marks {
		total += n
	}
	if total != want {
		t.Errorf("%d calls are marked as cached, want %d", total, want)
	}
}
