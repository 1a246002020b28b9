package engine_test

import (
	"cmp"
	"context"
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

// A result says until when its calls can be answered, in the process that drove the run and in any other.
func TestResultHasDeadlines(t *testing.T) {
	t.Parallel()
	type none struct{}
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, none) (string, error) { return "paid", nil },
		cairn.RequireApproval(), cairn.WaitAtMost(time.Hour))
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Call("pay", none{})), Tools: []cairn.Tool{pay}}
	st := memstore.New(nil)
	defer st.Close()
	one, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close(t.Context())
	run, err := one.Execute(t.Context(), "s", "bot", cairn.Text("pay"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close(t.Context())
	if run, err = two.Attach(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	there, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := two.Inbox(t.Context(), store.CallQuery{RootID: "s"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Deadline.IsZero() {
		t.Fatalf("got %+v, %v", page.Items, err)
	}
	for where, res := range map[string]*cairn.Result{"here": here, "there": there} {
		if got, want := res.Suspended.Calls[0].Deadline, page.Items[0].Deadline; !got.Equal(want) {
			t.Errorf("%s the deadline is %s, the call's is %s", where, got, want)
		}
	}
}

// Calls that wait for people have the engine's limit, unless their tool or their question has its own.
func TestEngineLimitsWaitForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func(opts ...cairn.ToolOption) func(context.Context, *cairn.Call, in) (string, error) {
			return func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
				var answer string
				return answer, call.Ask(ctx, "Which?", nil, &answer, opts...)
			}
		}
		tools := []cairn.Tool{
			echo("approve", cairn.RequireApproval()),
			cairn.ClientTool[in, string]("locate", "Locates."),
			tool("ask", asks()),
			echo("approve_longer", cairn.RequireApproval(), cairn.WaitAtMost(time.Hour)),
			cairn.ClientTool[in, string]("locate_sooner", "Locates.", cairn.WaitAtMost(time.Second)),
			tool("ask_longer", asks(cairn.WaitAtMost(time.Hour))),
		}
		var calls []scripted.Step
		for _, tool := range tools {
			calls = append(calls, scripted.Call(tool.Name(), in{"?"}))
		}
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Reply(calls...), scripted.Text("done")), tools...),
			with(func(o *engine.Options) { o.WaitAtMost = time.Minute }))
		began := time.Now()
		waits := turn(t, eng, "s", "go").Suspended
		want := map[string]time.Duration{"approve": time.Minute, "locate": time.Minute, "ask": time.Minute,
			"approve_longer": time.Hour, "locate_sooner": time.Second, "ask_longer": time.Hour}
		if len(waits.Calls) != len(want) {
			t.Fatalf("the run waits for %+v", waits.Calls)
		}
		for _, c := range waits.Calls {
			if got := c.Deadline.Sub(began); got != want[c.Tool] {
				t.Errorf("a call of %s waits for %s, want %s", c.Tool, got, want[c.Tool])
			}
		}
		stop := work(t, eng)
		testclock.Advance(2 * time.Hour)
		stop()
		list := messages(t, st, "s")
		if row := load(t, st, "s"); row.Status != cairn.SessionCompleted {
			t.Fatalf("after all deadlines the session is %s", row.Status)
		}
		for _, c := range waits.Calls {
			if id := cmp.Or(c.ToolCallID, c.ID); result(t, list, id).Code != cairn.ErrTimeout {
				t.Errorf("the call of %s has the result %+v", c.Tool, result(t, list, id))
			}
		}
	})
}
