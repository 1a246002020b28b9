package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// diary is a memory that writes down what it learns from.
type diary struct {
	mu    sync.Mutex
	fails func() error
	pages []string // "turn id: texts"
	tries int
}

func (n *diary) Name() string { return "memory" }

func (n *diary) Offer(_ context.Context, step *cairn.Step, _ json.RawMessage) (*cairn.Offer, error) {
	return &cairn.Offer{Pinned: json.RawMessage(`{}`), Note: "remembered for turn " + fmt.Sprint(step.Turn)}, nil
}

func (n *diary) Tools(json.RawMessage) ([]cairn.Tool, error) {
	return []cairn.Tool{echo("search_memory")}, nil
}

func (n *diary) Learn(_ context.Context, turn *cairn.EndedTurn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tries++
	if n.fails != nil {
		if err := n.fails(); err != nil {
			return err
		}
	}
	var texts []string
	for _, m := range turn.Messages {
		if text := m.Text(); text != "" && !m.Hidden {
			texts = append(texts, text)
		}
	}
	n.pages = append(n.pages, turn.ID+" "+string(turn.Run.Status)+": "+strings.Join(texts, "|"))
	return nil
}

func (n *diary) failing(fails func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = fails
}

func (n *diary) learned() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pages)
}

func (n *diary) tried() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tries
}

func unlearned(t *testing.T, st *memstore.Store) []store.Record {
	t.Helper()
	page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: driver.LearnRecords})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// checkLearned checks what a memory has learned from, and that nothing is left to learn from.
func checkLearned(t *testing.T, st *memstore.Store, n *diary, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := n.learned(); !slices.Equal(got, want) {
		t.Errorf("learned from %q, want %q", got, want)
	}
	if left := unlearned(t, st); len(left) > 0 {
		t.Errorf("%d records remain", len(left))
	}
}

// remembers gives an agent a diary.
func remembers(a *cairn.Agent) *diary {
	n := &diary{}
	a.Memory, a.Retry = n, &cairn.RetryPolicy{Max: -1}
	return n
}

// A memory retrieves once per turn, and learns from each turn once it has ended, with the messages of all its runs.
func TestMemoryLearnsFromEndedTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		model := scripted.New(scripted.Text("hello"), scripted.Reply(scripted.Text("wait"), scripted.Call("pay", in{"5"})), scripted.Text("paid"),
			scripted.Fail(cairn.Errorf(cairn.ErrModel, "is down")), scripted.Text("up again"))
		a := bot(model, echo("pay", cairn.RequireApproval()))
		n := remembers(a)
		eng := open(t, st, a)
		first := turn(t, eng, "s", "hi")
		want := []string{first.RunID + " completed: hi|hello"}
		checkLearned(t, st, n, want...)

		asked := turn(t, eng, "s", "pay 5")
		checkLearned(t, st, n, want...) // it has not ended
		if asked.Status != cairn.RunSuspended {
			t.Fatalf("the turn is %s", asked.Status)
		}
		for _, c := range asked.Suspended.Calls {
			if _, err := eng.Submit(t.Context(), "s", cairn.Approve(c)); err != nil {
				t.Fatal(err)
			}
		}
		resumed, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, resumed)
		want = append(want, asked.RunID+" completed: pay 5|wait|paid")
		checkLearned(t, st, n, want...)

		failed := turn(t, eng, "s", "and now?")
		want = append(want, failed.RunID+" failed: and now?")
		checkLearned(t, st, n, want...)
		again, err := eng.Retry(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, again)
		checkLearned(t, st, n, append(want, failed.RunID+" completed: and now?|up again")...)

		notes := 0
		for _, m := range messages(t, st, "s") {
			if m.Hidden && strings.HasPrefix(m.Text(), "remembered for turn") {
				notes++
			}
		}
		if notes != 3 {
			t.Errorf("the model reads %d notes of 3 turns", notes)
		}
		if !slices.ContainsFunc(model.Requests()[1].Tools, func(s cairn.ToolSpec) bool { return s.Name == "search_memory" }) {
			t.Error("the request lacks the memory's tool")
		}
	})
}

// Each ended turn is learned from, at whichever store call of the turn or of the learning the process dies.
func TestTurnIsLearnedWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for k, fired := 1, true; fired; k++ {
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					a := bot(counter(2), note())
					n := remembers(a)
					eng := open(t, st, a, shortLease)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					hit := f.arm(st, k, cancel)
					if run, err := eng.Execute(ctx, "s", "bot", cairn.Text("go")); err == nil {
						_, _ = run.Wait(ctx)
					}
					synctest.Wait()
					if fired = hit(); !fired {
						checkLearned(t, st.Store, n, load(t, st.Store, "s").RunID+" completed: go|round 1 |all done here")
						return
					}
					leave(t, eng)
					other := open(t, tapOn(st.Store), a, shortLease, named("b"))
					worksFor(t, other, 5*time.Minute)
					if exists, err := driver.Exists(t.Context(), st.Store, "s"); err != nil || !exists {
						return // the turn never began
					}
					row := load(t, st.Store, "s")
					got := n.learned()
					if row.Status != cairn.SessionCompleted || len(got) == 0 || !strings.HasPrefix(got[0], row.RunID+" completed: go|round 1") {
						t.Errorf("call %d: the session is %s; learned from %q", k, row.Status, got)
					}
					if left := unlearned(t, st.Store); len(left) > 0 {
						t.Errorf("call %d: %s is still recorded", k, left[0].Value)
					}
				})
			}
		})
	}
}

// A memory that fails is asked again by workers, less and less often, and after a week no more.
func TestMemoryThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, logged := memstore.New(nil), new(bytes.Buffer)
		a := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") }))
		n := remembers(a)
		eng := open(t, st, a, quiet, with(func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(logged, nil)) }))
		n.failing(func() error { panic("out of ink") })
		first := turn(t, eng, "s", "one")
		synctest.Wait()
		if n.tried() != 1 || len(unlearned(t, st)) != 1 {
			t.Fatalf("tried %d times, %d records", n.tried(), len(unlearned(t, st)))
		}
		worksFor(t, eng, time.Hour)
		if n := n.tried(); n < 8 || n > 40 {
			t.Errorf("tried %d times in an hour", n)
		}
		n.failing(nil)
		worksFor(t, eng, 15*time.Minute)
		checkLearned(t, st, n, first.RunID+" completed: one|yes")

		n.failing(func() error { return errAway })
		turn(t, eng, "s", "two")
		testclock.Advance(8 * 24 * time.Hour)
		turn(t, eng, "other", "three")
		testclock.Advance(3 * time.Minute)
		worksFor(t, eng, time.Second)
		if left := unlearned(t, st); len(left) != 1 {
			t.Errorf("%d records remain", len(left))
		}
	})
}

// Nothing is learned from a turn that is no longer in its session, and nothing is recorded for an agent without memory.
func TestNothingIsLearnedFromTurnsThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		a := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") }))
		n := remembers(a)
		eng := open(t, st, a, quiet)
		n.failing(func() error { return errAway })
		turn(t, eng, "deleted", "one")
		turn(t, eng, "rewound", "two")
		at, err := eng.Checkpoint(t.Context(), "rewound")
		if err != nil {
			t.Fatal(err)
		}
		turn(t, eng, "rewound", "two and a half")
		synctest.Wait() // the first attempts to learn have failed
		if err := eng.Delete(t.Context(), "deleted"); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Rewind(t.Context(), "rewound", at.ID); err != nil {
			t.Fatal(err)
		}
		n.failing(nil)
		testclock.Advance(3 * time.Minute)
		worksFor(t, eng, time.Second)
		kept := at.RunID + " completed: two|yes"
		checkLearned(t, st, n, kept)

		forgetful := open(t, st, bot(scripted.New(scripted.Text("yes"))), named("b"))
		turn(t, forgetful, "third", "three")
		checkLearned(t, st, n, kept)
	})
}

// What a memory's model uses counts for the session, and not for a run, also for one that is in progress by then.
func TestUsageOfMemoryIsTheSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		extractor := scripted.New(scripted.Fail(errAway), scripted.Reply(scripted.Pause(time.Second), scripted.Text("facts")).Usage(100, 10))
		a := bot(scripted.New(scripted.Text("one").Usage(1, 1), scripted.Reply(scripted.Pause(time.Minute), scripted.Text("two")).Usage(2, 2)))
		a.Memory = extracts{remembers(a), extractor}
		a.Retry = nil
		eng := open(t, st, a, patient)
		turn(t, eng, "s", "hi")
		second := start(t, eng, "s", "and?")
		testclock.Advance(10 * time.Second)
		if u := load(t, st, "s").Usage; u.InputTokens != 101 || u.ModelCalls != 2 {
			t.Errorf("usage while the second turn runs is %+v", u)
		}
		res := wait(t, second)
		if u := load(t, st, "s").Usage; u.InputTokens != 103 || res.Usage.InputTokens != 2 || res.Usage.ModelCalls != 1 {
			t.Errorf("usage is %+v, of the run %+v", u, res.Usage)
		}
	})
}

// extracts is a diary whose first entry a model writes.
type extracts struct {
	*diary
	model cairn.Model
}

func (e extracts) Learn(ctx context.Context, turn *cairn.EndedTurn) error {
	if turn.Run.Turn > 1 {
		return nil
	}
	text, _, err := turn.Ask(ctx, e.model, &cairn.Request{SessionID: turn.Session.ID, Messages: []cairn.Message{cairn.User(cairn.TextPart("what is new?"))}})
	if err == nil && text != "facts" {
		err = fmt.Errorf("the model said %q", text)
	}
	return err
}

// The end of an engine waits until the memory has learned from the turns that it has ended.
func TestCloseWaitsForLearning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		a := bot(scripted.New(scripted.Reply(scripted.Pause(time.Minute), scripted.Text("yes"))))
		n := remembers(a)
		n.failing(func() error { return testclock.Pause(t.Context(), 20*time.Second) })
		eng := open(t, st, a, patient)
		run := start(t, eng, "s", "go")
		testclock.Advance(time.Second)
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkLearned(t, st, n, run.ID()+" completed: go|yes")
	})
}

// kept is a memory whose values cannot be compared.
type kept struct {
	*diary
	calls []func()
}

func (k kept) Upkeep(context.Context) error {
	for _, call := range k.calls {
		call()
	}
	return nil
}

// Workers do the upkeep of a memory every minute, regardless of its type, and survive its panics.
func TestUpkeepOfMemories(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := 0
		a := bot(scripted.New())
		a.Memory = kept{remembers(a), []func(){func() { done++ }, func() { panic("no ink") }}}
		worksFor(t, open(t, memstore.New(nil), a, quiet), 5*time.Minute+time.Second)
		if done != 6 {
			t.Errorf("%d calls in five minutes", done)
		}
	})
}
