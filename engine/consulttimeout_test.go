package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// consultLimit is the timeout of consultations in these tests.
const consultLimit = 10 * time.Minute

// consults returns an agent that consults another one within consultLimit, and then answers.
func consults(name string, other *cairn.Agent) *cairn.Agent {
	return &cairn.Agent{Name: name, Tools: []cairn.Tool{cairn.SubAgent(other, cairn.Timeout(consultLimit))}, Model: scripted.New(
		scripted.Call(other.Name, map[string]string{"input": "do it"}), scripted.Text(name+" is done"))}
}

// relays returns an agent that consults another one without a limit.
func relays(name string, other *cairn.Agent) *cairn.Agent {
	return &cairn.Agent{Name: name, Tools: []cairn.Tool{cairn.SubAgent(other)}, Model: scripted.New(
		scripted.Call(other.Name, map[string]string{"input": "do it"}), scripted.Text(name+" is done"))}
}

// thinks returns an agent whose model needs some time to answer.
func thinks(d time.Duration) *cairn.Agent {
	return &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Reply(scripted.Pause(d), scripted.Text("here you are")))}
}

// asksPeople returns an agent that waits for a reviewer.
func asksPeople() *cairn.Agent {
	return &cairn.Agent{Name: "helper", Tools: []cairn.Tool{echo("pay", cairn.RequireApproval())},
		Model: scripted.New(scripted.Call("pay", in{"1"}), scripted.Text("paid"))}
}

// consultation returns the result of the only call of a session.
func consultation(t *testing.T, st store.Store, session string) *cairn.ToolResult {
	t.Helper()
	for _, m := range messages(t, st, session) {
		if m.Role == cairn.RoleTool {
			return m.Parts[0].Result
		}
	}
	t.Fatalf("session %s has no result", session)
	return nil
}

// wantTimedOut checks that the bot's consultation timed out at the deadline and that its turn has completed, with all
// sessions below stopped.
func wantTimedOut(t *testing.T, st durable, began time.Time, below int) {
	t.Helper()
	row := load(t, st, "s")
	if row.Status != cairn.SessionCompleted {
		t.Fatalf("the session is %s", row.Status)
	}
	if r := consultation(t, st, "s"); !r.IsError || r.Code != cairn.ErrTimeout || r.Private {
		t.Errorf("the call's result is %+v", r)
	}
	if took := row.UpdatedAt.Sub(began); took < consultLimit || took > consultLimit+2*time.Second {
		t.Errorf("the turn ended after %s, want %s", took, consultLimit)
	}
	page, err := st.List(t.Context(), store.SessionQuery{RootID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range page.Items {
		if child.ParentID == "" {
			continue
		}
		below--
		if child.Status != cairn.SessionInterrupted || child.OpenCalls != 0 {
			t.Errorf("%s is %s with %d open calls", child.Agent, child.Status, child.OpenCalls)
		}
	}
	if below != 0 {
		t.Errorf("%d sessions are missing below the root", below)
	}
	wantSound(t, st, "s")
}

func TestConsultationTimesOutWhileItRuns(t *testing.T) {
	for name, test := range map[string]struct {
		helper func() *cairn.Agent
		below  int
	}{
		"a sub-agent":                  {func() *cairn.Agent { return thinks(time.Hour) }, 1},
		"the sub-agent of a sub-agent": {func() *cairn.Agent { return relays("clerk", thinks(time.Hour)) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, clock option) {
				st := tapOn(nil)
				eng := open(t, st, consults("bot", test.helper()), clock, patient)
				began := time.Now()
				wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
				wantTimedOut(t, st, began, test.below)
			})
		})
	}
}

func TestConsultationEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, consults("bot", thinks(consultLimit-time.Second)), patient)
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		if r := consultation(t, st, "s"); r.IsError {
			t.Errorf("the call's result is %+v", r)
		}
	})
}

// The worker resumes the root at the deadline, whichever session of the tree waits for people.
func TestConsultationTimesOutWhileItWaits(t *testing.T) {
	for name, test := range map[string]struct {
		helper func() *cairn.Agent
		below  int
	}{
		"a sub-agent":                  {asksPeople, 1},
		"the sub-agent of a sub-agent": {func() *cairn.Agent { return relays("clerk", asksPeople()) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, clock option) {
				st := tapOn(nil)
				agent, began := consults("bot", test.helper()), time.Now()
				waits := turn(t, open(t, st, agent, clock), "s", "go").Suspended
				if want := began.Add(consultLimit); !load(t, st, "s").NextDeadline.Equal(want) || !waits.Children[0].Deadline.Equal(want) {
					t.Errorf("the row's deadline is %v, that of %+v, want %v", load(t, st, "s").NextDeadline, waits.Children[0], want)
				}
				other := open(t, tapOn(st.Store), agent, clock, named("other"))
				defer work(t, other)()
				testclock.Advance(consultLimit - time.Second)
				if s := load(t, st, "s"); s.Status != cairn.SessionPaused {
					t.Errorf("before the deadline the session is %s", s.Status)
				}
				testclock.Advance(time.Minute)
				wantTimedOut(t, st, began, test.below)
				if page, err := other.Inbox(t.Context(), store.CallQuery{RootID: "s"}); err != nil || len(page.Items) > 0 {
					t.Errorf("calls that are still open: %+v, %v", page.Items, err)
				}
			})
		})
	}
}

// An inner deadline ends the inner consultation only: its agent reads the timeout, and continues.
func TestInnerConsultationTimesOut(t *testing.T) {
	for name, leaf := range map[string]*cairn.Agent{"runs": thinks(time.Hour), "waits": asksPeople()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, relays("bot", consults("clerk", leaf)), patient)
				defer work(t, eng)()
				start(t, eng, "s", "go")
				testclock.Advance(consultLimit + time.Minute)
				if r := consultation(t, st, "s"); r.IsError || string(r.Output) != `"clerk is done"` {
					t.Errorf("the outer call's result is %+v", r)
				}
				children, err := st.List(t.Context(), store.SessionQuery{ParentID: "s"})
				if err != nil || len(children.Items) != 1 {
					t.Fatal(children.Items, err)
				}
				if r := consultation(t, st, children.Items[0].ID); r.Code != cairn.ErrTimeout {
					t.Errorf("the inner call's result is %+v", r)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

// The time counts from the beginning, whichever process drives the consultation.
func TestConsultationTimesOutAfterTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			return scripted.Pause(time.Hour)
		})}
		agent, began := consults("bot", helper), time.Now()
		dead := start(t, open(t, st, agent, shortLease, patient), "s", "go")
		testclock.Advance(consultLimit / 2)
		st.cut()
		if _, err := dead.Wait(t.Context()); err == nil {
			t.Fatal("the run of the dead process has ended")
		}
		defer work(t, open(t, tapOn(st.Store), agent, shortLease, patient, named("other")))()
		testclock.Advance(time.Hour)
		wantTimedOut(t, st.Store, began, 1)
	})
}

// A turn that arrives after the deadline need not wait for the calls of the sub-agent.
func TestTurnAfterTimeoutOfConsultation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := consults("bot", asksPeople())
		agent.Model = scripted.New(scripted.Call("helper", map[string]string{"input": "do it"}), scripted.Text("late"), scripted.Text("next"))
		eng := open(t, st, agent)
		began := time.Now()
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonChildren)
		testclock.Advance(consultLimit)
		if got := turn(t, eng, "s", "and now?").Text; got != "next" {
			t.Errorf("the next turn's answer is %q", got)
		}
		wantTimedOut(t, st, began, 1)
	})
}
