package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// described returns a situation as a line, with times as durations since from.
func described(s *cairn.Situation, from time.Time) string {
	var words []string
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "[]" {
			words = append(words, strings.TrimPrefix(name+"="+text, "="))
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprint(t.Sub(from).Round(time.Second))
	}
	add("", s.Kind)
	add("since", at(s.Since))
	add("until", at(s.Until))
	add("verbs", s.Verbs)
	add("open", s.OpenCalls)
	if c := s.Call; c != nil {
		add("call", c.Tool)
		add("input", string(c.Input))
		add("prompt", c.Prompt)
		add("reviewers", c.Reviewers)
		add("voted", c.Voted)
		add("claimed", c.ClaimedBy)
		if c.Budget != nil {
			add("budget", fmt.Sprintf("%v/%v %s", c.Budget.Spent, c.Budget.Limit, c.Budget.Unit))
		}
	}
	add("agent", s.Agent)
	add("tool", s.Tool)
	add("step", s.Step)
	add("attempt", s.Attempt)
	if s.Owner != "" {
		add("owner", s.Owner[strings.LastIndexByte(s.Owner, ':')+1:])
		add("seen", at(s.SeenAt))
	}
	if s.Workers != nil {
		words = append(words, fmt.Sprintf("workers=%d", *s.Workers))
	}
	add("queued", s.Queued)
	add("by", s.StoppedBy)
	add("reason", s.Reason)
	if s.Error != nil {
		add("error", s.Error.Code)
	}
	return strings.Join(words, " ")
}

// situated is an agent whose user says what it does.
func situated() *cairn.Agent {
	clerk := &cairn.Agent{Name: "clerk", Description: "Refunds.", Tools: []cairn.Tool{echo("refund", cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "stock"))},
		Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Call("refund", in{"42"}) })}
	slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	ask := tool("ask", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
		var where string
		return where, call.Ask(ctx, "Which address?", nil, &where)
	})
	connect := tool("connect", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
		return "", call.Connect(ctx, "Connect the account.", "https://accounts.example/connect")
	})
	calls := 0
	agent := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		switch what := last.Text(); {
		case last.Role == cairn.RoleTool:
			return scripted.Text("Done.")
		case what == "fail":
			return scripted.Fail(cairn.Errorf(cairn.ErrAuth, "key sk-1 was refused"))
		case what == "busy" && calls == 0:
			calls++
			return scripted.Fail(&cairn.Error{Code: cairn.ErrRateLimited, Message: "too many requests", RetryAfter: cairn.Duration(40 * time.Second)})
		case what == "think" || what == "busy":
			return scripted.Pause(time.Hour)
		case what == "write":
			return scripted.Text("One two three four").Pace(time.Minute)
		case what == "clerk":
			return scripted.Call("clerk", map[string]string{"input": "refund it"})
		case strings.HasPrefix(what, "hello"):
			return scripted.Text("Hello.")
		default:
			return scripted.Call(what, in{"42"})
		}
	}), echo("refund", cairn.RequireApproval(), cairn.WaitAtMost(3*time.Hour)), slow, ask, connect,
		echo("both", cairn.RequireApproval(), cairn.AssignTo(cairn.AllReviewers, "ann", "ben")),
		cairn.ClientTool[in, string]("locate", "Locates."), cairn.SubAgent(clerk))
	return agent
}

// The situation of a session is what its engine has written, for each kind.
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, says string
		then       func(t *testing.T, eng *engine.Engine)
		want, list string // list is of the same session in a list, if it differs
	}{
		{name: "approval", says: "refund", want: `approval since=0s until=3h0m0s verbs=[approve stop] open=1 call=refund input={"text":"42"} step=1`},
		{name: "claimed", says: "refund", then: func(t *testing.T, eng *engine.Engine) {
			claimed(t, eng, "ann")
		}, want: `approval since=0s until=3h0m0s verbs=[approve stop] open=1 call=refund input={"text":"42"} claimed=ann step=1`},
		{name: "quorum", says: "both", then: func(t *testing.T, eng *engine.Engine) {
			submit(t, eng, "s", cairn.Approve(onlyCall(t, eng)).By("ben"), cairn.OutcomeAccepted)
		}, want: `approval since=0s verbs=[approve stop] open=1 call=both input={"text":"42"} reviewers=[ann ben] voted=[ben] step=1`},
		{name: "overdue", says: "refund", then: func(*testing.T, *engine.Engine) { testclock.Advance(4 * time.Hour) },
			want: "worker since=3h0m0s verbs=[resume stop] open=1 step=1 workers=0"},
		{name: "answered", says: "refund", then: func(t *testing.T, eng *engine.Engine) {
			testclock.Advance(time.Minute)
			submit(t, eng, "s", cairn.Approve(onlyCall(t, eng)), cairn.OutcomeAccepted)
		}, want: "worker since=1m0s verbs=[resume stop] step=1 workers=0"},
		{name: "question", says: "ask", want: `answer since=0s verbs=[answer stop] open=1 call=ask input={"text":"42"} prompt=Which address? step=1`},
		{name: "client tool", says: "locate", want: `client_tool since=0s verbs=[answer stop] open=1 call=locate input={"text":"42"} step=1`},
		{name: "account", says: "connect", want: `account since=0s verbs=[connect stop] open=1 call=connect input={"text":"42"} prompt=Connect the account. step=1`},
		{name: "sub-agent", says: "clerk", want: `child since=0s verbs=[approve stop] open=1 call=refund input={"text":"42"} reviewers=[stock] agent=clerk step=1`},
		{name: "done", says: "hello", want: "done since=0s step=1 reason=reply", list: "done since=0s step=1"},
		{name: "failed", says: "fail", want: "failed since=0s verbs=[retry] reason=error error=authentication"},
		{name: "stopped", says: "slow", then: func(t *testing.T, eng *engine.Engine) {
			testclock.Advance(time.Minute)
			if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
		}, want: "stopped since=1m0s verbs=[resume] step=1 reason=enough"},
		{name: "stopped by a person", says: "slow", then: func(t *testing.T, eng *engine.Engine) {
			if err := eng.Interrupt(t.Context(), "s", "enough", engine.StoppedBy("j.amsel")); err != nil {
				t.Fatal(err)
			}
		}, want: "stopped since=0s verbs=[resume] step=1 by=j.amsel reason=enough"},
		{name: "wait stopped by a person", says: "clerk", then: func(t *testing.T, eng *engine.Engine) {
			if err := eng.Abort(t.Context(), "s", "enough", engine.StoppedBy("j.amsel")); err != nil {
				t.Fatal(err)
			}
		}, want: "failed since=0s verbs=[retry] step=1 by=j.amsel reason=enough error=aborted"},
		{name: "retry", says: "busy", then: func(*testing.T, *engine.Engine) { testclock.Advance(30 * time.Second) },
			want: "retry since=0s until=40s verbs=[stop] step=1 attempt=2 owner=engine_1 seen=30s error=rate_limited",
			list: "running since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=30s"},
		{name: "second attempt", says: "busy", then: func(*testing.T, *engine.Engine) { testclock.Advance(50 * time.Second) },
			want: "model since=40s verbs=[stop] step=1 attempt=2 owner=engine_1 seen=50s",
			list: "running since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=50s"},
		{name: "tool", says: "slow", then: func(*testing.T, *engine.Engine) { testclock.Advance(time.Minute) },
			want: "tool since=0s verbs=[stop] tool=slow step=1 attempt=1 owner=engine_1 seen=1m0s",
			list: "running since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=1m0s"},
		{name: "thinking", says: "think", then: func(*testing.T, *engine.Engine) { testclock.Advance(time.Minute) },
			want: "model since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=1m0s",
			list: "running since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=1m0s"},
		{name: "writing", says: "write", then: func(*testing.T, *engine.Engine) { testclock.Advance(90 * time.Second) },
			want: "writing since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=1m30s",
			list: "running since=0s verbs=[stop] step=1 attempt=1 owner=engine_1 seen=1m30s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				eng := open(t, memstore.New(nil), situated(), patient)
				start(t, eng, "s", test.says)
				synctest.Wait()
				if test.then != nil {
					test.then(t, eng)
				}
				synctest.Wait()
				checkSituation(t, eng, began, test.want, cmp.Or(test.list, test.want))
			})
		})
	}
}

// checkSituation checks the situation of the session "s", alone and in a list.
func checkSituation(t *testing.T, eng *engine.Engine, began time.Time, want, inList string) {
	t.Helper()
	s, err := eng.Situation(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if got := described(s, began); got != want {
		t.Errorf("alone:\n got %s\nwant %s", got, want)
	}
	row, err := eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	list, err := eng.Situations(t.Context(), []cairn.Session{*row, {ID: "gone", Status: cairn.SessionFailed}})
	if err != nil {
		t.Fatal(err)
	}
	if got := described(list[0], began); got != inList || list[1] != nil {
		t.Errorf("in a list:\n got %s\nwant %s; a session that is gone: %v", got, inList, list[1])
	}
}

func claimed(t *testing.T, eng *engine.Engine, by string) {
	t.Helper()
	if _, err := eng.Claim(t.Context(), "s", onlyCall(t, eng).ID, by, 0); err != nil {
		t.Fatal(err)
	}
}

// A session waits for a person at the limit of its budget, with the amounts.
func TestSituationAtABudget(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Call("note", in{"n"}).Usage(10, 5), scripted.Text("Done.")), note())
	agent.Budget = cairn.Budget{Steps: 1}
	eng := open(t, st, agent)
	turn(t, eng, "s", "go")
	s, err := eng.Situation(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != cairn.SituationBudget || s.Call.Budget == nil || s.Call.Budget.Spent != 1 || s.Call.Budget.Unit != cairn.BudgetSteps || s.Verbs[0] != cairn.VerbRaise {
		t.Errorf("situation %+v", s)
	}
}

// A session whose process has died is taken over by a worker that serves its agent, of which there may be none.
func TestSituationOfADeadProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		st := tapOn(nil)
		agent := bot(counter(3), note())
		calls := 0
		agent.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error {
			if calls++; calls == 2 {
				st.cut()
			}
			return nil
		}}
		dead := start(t, open(t, st, agent, shortLease), "s", "go")
		if _, err := dead.Wait(t.Context()); err == nil {
			t.Fatal("the run did not end")
		}
		testclock.Advance(2 * ttl)
		idle := bot(counter(3), note())
		idle.Name = "other"
		other := open(t, tapOn(st.Store), idle, shortLease, named("b"))
		stop := work(t, other)
		synctest.Wait()
		s, err := other.Situation(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("takeover since=%s verbs=[resume stop] step=2 attempt=1 owner=engine_1 seen=0s workers=0", ttl)
		if got := described(s, began); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		stop()
		defer work(t, open(t, tapOn(st.Store), bot(counter(3), note()), shortLease, named("c")))()
		wait(t, attach(t, other, "s"))
		if s, err = other.Situation(t.Context(), "s"); err != nil || s.Kind != cairn.SituationDone || s.Step != 3 {
			t.Errorf("after the takeover: %+v, %v", s, err)
		}
	})
}
