package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// ruled gives an engine rules.
func ruled(rules ...cairn.BudgetRule) option {
	return with(func(o *engine.Options) { o.Budgets = rules; atPrices(o) })
}

// spentOf returns what a rule counts.
func spentOf(t *testing.T, eng *engine.Engine, rule, of string) float64 {
	t.Helper()
	list, err := eng.BudgetSpent(t.Context(), rule, of)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].Spent
}

// usedBy returns the model calls and the cost that the rows of a user's sessions have.
func usedBy(t *testing.T, st store.Store, user string) (sum cairn.Usage) {
	t.Helper()
	for row, err := range store.All(func(cursor string) (store.Page[cairn.Session], error) {
		return st.List(context.Background(), store.SessionQuery{UserID: user, Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		sum = sum.Add(row.Usage)
	}
	return sum
}

// Fifty runs of a user share a budget in two processes, which die again and again. They exceed it by at most the calls
// in progress, and its count equals the usage of the sessions in the end.
func TestBudgetOfAUserInDyingProcesses(t *testing.T) {
	t.Parallel()
	const runs, limit, call = 50, 400, 3 // cents
	const atOnce = 16                    // reservations that do not see each other
	synctest.Test(t, func(t *testing.T) {
		// A call costs three cents, and as much is estimated: 10,000 tokens of input, and 2,000 of output.
		work := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			steps := 0
			for i := range req.Messages {
				if req.Messages[i].Role == cairn.RoleAssistant {
					steps++
				}
			}
			step := scripted.Call("note", in{fmt.Sprint(steps)})
			if steps == 3 {
				step = scripted.Text("done")
			}
			return scripted.Reply(scripted.Pause(time.Second), step).Usage(10_000, 2_000)
		})
		agent := bot(work, note())
		agent.Settings.MaxOutputTokens = 2_000
		agent.Durability = cairn.PerTool
		rule := cairn.BudgetRule{Name: "daily", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Budget: cairn.Budget{USD: limit / 100.0, OnLimit: cairn.BudgetFails}}
		store := tapOn(nil)
		short := with(func(o *engine.Options) { o.LeaseTTL, o.WorkInterval = 3*time.Second, time.Second })
		var taps []*tap
		var processes []*engine.Engine
		born := 0
		process := func() (*tap, *engine.Engine) {
			born++
			tap := store.twin()
			eng := open(t, tap, agent, ruled(rule), short, named(fmt.Sprint("p", born)))
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			go func() { _ = eng.Work(ctx) }()
			return tap, eng
		}
		for range 2 {
			tap, eng := process()
			taps, processes = append(taps, tap), append(processes, eng)
		}
		for i := range runs {
			run, err := processes[i%2].Execute(t.Context(), fmt.Sprint("s", i), "bot", cairn.Text("go"), engine.WithUser("ann"))
			if err != nil {
				t.Fatal(err)
			}
			_ = run
		}
		for kill := range 4 {
			testclock.Advance(700 * time.Millisecond) // in the middle of calls
			taps[kill%2].cut()
			taps[kill%2], processes[kill%2] = process()
		}
		testclock.Advance(10 * time.Minute)
		ended := map[cairn.SessionStatus]int{}
		for i := range runs {
			ended[load(t, store, fmt.Sprint("s", i)).Status]++
		}
		if ended[cairn.SessionCompleted]+ended[cairn.SessionFailed] != runs || ended[cairn.SessionFailed] == 0 {
			t.Errorf("sessions: %v", ended)
		}
		rows := usedBy(t, store, "ann").CostNanos / 10_000_000
		if rows < limit-atOnce*call || rows > limit+atOnce*call { // a run also fails for reservations that come to nothing
			t.Errorf("the rows have %d cents: want at least %d, and at most %d", rows, limit-atOnce*call, limit+atOnce*call)
		}
		if spent := spentOf(t, processes[0], "daily", "ann"); int64(spent*100+0.5) != rows {
			t.Errorf("the budget counts %v dollars, the rows have %d cents", spent, rows)
		}
		t.Logf("%d processes, sessions %v, %d cents of %d", born, ended, rows, limit)
	})
}

// The runs of a budget that asks wait, a raise lasts for the period, and the next period begins anew.
func TestBudgetOfAPeriodAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		rule := cairn.BudgetRule{Name: "hourly", Scope: cairn.BudgetOfAgent, Of: "bot", Period: cairn.BudgetDay, Zone: zone.String(), Budget: cairn.Budget{Steps: 2, Reviewers: []string{"ann"}}}
		st := tapOn(nil)
		eng := open(t, st, bot(counter(1)), ruled(rule))
		for i := range 2 {
			wantStatus(t, turn(t, eng, fmt.Sprint("s", i), "go"), cairn.RunCompleted, cairn.ReasonReply)
		}
		for i := 2; i < 4; i++ {
			wantStatus(t, turn(t, eng, fmt.Sprint("s", i), "go"), cairn.RunSuspended, cairn.ReasonCalls)
		}
		call, r := openBudget(t, eng, "s2")
		if r.Rule != "hourly" || r.Of != "bot" || r.Per != "day" || r.Spent != 2 || r.Limit != 2 || r.Until.In(zone).Hour() != 0 || !strings.Contains(call.Prompt, `"hourly" of bot`) {
			t.Errorf("the report is %+v, the prompt %q", r, call.Prompt)
		}
		if _, err := eng.Submit(t.Context(), "s2", cairn.RaiseBudget(call.CallRef, 1).By("ann")); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), "s2")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, turn(t, eng, "s4", "go"), cairn.RunSuspended, cairn.ReasonCalls)
		if list, err := eng.BudgetSpent(t.Context(), "hourly", "bot"); err != nil || list[0].Spent != 3 || list[0].Limit != 3 {
			t.Errorf("the budget is %+v, %v", list, err)
		}
		testclock.Advance(time.Until(r.Until))
		wantStatus(t, turn(t, eng, "s5", "go"), cairn.RunCompleted, cairn.ReasonReply)
		warnings := 0
		for _, id := range []string{"s0", "s1", "s2", "s3", "s4", "s5"} {
			for _, ev := range history(t, st, id) {
				if ev.Type == cairn.EventBudgetWarning {
					warnings++
				}
			}
			wantSound(t, st, id)
		}
		if warnings != 1 {
			t.Errorf("%d warnings, want one", warnings)
		}
	})
}

// Sessions that wait for the budget of a period continue when the next one begins, as far as it suffices, unless they may
// not wait so long.
func TestSessionsContinueInTheNextPeriod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		atMost time.Duration
		want   []cairn.RunStatus // in the next period, sorted
	}{
		"as long as it takes":      {0, []cairn.RunStatus{cairn.RunCompleted, cairn.RunSuspended, cairn.RunSuspended}},
		"longer than a period":     {24 * time.Hour, []cairn.RunStatus{cairn.RunCompleted, cairn.RunSuspended, cairn.RunSuspended}},
		"not into the next period": {time.Minute, []cairn.RunStatus{cairn.RunInterrupted, cairn.RunInterrupted, cairn.RunInterrupted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rule := cairn.BudgetRule{Name: "hourly", Scope: cairn.BudgetOfAgent, Period: cairn.BudgetHour, Budget: cairn.Budget{Steps: 1}}
				st := tapOn(nil)
				eng := open(t, st, bot(counter(1)), ruled(rule), with(func(o *engine.Options) {
					o.WaitAtMost, o.WorkConcurrency = c.atMost, 1 // model calls that begin at once may pass the limit together
				}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = eng.Work(ctx) }()
				wantStatus(t, turn(t, eng, "first", "go"), cairn.RunCompleted, cairn.ReasonReply)
				for i := range 3 {
					wantStatus(t, turn(t, eng, fmt.Sprint("s", i), "go"), cairn.RunSuspended, cairn.ReasonCalls)
				}
				ended := func() (list []cairn.RunStatus) {
					for i := range 3 {
						runs, err := st.Runs(t.Context(), fmt.Sprint("s", i), driver.PageQuery{Newest: true, Limit: 1})
						if err != nil {
							t.Fatal(err)
						}
						list = append(list, runs.Items[0].Status)
					}
					slices.Sort(list)
					return list
				}
				_, r := openBudget(t, eng, "s0")
				testclock.Advance(time.Until(r.Until) - time.Second)
				if got := ended(); c.atMost != time.Minute && slices.Contains(got, cairn.RunCompleted) {
					t.Errorf("a second before the period ends: %v", got)
				}
				testclock.Advance(10 * time.Minute)
				if got := ended(); !slices.Equal(got, c.want) {
					t.Errorf("in the next period: %v, want %v", got, c.want)
				}
				testclock.Advance(2 * time.Hour)
				if got := ended(); c.atMost != time.Minute && !slices.Equal(got, []cairn.RunStatus{cairn.RunCompleted, cairn.RunCompleted, cairn.RunCompleted}) {
					t.Errorf("two periods later: %v", got)
				}
				for i := range 3 {
					wantSound(t, st, fmt.Sprint("s", i))
				}
			})
		})
	}
}

// A raise of one budget is kept although another one, used up meanwhile, asks before it.
func TestRaiseIsKeptWhileAnotherBudgetAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, tapOn(nil), bot(counter(1)), ruled(
			cairn.BudgetRule{Name: "agents", Scope: cairn.BudgetOfAgent, Period: cairn.BudgetDay, Budget: cairn.Budget{Steps: 2}},
			cairn.BudgetRule{Name: "users", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Budget: cairn.Budget{Steps: 1}}))
		raise := func(rule string) {
			t.Helper()
			call, r := openBudget(t, eng, "s2")
			if r.Rule != rule {
				t.Fatalf("the budget %q asks, want %q", r.Rule, rule)
			}
			if _, err := eng.Submit(t.Context(), "s2", cairn.RaiseBudget(call.CallRef, 1)); err != nil {
				t.Fatal(err)
			}
		}
		resume := func() *cairn.Result {
			t.Helper()
			run, err := eng.Resume(t.Context(), "s2")
			if err != nil {
				t.Fatal(err)
			}
			return wait(t, run)
		}
		wantStatus(t, turn(t, eng, "s1", "go", engine.WithUser("ann")), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, turn(t, eng, "s2", "go", engine.WithUser("ann")), cairn.RunSuspended, cairn.ReasonCalls)
		raise("users")
		wantStatus(t, turn(t, eng, "s3", "go", engine.WithUser("bob")), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, resume(), cairn.RunSuspended, cairn.ReasonCalls)
		raise("agents")
		wantStatus(t, resume(), cairn.RunCompleted, cairn.ReasonReply)
	})
}

// A run that continues in the next period counts in both.
func TestBudgetOfPeriodsThatARunCrosses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := scripted.Reply(scripted.Pause(25*time.Minute), scripted.Call("note", in{"x"})).Usage(1, 1)
		rule := cairn.BudgetRule{Name: "hourly", Scope: cairn.BudgetOfUser, Period: cairn.BudgetHour, Budget: cairn.Budget{Steps: 9}}
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(slow, slow, slow, scripted.Text("done")), note()), ruled(rule), patient)
		res, err := start(t, eng, "s", "go", engine.WithUser("ann")).Wait(t.Context()) // begins at midnight, ends at 1:15
		if err != nil {
			t.Fatal(res, err)
		}
		// The third call began in the first hour, so only the fourth one counts.
		if n := spentOf(t, eng, "hourly", "ann"); n != 1 {
			t.Errorf("%v calls in the second hour, want 1", n)
		}
	})
}

// Tenants, users and tags have budgets of their own; sub-agents work for the user, with the tags of the root.
func TestBudgetRulesApplyToTheirOwners(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: counter(2), Tools: []cairn.Tool{note()}}
	agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) > 1 {
			return scripted.Text("done")
		}
		return scripted.Call("helper", map[string]string{"input": "do it"})
	}), cairn.SubAgent(helper))
	steps := cairn.Budget{Steps: 100}
	st := tapOn(nil)
	eng := open(t, st, agent, ruled(
		cairn.BudgetRule{Name: "user", Scope: cairn.BudgetOfUser, Period: cairn.BudgetMonth, Budget: steps},
		cairn.BudgetRule{Name: "tenant", Scope: cairn.BudgetOfTenant, Period: cairn.BudgetMonth, Budget: steps},
		cairn.BudgetRule{Name: "tag", Scope: cairn.BudgetOfTag, Of: "beta", Period: cairn.BudgetMonth, Budget: steps},
		cairn.BudgetRule{Name: "helper", Scope: cairn.BudgetOfAgent, Of: "helper", Period: cairn.BudgetMonth, Budget: steps}))
	start := func(id, user string, tags ...string) {
		t.Helper()
		res := turn(t, eng, id, "go", engine.WithUser(user), engine.WithTags(tags...))
		wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	}
	start("a::s", "ann", "beta", "new")
	start("b::s", "ann", "new")
	start("c", "ann")
	for _, c := range []struct {
		rule, of string
		want     float64
	}{{"user", "a::ann", 4}, {"user", "b::ann", 4}, {"user", "ann", 4}, {"tenant", "a", 4}, {"tenant", "c", 0}, {"tag", "beta", 4}, {"helper", "helper", 6}} {
		if n := spentOf(t, eng, c.rule, c.of); n != c.want {
			t.Errorf("the budget %q of %s counts %v calls, want %v", c.rule, c.of, n, c.want)
		}
	}
	for rule, of := range map[string]string{"none": "x", "tag": "new", "user": ""} {
		if _, err := eng.BudgetSpent(t.Context(), rule, of); err == nil {
			t.Errorf("the budget %q of %q is known", rule, of)
		}
	}
}

func TestMistakesInBudgetRules(t *testing.T) {
	t.Parallel()
	good := cairn.BudgetRule{Name: "r", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Budget: cairn.Budget{Steps: 1}}
	for says, change := range map[string]func(*cairn.BudgetRule){
		"name: is empty":                 func(r *cairn.BudgetRule) { r.Name = "" },
		`scope: unknown scope "team"`:    func(r *cairn.BudgetRule) { r.Scope = "team" },
		`period: unknown period "week"`:  func(r *cairn.BudgetRule) { r.Period = "week" },
		`zone: unknown time zone "Mars"`: func(r *cairn.BudgetRule) { r.Zone = "Mars" },
		"has no limit":                   func(r *cairn.BudgetRule) { r.Steps = 0 },
		"Per and Time must not be set":   func(r *cairn.BudgetRule) { r.Time = 1 },
		"is negative":                    func(r *cairn.BudgetRule) { r.Tokens = -1 },
		"of: ":                           func(r *cairn.BudgetRule) { r.Of = "\xff" },
	} {
		rule := good
		change(&rule)
		if _, err := engine.New(tapOn(nil), nil, &engine.Options{Budgets: []cairn.BudgetRule{rule}}); err == nil || !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
	if _, err := engine.New(tapOn(nil), nil, &engine.Options{Budgets: []cairn.BudgetRule{good, good}}); err == nil {
		t.Error("two rules of one name are accepted")
	}
	if _, err := engine.New(unrecorded{tapOn(nil).Store}, nil, &engine.Options{Budgets: []cairn.BudgetRule{good}}); err == nil || !strings.Contains(err.Error(), "records") {
		t.Errorf("without records: error %v", err)
	}
}

// unrecorded is a store without records.
type unrecorded struct{ driver.Store }

func (u unrecorded) Self() driver.Store { return u }

// A process dies right after the commit that ends its run, and another one in the middle of a model call. Their
// reservations lapse, and what the rows have takes their place.
func TestReservationsOfDeadProcessesLapse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := cairn.BudgetRule{Name: "daily", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Budget: cairn.Budget{Tokens: 1e6}}
		agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) == 1 {
				return scripted.Call("note", in{"x"}).Usage(100, 10)
			}
			return scripted.Reply(scripted.Pause(time.Second), scripted.Text("done")).Usage(200, 20)
		}), note())
		st := tapOn(nil)
		short := with(func(o *engine.Options) { o.LeaseTTL = 3 * time.Second })
		ending, calling := st.twin(), st.twin()
		ending.stepIn(nil, func(_ context.Context, op string) error {
			if op == "Commit" && load(t, st, "ends").Status == cairn.SessionCompleted {
				ending.cut()
			}
			return nil
		})
		start(t, open(t, ending, agent, ruled(rule), short, named("a")), "ends", "go", engine.WithUser("ann"))
		start(t, open(t, calling, agent, ruled(rule), short, named("b")), "calls", "go", engine.WithUser("ann"))
		testclock.Advance(500 * time.Millisecond)
		calling.cut()
		testclock.Advance(time.Second)
		eng := open(t, st, agent, ruled(rule), short, named("c"))
		if n := spentOf(t, eng, "daily", "ann"); n < 220+2*cairn.BudgetOutput { // both reservations still stand
			t.Errorf("%v tokens are used or reserved", n)
		}
		testclock.Advance(time.Minute)
		rows := usedBy(t, st, "ann")
		if n := spentOf(t, eng, "daily", "ann"); int64(n) != rows.InputTokens+rows.OutputTokens || n != 440 {
			t.Errorf("%v tokens are used, the rows have %+v", n, rows)
		}
		run, err := eng.Resume(t.Context(), "calls")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if n := spentOf(t, eng, "daily", "ann"); n != 660 {
			t.Errorf("%v tokens are used, want 660", n)
		}
	})
}
