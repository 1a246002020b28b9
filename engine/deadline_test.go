package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
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
