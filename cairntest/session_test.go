package cairntest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cairntest"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

type payment struct {
	Cents int `json:"cents" schema:"min=1"`
}

type till struct {
	Paid []int `json:"paid,omitempty"`
}

func pay(_ context.Context, call *cairn.Call, in payment) (string, error) {
	return "paid", cairn.UpdateState(call, func(s *till) { s.Paid = append(s.Paid, in.Cents) })
}

// cashier returns an agent that plays a script and pays with approval, within an hour, and asks for signatures.
func cashier(script ...scripted.Step) *cairn.Agent {
	return &cairn.Agent{Name: "cashier", Model: scripted.New(script...), State: cairn.StateOf[till](), Tools: []cairn.Tool{
		cairn.Func("pay", "Pays.", pay, cairn.RequireApproval(), cairn.WaitAtMost(time.Hour)),
		cairn.ClientTool[struct{}, string]("sign", "Asks the customer to sign."),
	}}
}

func TestSessionRunsTurns(t *testing.T) {
	t.Parallel()
	s := cairntest.New(t, cashier(scripted.Text("hello"), scripted.Text("again")))
	if res := s.Say(t, "hi"); res.Text != "hello" {
		t.Errorf("the first reply is %q", res.Text)
	}
	if res := s.Say(t, "hi", engine.WithMetadata(map[string]string{})); res.Text != "again" || res.Turn != 2 {
		t.Errorf("turn %d: %q", res.Turn, res.Text)
	}
	if n := len(s.Messages(t)); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
	events := s.Events(t)
	if first, last := events[0], events[len(events)-1]; first.Type != cairn.EventRunStart || last.Type != cairn.EventRunEnd {
		t.Errorf("the events begin with %s and end with %s", first.Type, last.Type)
	}
	if err := s.SayFails(t, "unexpected call 1"); err.Code != cairn.ErrModelRequest {
		t.Errorf("the turn failed with %v", err)
	}
	s.ID = "another"
	if err := s.SayFails(t, "unexpected call 1"); err.Code != cairn.ErrModelRequest || len(s.Messages(t)) != 1 {
		t.Errorf("another session: %v, %d messages", err, len(s.Messages(t)))
	}
}

func TestSessionAnswersWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	both := scripted.Reply(scripted.Call("pay", payment{5}), scripted.Call("pay", payment{7}), scripted.Call("sign", nil))
	s := cairntest.New(t, cashier(both, scripted.Text("done")))
	if res := s.Say(t, "pay"); res.Reason != cairn.ReasonCalls || len(s.Calls(t)) != 3 {
		t.Fatalf("%s with %d calls", res.Status, len(s.Calls(t)))
	}
	s.Restart(t)
	if res := s.Approve(t); res.Status != cairn.RunSuspended {
		t.Errorf("with two calls open it is %s", res.Status)
	}
	s.Deny(t, "too much")
	if res := s.Answer(t, "signed"); res.Status != cairn.RunCompleted || res.Text != "done" {
		t.Errorf("with all answers it is %s: %q", res.Status, res.Text)
	}
	if got := cairntest.State[till](t, s).Paid; len(got) != 1 {
		t.Errorf("paid %v, want one of the two", got)
	}
}

func TestSessionRetriesAndResumes(t *testing.T) {
	t.Parallel()
	s := cairntest.New(t, cashier(scripted.Fail(&cairn.Error{Code: cairn.ErrFiltered, Message: "no"}), scripted.Call("unknown", nil), scripted.Text("yes"), scripted.Text("more")))
	if err := s.SayFails(t, "go"); err.Code != cairn.ErrFiltered {
		t.Errorf("failed with %v", err)
	}
	if res := s.Retry(t); res.Text != "yes" {
		t.Errorf("the retry: %q", res.Text)
	}
	if _, err := s.Engine.Rewind(t.Context(), s.ID, checkpoint(t, s)); err != nil { // into the turn
		t.Fatal(err)
	}
	if res := s.Resume(t, engine.WithInput(cairn.Text("go on"))); res.Text != "more" {
		t.Errorf("the resumed run: %q", res.Text)
	}
}

// checkpoint returns the id of the session's first checkpoint.
func checkpoint(t *testing.T, s *cairntest.Session) string {
	t.Helper()
	page, err := s.Store.Checkpoints(t.Context(), s.ID, store.PageQuery{Limit: 1})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	return page.Items[0].ID
}

// Deadlines and TTLs pass without waiting, in a bubble of synctest and outside.
func TestAdvance(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T) {
		s := cairntest.New(t, cashier(scripted.Call("pay", payment{5}), scripted.Text("nobody answered")))
		s.Say(t, "pay")
		s.Advance(t, 59*time.Minute)
		if len(s.Calls(t)) != 1 {
			t.Error("the call was closed before its deadline")
		}
		s.Advance(t, time.Minute)
		if list := s.Messages(t); len(s.Calls(t)) != 0 || list[len(list)-1].Text() != "nobody answered" {
			t.Errorf("after the deadline %d calls are open, and the last message is %q", len(s.Calls(t)), list[len(list)-1].Text())
		}
		s.Advance(t, 8*24*time.Hour)
		if _, err := s.Engine.Session(t.Context(), s.ID); !errors.Is(err, cairn.ErrExpired) {
			t.Errorf("after eight days: %v, want it expired", err)
		}
	}
	test(t)
	synctest.Test(t, test)
}

// A background companion that is running when the clock is moved keeps its run.
func TestAdvanceWaitsForRunsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &cairn.Agent{Name: "slow", Model: scripted.New(scripted.Reply(scripted.Pause(time.Minute), scripted.Text("found")))}
		boss := &cairn.Agent{Name: "boss", Companions: []cairn.Companion{{Agent: slow, Mode: cairn.NonBlocking}}, Model: scripted.New(
			scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "slow", "message": "look"}), scripted.Text("later"))}
		s := cairntest.New(t, boss)
		s.Say(t, "go")
		s.Advance(t, time.Hour)
		for _, ev := range s.Events(t) {
			if ev.Type == cairn.EventStepDiscarded {
				t.Error("the companion's step was driven twice")
			}
		}
	})
}

// The methods of a session fail the test with the error that occurred.
func TestSessionFailsTheTest(t *testing.T) {
	t.Parallel()
	for want, fails := range map[string]func(t *failing){
		"agent is nil":                   func(t *failing) { cairntest.New(t) },
		"model: is required":             func(t *failing) { cairntest.New(t, &cairn.Agent{Name: "a"}) },
		"unexpected call 1":              func(t *failing) { cairntest.New(t, cashier()).Say(t, "hi") },
		"did not fail: status completed": func(t *failing) { cairntest.New(t, cashier(scripted.Text("hi"))).SayFails(t, "hi") },
		"no open call of kind approval":  func(t *failing) { cairntest.New(t, cashier()).Approve(t) },
		"submit answer":                  func(t *failing) { cairntest.New(t, cashier()).Submit(t, cairn.Submission{}) },
		"decode state as string": func(t *failing) {
			s := cairntest.New(t, cashier(scripted.Text("x")))
			s.Say(t, "hi")
			cairntest.State[string](t, s)
		},
	} {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			fails(f)
		}()
		<-done
		if !strings.Contains(f.text, want) {
			t.Errorf("the test failed with %q, want %q", f.text, want)
		}
	}
}
