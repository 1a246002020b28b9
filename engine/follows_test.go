package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// given is a message of the user with an id.
func given(id, text string) cairn.Input {
	m := cairn.User(cairn.TextPart(text))
	m.ID = id
	return cairn.Messages(m)
}

// repeater is a model that repeats what the user said last.
func repeater() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return scripted.Text(req.Messages[len(req.Messages)-1].Text())
	})
}

// once gives a session a message that counts once.
func once(t *testing.T, eng *engine.Engine, id, text string, opts ...engine.RunOption) *engine.Run {
	t.Helper()
	run, err := eng.Execute(t.Context(), "s", "bot", given(id, text), append(opts, engine.OncePerMessage())...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// With OnlyNew one write creates a session and begins its turn, and reads nothing. A session that exists is refused.
func TestOnlyNewIsOneWrite(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(repeater()))
	user := []engine.RunOption{engine.OnlyNew(), engine.WithUser("ann"), engine.WithThread("th"), engine.WithTags("vip")}
	run := start(t, eng, "s", "hi", user...)
	if run.Found() || run.Turn() != 1 {
		t.Errorf("the run is found, or has the turn %d", run.Turn())
	}
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	if calls, want := st.seen(), []string{"Commit", "Commit"}; !slices.Equal(calls, want) {
		t.Errorf("store calls %v, want %v", calls, want)
	}
	if row := load(t, st.Store, "s"); row.UserID != "ann" || row.ThreadID != "th" || len(row.Tags) != 1 || row.Turn != 1 {
		t.Errorf("the session is %+v", row)
	}
	for _, eng := range []*engine.Engine{eng, open(t, st.twin(), bot(repeater()), named("b"))} {
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), user...)
		wantError(t, err, cairn.ErrExists)
	}
	if row := load(t, st.Store, "s"); row.Turn != 1 {
		t.Errorf("the session has the turn %d", row.Turn)
	}
	turn(t, eng, "s", "more", engine.WithUser("ann"))
	wantSound(t, st, "s")
	if err := eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), user...)
	wantError(t, err, cairn.ErrDeleted)
}

// Of any number of calls with OnlyNew one creates the session. The one with the same run id finds the run.
func TestOnlyNewSucceedsOnce(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	engines := []*engine.Engine{open(t, st, bot(repeater()), named("a")), open(t, st, bot(repeater()), named("b"))}
	var all sync.WaitGroup
	var mu sync.Mutex
	begun := 0
	for i := range 20 {
		all.Go(func() {
			_, err := engines[i%2].Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.OnlyNew())
			if err != nil && !errors.Is(err, cairn.ErrExists) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				begun++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if begun != 1 {
		t.Errorf("%d calls have begun a turn", begun)
	}
	for i := range 4 {
		run, err := engines[i%2].Execute(t.Context(), "named", "bot", cairn.Text("hi"), engine.OnlyNew(), engine.WithRunID("mine"))
		if err != nil || run.ID() != "mine" || run.Found() != (i > 0) {
			t.Fatalf("call %d: %v, %v", i, run, err)
		}
		wait(t, run)
	}
	if _, err := engines[0].Execute(t.Context(), "named", "bot", cairn.Text("hi"), engine.OnlyNew(), engine.WithRunID("other")); !errors.Is(err, cairn.ErrExists) {
		t.Errorf("another run: %v", err)
	}
}

// Options that say what Execute has to find are for Execute, and not for a turn that replaces another one.
func TestExpectationsAreRefused(t *testing.T) {
	t.Parallel()
	eng := open(t, tapOn(nil), bot(repeater()))
	turn(t, eng, "s", "hi")
	for name, opt := range map[string]engine.RunOption{"OnlyNew": engine.OnlyNew(), "OncePerMessage": engine.OncePerMessage(), "HavingSeen": engine.HavingSeen("x")} {
		_, resumed := eng.Resume(t.Context(), "s", opt)
		_, retried := eng.Retry(t.Context(), "s", opt)
		_, created := eng.Create(t.Context(), "c", "bot", opt)
		_, replaced := eng.Execute(t.Context(), "s", "bot", given("m", "hi"), engine.FromMessage(0), opt)
		for verb, err := range map[string]error{"Resume": resumed, "Retry": retried, "Create": created, "FromMessage": replaced} {
			if !errors.Is(err, cairn.ErrInvalid) {
				t.Errorf("%s of %s: %v", name, verb, err)
			}
		}
	}
	if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.OncePerMessage()); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a message without an id: %v", err)
	}
}

// A message that counts once begins one turn, however often, from wherever and at whatever moment it is given.
func TestMessageBeginsOneTurn(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]engine.OnBusy{"enqueue": engine.BusyEnqueue, "interrupt": engine.BusyInterrupt, "rollback": engine.BusyRollback, "steer": engine.BusySteer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				slow := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					return scripted.Reply(scripted.Pause(time.Minute), scripted.Text(req.Messages[len(req.Messages)-1].Text()))
				})
				engines := []*engine.Engine{open(t, st, bot(slow), named("a")), open(t, st.twin(), bot(slow), named("b"))}
				way := engine.WithOnBusy(busy)
				for _, message := range []string{"m1", "m2", "m3"} {
					var all sync.WaitGroup
					ids := make([]string, 6)
					found := make([]bool, 6)
					for i := range ids {
						all.Go(func() {
							run := once(t, engines[i%2], message, message, way)
							ids[i], found[i] = run.ID(), run.Found()
						})
					}
					all.Wait()
					again := once(t, engines[0], message, message, way)
					if slices.Contains(found, false) && len(slices.DeleteFunc(slices.Clone(found), func(f bool) bool { return f })) != 1 || !again.Found() {
						t.Errorf("%s: the runs %v are found: %v, and the last %v", message, ids, found, again.Found())
					}
				}
				for row := load(t, st.Store, "s"); row.Status == cairn.SessionActive || row.Queued > 0; row = load(t, st.Store, "s") {
					testclock.Advance(time.Second)
				}
				said, want := texts(messages(t, st.Store, "s")), []string{"m1 m2 m3"}
				if busy == engine.BusyRollback { // a turn may begin between the end of another one and its rollback
					want = append(want, "m3", "m1 m3", "m2 m3")
				}
				if !slices.Contains(want, said) {
					t.Errorf("the user said %q, want one of %q", said, want)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

// A message is found in the last turn, though several runs carried it and a summary stands for it, and nowhere else.
func TestMessageOfTheLastTurnIsFound(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	pay := echo("pay", cairn.RequireApproval())
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleUser && last.Text() == "pay" {
			return scripted.Call("pay", in{Text: "x"})
		}
		return scripted.Text(strings.Repeat("word ", 200))
	})
	eng := open(t, st, bot(model, pay), named("a"))
	other := func() *engine.Engine {
		return open(t, st.twin(), bot(model, pay), named(fmt.Sprint("b", time.Now().UnixNano())))
	}
	check := func(what, message string, want bool, run string) {
		t.Helper()
		for _, eng := range []*engine.Engine{eng, other()} {
			if again := once(t, eng, message, "hi"); again.Found() != want || run != "" && again.ID() != run {
				t.Fatalf("%s: run %s is found: %v", what, again.ID(), again.Found())
			} else if wait(t, again); !want {
				return
			}
		}
	}
	first := once(t, eng, "m1", "pay")
	wait(t, first)
	check("a turn that waits", "m1", true, first.ID())
	calls, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
	if err != nil || len(calls.Items) != 1 {
		t.Fatal(calls, err)
	}
	if _, err := eng.Submit(t.Context(), "s", cairn.Approve(calls.Items[0].CallRef)); err != nil {
		t.Fatal(err)
	}
	resumed, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	wait(t, resumed)
	check("a turn of two runs", "m1", true, resumed.ID())
	row, err := eng.Compact(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if row.Summary.From == 0 {
		t.Fatal("the summary stands for nothing")
	}
	check("behind a summary", "m1", true, resumed.ID())
	check("the next message", "m2", false, "")
	checkpoints, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Rewind(t.Context(), "s", checkpoints.Items[len(checkpoints.Items)-2].ID); err != nil {
		t.Fatal(err)
	}
	check("a message that was undone", "m2", false, "")
	wantSound(t, st, "s")
	check("a message of an earlier turn", "m1", false, "")
}

// A turn is refused if the messages that its caller has seen were replaced or undone since, also where it would be queued
// and whatever the process has in memory.
func TestTurnFollowsWhatWasSeen(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]func(t *testing.T, eng *engine.Engine){
		"replaced": func(t *testing.T, eng *engine.Engine) { turn(t, eng, "s", "two again", engine.FromMessage(2)) },
		"rewound": func(t *testing.T, eng *engine.Engine) {
			list, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := eng.Rewind(t.Context(), "s", list.Items[0].ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			gate := make(chan struct{})
			model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				if req.Messages[len(req.Messages)-1].Text() == "slowly" {
					<-gate
				}
				return scripted.Text("yes")
			})
			eng, other := open(t, st, bot(model), named("a")), open(t, st.twin(), bot(model), named("b"))
			one, two := turn(t, eng, "s", "one"), turn(t, eng, "s", "two")
			turn(t, eng, "s", "three", engine.HavingSeen(two.RunID))
			turn(t, eng, "s", "four", engine.HavingSeen(two.RunID)) // not the last one
			changed(t, other)
			refused := func(what string, opts ...engine.RunOption) {
				t.Helper()
				before := load(t, st.Store, "s").Version
				for _, eng := range []*engine.Engine{eng, other, open(t, st.twin(), bot(model), named("c"))} {
					_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("five"), append(opts, engine.HavingSeen(two.RunID))...)
					if !errors.Is(err, cairn.ErrOutdated) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if load(t, st.Store, "s").Version != before {
					t.Errorf("%s: the session has changed", what)
				}
			}
			refused("an idle session")
			run := start(t, eng, "s", "slowly", engine.HavingSeen(one.RunID))
			for name, busy := range map[string]engine.OnBusy{"enqueue": engine.BusyEnqueue, "steer": engine.BusySteer, "interrupt": engine.BusyInterrupt, "rollback": engine.BusyRollback} {
				refused(name, engine.WithOnBusy(busy))
			}
			close(gate)
			wait(t, run)
			if _, err := eng.Compact(t.Context(), "s"); err != nil && !errors.Is(err, cairn.ErrInvalid) {
				t.Fatal(err)
			}
			refused("behind a summary")
			turn(t, eng, "s", "six", engine.HavingSeen("of another session"))
			turn(t, other, "s", "seven", engine.HavingSeen(one.RunID))
			wantSound(t, st, "s")
		})
	}
}

// What a turn has to follow costs no call of the store, whichever process drove the session last.
func TestExpectationsCostNoCalls(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(repeater()), named("a"))
	last := wait(t, once(t, eng, "m1", "hi", engine.OnlyNew()))
	for n := range 3 {
		want := []string{"Commit", "Commit"}
		if n == 1 {
			eng, want = open(t, st, bot(repeater()), named("b")), []string{"Snapshot", "Commit", "Commit"}
		}
		st.seen()
		last = wait(t, once(t, eng, fmt.Sprint("n", n), "hi", engine.HavingSeen(last.RunID)))
		if calls := st.seen(); !slices.Equal(calls, want) {
			t.Errorf("turn %d: store calls %v, want %v", n, calls, want)
		}
	}
}
