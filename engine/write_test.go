package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

func TestTurnOfNStepsCostsNPlusOneWritesAndNoReads(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			eng := open(t, st, bot(counter(n), note()))
			want := slices.Repeat([]string{"Commit"}, n+1)
			for _, which := range []string{"new session", "warm process", "warm process again"} {
				res := turn(t, eng, "s", "go")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				if res.Steps != n {
					t.Fatalf("%d steps, want %d", res.Steps, n)
				}
				calls := st.seen()
				if which == "new session" && calls[0] == "Snapshot" { // that there is none is found by a read
					calls = calls[1:]
				}
				if !slices.Equal(calls, want) {
					t.Errorf("%s: store calls %v, want %d commits", which, calls, n+1)
				}
			}
			wantSound(t, st, "s")
		})
	}
}

func TestColdProcessReadsOnce(t *testing.T) {
	t.Parallel()
	first := tapOn(nil)
	turn(t, open(t, first, bot(counter(2), note()), named("a")), "s", "go")

	second := tapOn(first.Store)
	turn(t, open(t, second, bot(counter(2), note()), named("b")), "s", "go on")
	if calls, want := second.seen(), []string{"Snapshot", "Commit", "Commit", "Commit"}; !slices.Equal(calls, want) {
		t.Errorf("store calls %v, want %v", calls, want)
	}
	wantSound(t, second, "s")
}

// A process that takes a dead run over reads it once, when it has the lease.
func TestTakingOverReadsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := tapOn(nil)
		start(t, open(t, first, bot(scripted.New(scripted.Reply(scripted.Pause(time.Second), scripted.Do(first.cut), scripted.Pause(time.Hour)))), shortLease), "s", "go")
		testclock.Advance(time.Minute)
		second := tapOn(first.Store)
		run, err := open(t, second, bot(scripted.New(scripted.Reply(scripted.Pause(time.Second), scripted.Text("yes")))), named("b")).Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		// Resume reads the session, the takeover what it takes over and the sub-agents that were left behind.
		if calls, want := second.seen(), []string{"Load", "Load", "Commit", "Snapshot", "List"}; !slices.Equal(calls, want) {
			t.Errorf("store calls %v, want %v", calls, want)
		}
		wait(t, run)
		wantSound(t, second, "s")
	})
}

// A process that carries out an effect reads all it needs of the session in one read, and does not renew a lease that
// was renewed a moment ago.
func TestEffectReadsOnce(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	agent := bot(scripted.New(scripted.Call("note", in{}).ID("c1"), scripted.Call("note", in{}).ID("c2"), scripted.Text("done")), note())
	start(t, open(t, st, agent, hostedBy(h)), "s", "go")
	at := h.begun[0]
	own, effects := tapOn(st), []string{host.EffectPlan, host.EffectTool, host.EffectCommit}
	step := func(call string, process func() *engine.Engine, want ...[]string) {
		t.Helper()
		for i, effect := range effects {
			eng := process()
			own.seen()
			carry(t, eng, effect, next(at, call))
			if calls := own.seen(); !slices.Equal(calls, want[i]) {
				t.Errorf("%s of step %d: store calls %v, want %v", effect, at.Step+1, calls, want[i])
			}
		}
		at.Step++
	}
	cold := func() *engine.Engine { return open(t, own, agent, hostedBy(h), named("b")) }
	step("c1", cold, []string{"Snapshot", "Stage", "Read"}, []string{"Snapshot", "Stage", "Stage", "Read"}, []string{"Snapshot", "Commit"})
	one := cold()
	warm := func() *engine.Engine { return one }
	step("c2", warm, []string{"Snapshot", "Stage", "Read"}, []string{"Read", "Stage", "Stage", "Read"}, []string{"Read", "Commit"})
	effects = []string{host.EffectPlan, host.EffectCommit}
	step("", warm, []string{"Read", "Stage", "Read"}, []string{"Read", "Commit"})
}

// TestIdleSessionsAreBoundedByBytes has sessions of a mebibyte each, of which two fit: a turn of one that was kept
// reads nothing.
func TestIdleSessionsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })),
		with(func(o *engine.Options) { o.CacheBytes = 5 << 19 }))
	for _, id := range []string{"a", "b", "c"} {
		turn(t, eng, id, strings.Repeat("x", 1<<20))
	}
	turn(t, eng, "huge", strings.Repeat("x", 3<<20))
	for _, test := range []struct {
		id   string
		kept bool
	}{{"b", true}, {"c", true}, {"huge", false}, {"a", false}} {
		st.seen()
		turn(t, eng, test.id, "again")
		if read := slices.Contains(st.seen(), "Snapshot"); read == test.kept {
			t.Errorf("session %s was read: %t", test.id, read)
		}
	}
}

func TestPerToolStagesEachReplyAndEachResult(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(
		scripted.Reply(scripted.Call("a", in{"1"}), scripted.Call("b", in{"2"}), scripted.Call("a", in{"3"})),
		scripted.Text("done"),
	), echo("a"), echo("b"))
	agent.Durability = cairn.PerTool
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	want := []string{"Snapshot", "Commit", // the beginning
		"Stage", "Stage", "Stage", "Stage", "Commit", // a reply with three calls
		"Stage", "Commit"} // a reply
	if calls := st.seen(); !slices.Equal(calls, want) {
		t.Errorf("store calls %v, want %v", calls, want)
	}
	wantSound(t, st, "s")
}

func TestManualCommitsWhereItIsAskedTo(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	save := tool("save", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		call.Checkpoint()
		return "saved", call.Append([]string{"notes"}, in.Text)
	})
	step := func(tool string, n int) scripted.Step { return scripted.Call(tool, in{fmt.Sprint(n)}) }
	agent := bot(scripted.New(step("note", 1), step("note", 2), step("save", 3), step("note", 4), scripted.Text("done")), note(), save)
	agent.Durability = cairn.Manual
	res := turn(t, open(t, st, agent), "s", "go")
	// A step that is not committed checks whether a message is to join the run.
	if calls, want := st.seen(), []string{"Snapshot", "Commit", "Read", "Read", "Commit", "Read", "Commit"}; !slices.Equal(calls, want) {
		t.Errorf("store calls %v: want the beginning, step 3 and the end, and a look for messages after steps 1, 2 and 4", calls)
	}
	if res.Steps != 5 || res.Usage.ModelCalls != 5 || res.Usage.ToolCalls != 4 {
		t.Errorf("outcome %+v", res)
	}
	if got := state(t, st, "s"); got != `{"notes":["1","2","3","4"]}` {
		t.Errorf("state %s", got)
	}
	page, err := st.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil || len(page.Items) != 2 || page.Items[0].Step != 3 || page.Items[1].Step != 5 {
		t.Errorf("checkpoints %+v, %v: want after steps 3 and 5", page.Items, err)
	}
	wantSound(t, st, "s")
}

func TestIntervalCommitsWhenItHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		var steps []scripted.Step
		for range 6 {
			steps = append(steps, scripted.Reply(scripted.Pause(10*time.Second), scripted.Call("note", in{"x"})))
		}
		agent := bot(scripted.New(append(steps, scripted.Text("done"))...), note())
		agent.Durability = cairn.Interval(25 * time.Second)
		wantStatus(t, turn(t, open(t, st, agent, with(func(o *engine.Options) { o.LeaseTTL = time.Hour })), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		calls := slices.DeleteFunc(st.seen(), func(op string) bool { return op != "Commit" }) // reads: of the session, and for messages that are to join the run
		if len(calls) != 4 {
			t.Errorf("store calls %v, want the beginning and three commits", calls)
		}
		page, err := st.Checkpoints(t.Context(), "s", store.PageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var at []int
		for _, cp := range page.Items {
			at = append(at, cp.Step)
		}
		if want := []int{3, 6, 7}; !slices.Equal(at, want) {
			t.Errorf("checkpoints after steps %v, want %v", at, want)
		}
		wantSound(t, st, "s")
	})
}

// With Manual and Interval a crash repeats what followed the last commit, and nothing before it.
func TestManualRepeatsOnlyWhatCameAfterTheLastCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		ran := map[string]int{}
		save := tool("note", func(_ context.Context, call *cairn.Call, in in) (string, error) {
			ran[in.Text]++
			switch in.Text {
			case "2":
				call.Checkpoint()
			case "4":
				if ran["4"] == 1 {
					st.cut()
					call.Checkpoint()
				}
			}
			return "", call.Append([]string{"notes"}, in.Text)
		})
		agent := bot(counter(6), save)
		agent.Durability = cairn.Manual
		_, _ = start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
		bringToEnd(t, st, agent)
		for text, want := range map[string]int{"1": 1, "2": 1, "3": 2, "4": 2, "5": 1} {
			if ran[text] != want {
				t.Errorf("step %s ran %d times, want %d", text, ran[text], want)
			}
		}
		if got := state(t, st.Store, "s"); got != `{"notes":["1","2","3","4","5"]}` {
			t.Errorf("state %s", got)
		}
		wantSound(t, st.Store, "s")
	})
}

// A state that grows step by step is stored anew only now and then, so that the cost of writing and loading it stays
// bounded.
func TestGrowingStateGetsAKeyframeWhenItsChangesOutgrowIt(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(counter(200), tool("note", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "", call.Append([]string{"notes"}, strings.Repeat(in.Text, 50))
	}))
	agent.MaxSteps = 200
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	at, size := load(t, st, "s").State, int64(len(state(t, st, "s")))
	if at.Position != 199 || at.KeyframeBytes < size/4 || at.ChangeBytes > max(at.KeyframeBytes, 4<<10) {
		t.Errorf("a state of %d bytes is kept as %+v", size, at)
	}
	if got := decode[map[string][]string](t, []byte(state(t, st, "s")))["notes"]; len(got) != 199 {
		t.Errorf("%d notes", len(got))
	}
}
