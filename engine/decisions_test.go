package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// decisions returns a session's decisions in short form.
func decisions(t *testing.T, eng *engine.Engine, id string) (list []string) {
	t.Helper()
	for d, err := range store.All(func(cursor string) (store.Page[cairn.CallDecision], error) {
		return eng.Decisions(t.Context(), id, store.PageQuery{Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		if d.CallID == "" || d.Step == "" || d.At.IsZero() {
			t.Errorf("decision %+v", d)
		}
		list = append(list, fmt.Sprint(d.Tool, " ", d.Kind, " by ", d.Reviewer, ": ", d.Notes))
	}
	return list
}

// A branch has the decisions about the calls in its messages, also when the session that it left is erased, and so has
// a branch of the branch.
func TestDecisionsSurviveABranch(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("sell", in{"x"}), scripted.Text("sold")), Tools: []cairn.Tool{echo("sell", cairn.RequireApproval())}}
	eng := open(t, st, bot(scripted.New(scripted.Call("pay", in{"1"}), scripted.Text("paid"), scripted.Call("pay", in{"2"}), scripted.Text("not paid"),
		scripted.Call("helper", task{"go"}), scripted.Text("all done")), echo("pay", cairn.RequireApproval()), cairn.SubAgent(helper)))
	decide := func(session string, approved bool, notes string) {
		t.Helper()
		page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: session})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("open calls %+v, %v", page.Items, err)
		}
		s := cairn.Approve(page.Items[0].CallRef)
		s.Approved, s.Reason = approved, notes
		if _, err := eng.Submit(t.Context(), session, s.By("rita")); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, run)
	}
	turn(t, eng, "s", "pay 1")
	decide("s", true, "")
	row, err := eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	n := row.MessageCount
	turn(t, eng, "s", "pay 2")
	waiting, err := eng.Branch(t.Context(), "s", "waiting")
	if err != nil {
		t.Fatal(err)
	}
	decide("s", false, "too much")
	turn(t, eng, "s", "ask")
	decide("s", true, "fine")
	all := []string{"pay approved by rita: ", "pay denied by rita: too much", "sell approved by rita: fine"}
	if got := decisions(t, eng, "s"); !slices.Equal(got, all) {
		t.Fatalf("the session has %q, want %q", got, all)
	}
	for name, at := range map[string]struct {
		opts []engine.BranchOption
		want []string
	}{"end": {nil, all}, "first turn": {[]engine.BranchOption{engine.AtMessage(n)}, all[:1]}, "first call": {[]engine.BranchOption{engine.AtMessage(2)}, nil}} {
		if _, err := eng.Branch(t.Context(), "s", name, at.opts...); err != nil {
			t.Fatal(err)
		}
		if got := decisions(t, eng, name); !slices.Equal(got, at.want) {
			t.Errorf("the branch at the %s has %q, want %q", name, got, at.want)
		}
	}
	if got := decisions(t, eng, waiting.ID); !slices.Equal(got, all[:1]) {
		t.Errorf("a branch with an open call has %q", got)
	}
	if err := eng.Erase(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Branch(t.Context(), "end", "again"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"end", "again"} {
		if got := decisions(t, eng, id); !slices.Equal(got, all) {
			t.Errorf("without the first session, branch %s has %q", id, got)
		}
	}
	_, err = eng.Decisions(t.Context(), "s", store.PageQuery{})
	wantError(t, err, cairn.ErrNotFound)
}
