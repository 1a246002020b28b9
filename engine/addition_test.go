package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// adder is an agent whose tools, and whose model before it replies, add context to their session as any other caller
// would. The model plays its script by the number of replies that it reads.
type adder struct {
	*cairn.Agent
	eng      *engine.Engine
	requests [][]string
	died     bool // the process of eng
}

func newAdder(t *testing.T, d cairn.Durability, script ...scripted.Step) *adder {
	a := &adder{}
	add := func(ctx context.Context, _ *cairn.Call, in in) (string, error) {
		return "added", a.eng.AddContext(ctx, "s", in.Text)
	}
	a.Agent = bot(scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
		a.requests = append(a.requests, inShort(req.Messages))
		n := 0
		for i := range req.Messages {
			if req.Messages[i].Role == cairn.RoleAssistant {
				n++
			}
		}
		if n == len(script)-1 {
			if err := a.eng.AddContext(ctx, "s", "late"); err != nil && !a.died {
				t.Error(err)
			}
		}
		return script[min(n, len(script)-1)]
	}), tool("add", add), echo("echo"), echo("ask", cairn.RequireApproval()))
	a.Durability = d
	return a
}

// inShort returns messages in short.
func inShort(messages []cairn.Message) (list []string) {
	for i := range messages {
		m := &messages[i]
		text := m.Text()
		for _, use := range m.ToolUses() {
			text += " calls " + use.Tool
		}
		for _, r := range m.ToolResults() {
			text += " result of " + r.Tool
		}
		list = append(list, string(m.Role)+" "+strings.TrimSpace(text))
	}
	return list
}

// wantAppended checks that each request begins with the one before it, and that the transcript begins with the last.
func (a *adder) wantAppended(t *testing.T, st store.Store) {
	t.Helper()
	for i, list := range append(slices.Clone(a.requests), inShort(messages(t, st, "s"))) {
		if i == 0 {
			continue
		}
		if before := a.requests[i-1]; len(list) <= len(before) || !slices.Equal(list[:len(before)], before) {
			t.Errorf("after the request %q comes %q", before, list)
		}
	}
}

// wantAnnounced checks that the log has each hidden message of a session, which was added while a run held it, once, at its
// index and as the run's.
func wantAnnounced(t *testing.T, st *tap, want ...string) {
	t.Helper()
	list := messages(t, st.Store, "s")
	var got []string
	for _, ev := range history(t, st, "s") {
		if ev.Type != cairn.EventContextAdded {
			continue
		}
		got = append(got, ev.Text)
		if ev.Index >= len(list) || list[ev.Index].ID != ev.MessageID {
			t.Errorf("%q is announced at %d, the transcript is %q", ev.Text, ev.Index, inShort(list))
		} else if m := &list[ev.Index]; m.RunID == "" || ev.RunID != m.RunID {
			t.Errorf("%q is announced by run %q, and of run %q", ev.Text, ev.RunID, m.RunID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log announces %q, want %q", got, want)
	}
	if row := load(t, st.Store, "s"); row.Queued != 0 {
		t.Errorf("%d entries are left in the queue", row.Queued)
	}
	wantSound(t, st, "s")
}

// The transcript has added context where the model first saw it, whatever was not committed when it was added.
func TestAddedContextFollowsWhatTheModelHasSeen(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			a := newAdder(t, d, scripted.Call("echo", in{}), scripted.Call("add", in{"one"}),
				scripted.Reply(scripted.Call("add", in{"two"}), scripted.Call("echo", in{})), scripted.Call("echo", in{}), scripted.Text("ok"))
			a.eng = open(t, st, a.Agent)
			wantStatus(t, turn(t, a.eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
			a.wantAppended(t, st)
			for i, text := range map[int]string{2: "one", 3: "two"} {
				if last := a.requests[i]; last[len(last)-1] != "user "+text {
					t.Errorf("request %d is %q, want %q at its end", i+1, last, text)
				}
			}
			wantAnnounced(t, st, "one", "two", "late")
			if run := runsOf(t, st, "s")[0]; run.FirstMessage != 0 || run.Steps != 5 {
				t.Errorf("the run is %+v", run)
			}

			turn(t, a.eng, "s", "go on")
			a.wantAppended(t, st)
		})
	}
}

// Context that was added while the model made its last reply comes after it. The turn has ended all the same.
func TestContextAddedDuringTheLastReply(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			a := newAdder(t, d, scripted.Text("ok"))
			a.eng = open(t, st, a.Agent)
			if res := turn(t, a.eng, "s", "go"); res.Text != "ok" {
				t.Errorf("the answer is %q", res.Text)
			}
			if got := inShort(messages(t, st, "s")); !slices.Equal(got, []string{"user go", "assistant ok", "user late"}) {
				t.Errorf("the transcript is %q", got)
			}
			wantAnnounced(t, st, "late")
			for to, n := range map[string]int{"before": 2, "behind": 3} {
				if status, err := driver.StatusAt(t.Context(), st, "s", n); err != nil || status != cairn.SessionCompleted {
					t.Errorf("%s the addition the session is %s, %v", to, status, err)
				}
			}
		})
	}
}

// Added context is durable at once. The process that takes the run over shows it to the model, behind what the dead
// process has kept.
func TestAddedContextOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dead := tapOn(nil)
				st := tapOn(dead.Store)
				a := newAdder(t, d, scripted.Call("echo", in{}), scripted.Call("add", in{"news"}), scripted.Text("ok"))
				a.Hooks = &cairn.Hooks{AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
					if call.Tool == "add" && !a.died {
						a.died = true
						dead.cut()
					}
				}}
				a.eng = open(t, dead, a.Agent, shortLease)
				run := start(t, a.eng, "s", "go")
				if _, err := run.Wait(t.Context()); err == nil {
					t.Fatal("the run did not end")
				}
				testclock.Advance(2 * ttl)
				kept := a.requests
				a.requests = nil
				a.eng = open(t, st, a.Agent, shortLease, named("b"))
				again, err := a.eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				wantStatus(t, wait(t, again), cairn.RunCompleted, cairn.ReasonReply)
				a.wantAppended(t, st)
				if !slices.Contains(a.requests[0], "user news") {
					t.Errorf("the model is asked with %q, and before that with %q", a.requests[0], kept)
				}
				if got := inShort(messages(t, st.Store, "s")); got[0] != "user go" || got[len(got)-2] != "assistant ok" {
					t.Errorf("the transcript is %q", got)
				}
				if d == cairn.PerTool { // the call that added it has its result
					wantAnnounced(t, st, "news", "late")
				} else { // it is made again
					wantAnnounced(t, st, "news", "news", "late")
				}
			})
		})
	}
}

// A run that is ended without being driven on keeps added context.
func TestEndOfADeadRunKeepsAddedContext(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dead := tapOn(nil)
				st := tapOn(dead.Store)
				a := newAdder(t, d, scripted.Call("echo", in{}), scripted.Text("never"))
				a.Model = scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
					dead.cut()
					return scripted.Text("lost")
				})
				a.eng = open(t, dead, a.Agent, shortLease)
				run := start(t, a.eng, "s", "go")
				if _, err := run.Wait(t.Context()); err == nil {
					t.Fatal("the run did not end")
				}
				other := open(t, st, a.Agent, shortLease, named("b"))
				if err := other.AddContext(t.Context(), "s", "news"); err != nil {
					t.Fatal(err)
				}
				testclock.Advance(2 * ttl)
				if err := other.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := inShort(messages(t, st.Store, "s")); !slices.Equal(got, []string{"user go", "user news"}) {
					t.Errorf("the transcript is %q", got)
				}
				wantAnnounced(t, st, "news")
			})
		})
	}
}

// A step that waits for a person keeps the context that was added in the meantime. The model reads it after the results
// of the step's calls.
func TestContextAddedToAStepThatWaits(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			a := newAdder(t, d, scripted.Call("echo", in{}), scripted.Reply(scripted.Call("add", in{"news"}), scripted.Call("ask", in{})), scripted.Text("ok"))
			a.eng = open(t, st, a.Agent)
			if res := turn(t, a.eng, "s", "go"); res.Status != cairn.RunSuspended {
				t.Fatalf("the run is %s", res.Status)
			}
			wantAnnounced(t, st, "news")
			page, err := a.eng.Inbox(t.Context(), store.CallQuery{SessionID: "s"})
			if err != nil || len(page.Items) != 1 {
				t.Fatalf("%d calls wait: %v", len(page.Items), err)
			}
			if _, err := a.eng.Submit(t.Context(), "s", cairn.Approve(page.Items[0].CallRef)); err != nil {
				t.Fatal(err)
			}
			run, err := a.eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
			last := a.requests[len(a.requests)-1]
			if at := slices.Index(last, "user news"); at < 0 || slices.ContainsFunc(last[at:], func(m string) bool { return strings.Contains(m, "result of") }) {
				t.Errorf("the model is asked with %q", last)
			}
			wantAnnounced(t, st, "news", "late")
		})
	}
}

// Added context is not a turn: it is neither listed nor removed, and nothing begins because of it.
func TestAddedContextIsNotAQueuedTurn(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	gate := make(chan struct{})
	eng := open(t, st, bot(scripted.New(scripted.Reply(scripted.Gate(gate), scripted.Text("one")), scripted.Text("two"))))
	run := start(t, eng, "s", "go")
	if err := eng.AddContext(t.Context(), "s", "news"); err != nil {
		t.Fatal(err)
	}
	next := start(t, eng, "s", "next", engine.WithOnBusy(engine.BusyEnqueue))
	queue, err := driver.Queue(t.Context(), st, "s")
	if err != nil || len(queue) != 2 {
		t.Fatalf("the queue is %+v, %v", queue, err)
	}
	turns, err := eng.Queue(t.Context(), "s")
	if err != nil || len(turns) != 1 || turns[0].ID != next.ID() {
		t.Errorf("the turns are %+v, %v", turns, err)
	}
	if snap, err := eng.Snapshot(t.Context(), "s"); err != nil || len(snap.Queue) != 1 {
		t.Errorf("the snapshot is %+v, %v", snap, err)
	}
	wantError(t, eng.Dequeue(t.Context(), "s", queue[0].ID), cairn.ErrNotFound)
	close(gate)
	wait(t, run)
	wait(t, next)
	if got := inShort(messages(t, st, "s")); !slices.Equal(got, []string{"user go", "assistant one", "user news", "user next", "assistant two"}) {
		t.Errorf("the transcript is %q", got)
	}
	wantAnnounced(t, st, "news")
}

// A step that the store rejects does not take added context with it.
func TestUnstorableStepKeepsAddedContext(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	a := newAdder(t, cairn.PerStep, scripted.Call("add", in{"news"}), scripted.Text("never"))
	committed := 0
	st.stepIn(func(_ context.Context, op string) error {
		if op != "Commit" {
			return nil
		}
		if committed++; committed == 3 { // after the beginning and the addition
			return cairn.Invalid("messages", "cannot be stored")
		}
		return nil
	}, nil)
	a.eng = open(t, st, a.Agent)
	wantStatus(t, turn(t, a.eng, "s", "go"), cairn.RunFailed, cairn.ReasonError)
	if got := inShort(messages(t, st, "s")); !slices.Equal(got, []string{"user go", "user news"}) {
		t.Errorf("the transcript is %q", got)
	}
	wantAnnounced(t, st, "news")
}

// A process that dies between the last commit of a run and its events leaves them to the next one.
func TestAddedContextIsAnnouncedByTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			dead := tapOn(nil)
			st := tapOn(dead.Store)
			a := newAdder(t, d, scripted.Call("echo", in{}), scripted.Text("ok"))
			a.eng = open(t, dead, a.Agent)
			dead.stepIn(nil, func(_ context.Context, op string) error {
				if op == "Commit" && load(t, dead.Store, "s").Status == cairn.SessionCompleted {
					dead.cut()
				}
				return nil
			})
			run := start(t, a.eng, "s", "go")
			_, _ = run.Wait(t.Context())
			if got := inShort(messages(t, st.Store, "s")); got[len(got)-1] != "user late" {
				t.Fatalf("the transcript is %q", got)
			}
			a.eng = open(t, st, bot(scripted.New(scripted.Text("yes"))), named("b"))
			turn(t, a.eng, "s", "go on")
			wantAnnounced(t, st, "late")
		})
	}
}
