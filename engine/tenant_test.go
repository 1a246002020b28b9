package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// shopkeeper consults a sub-agent and a companion, and asks for an approval by ann. It gives its tools' handles to seen.
func shopkeeper(seen func(*cairn.Call)) *cairn.Agent {
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })}
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("done")
		}
		return scripted.Reply(scripted.Call("helper", task{"go"}), spawn("", "clerk", "go"), scripted.Call("refund", in{"42"}), scripted.Call("look", in{"42"}))
	}), cairn.SubAgent(helper), echo("refund", cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "ann")),
		tool("look", func(_ context.Context, call *cairn.Call, _ in) (string, error) { seen(call); return "", nil }))
	a.Companions = []cairn.Companion{{Agent: &cairn.Agent{Name: "scribe", Description: "writes", Model: helper.Model}}}
	return a
}

// Equal names of two tenants, and of none, are of different sessions, users, threads and reviewers. All sessions that
// follow from a tenant's are the tenant's.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var handles []*cairn.Call
	eng := open(t, st, shopkeeper(func(call *cairn.Call) { handles = append(handles, call) }))
	tenants := []string{"acme", "other", ""}
	for _, tenant := range tenants {
		id := cairn.InTenant(tenant, "order-42")
		res := turn(t, eng, id, "go", engine.WithUser("alice"), engine.WithThread("chat"), engine.WithRunID("run-"+tenant))
		wantStatus(t, res, cairn.RunSuspended, cairn.ReasonStepPartial)
		call := res.Suspended.Calls[0]
		if !slices.Equal(call.Reviewers, []string{cairn.InTenant(tenant, "ann")}) {
			t.Errorf("reviewers %q in tenant %q", call.Reviewers, tenant)
		}
		if _, err := eng.Claim(t.Context(), id, call.ID, "ann", 0); err != nil {
			t.Error(err)
		}
		submit(t, eng, id, cairn.Approve(call).By(cairn.InTenant(tenant, "ann")), cairn.OutcomeAccepted)
		wantStatus(t, resume(t, eng, id), cairn.RunCompleted, cairn.ReasonReply)
		replaced := turn(t, eng, id, "again", engine.FromMessage(0), engine.KeepReplaced(), engine.WithUser(cairn.InTenant(tenant, "alice")))
		submit(t, eng, id, cairn.Approve(replaced.Suspended.Calls[0]).By("ann"), cairn.OutcomeAccepted)
		resume(t, eng, id)
		if _, err := eng.Branch(t.Context(), id, "branch"); err != nil {
			t.Error(err)
		}
		if _, err := eng.SetContext(t.Context(), cairn.InTenant(tenant, "branch"), store.ContextChange{UserID: new("alice")}); err != nil {
			t.Error(err)
		}
		if last := handles[len(handles)-1]; last.Tenant() != tenant || last.User() != "alice" || last.UserID != cairn.InTenant(tenant, "alice") {
			t.Errorf("a tool of tenant %q sees %q of %q", tenant, last.UserID, last.Tenant())
		}
	}
	for _, tenant := range tenants {
		page, err := eng.Sessions(t.Context(), store.SessionQuery{Tenant: &tenant})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[cairn.ChildKind]int{}
		for _, s := range page.Items {
			kinds[s.Kind]++
			for what, id := range map[string]string{"id": s.ID, "user": s.UserID, "root": s.RootID, "parent": s.ParentID, "thread": s.ThreadID} {
				if of, _ := cairn.SplitTenant(id); id != "" && of != tenant {
					t.Errorf("%s %q of session %q of tenant %q", what, id, s.ID, tenant)
				}
			}
			if s.Tenant != tenant || s.User() != "alice" {
				t.Errorf("session %q has tenant %q and user %q", s.ID, s.Tenant, s.User())
			}
			wantSound(t, st, s.RootID)
		}
		if kinds[""] != 1 || kinds[cairn.ChildBranch] != 1 || kinds[cairn.ChildSubAgent] != 2 || kinds[cairn.ChildCompanion] != 1 || kinds[cairn.ChildReplaced] != 1 {
			t.Errorf("sessions of tenant %q by kind: %v", tenant, kinds)
		}
		chat, err := eng.Thread(t.Context(), cairn.InTenant(tenant, "chat"))
		if err != nil || chat.ID != cairn.InTenant(tenant, "order-42") {
			t.Errorf("thread of %q: %v, %v", tenant, chat, err)
		}
	}
	report, err := eng.EraseUser(t.Context(), "acme::alice")
	if err != nil || report.Erased != 2 || report.Failed > 0 {
		t.Errorf("erasure: %+v, %v", report, err)
	}
	for _, tenant := range tenants {
		_, err := driver.Load(t.Context(), st, cairn.InTenant(tenant, "order-42"))
		if (tenant == "acme") != errors.Is(err, cairn.ErrNotFound) {
			t.Errorf("session of %q after the erasure of acme's alice: %v", tenant, err)
		}
	}
}

// Names of another tenant, and ids that no tenant can have, are refused with the field, and change nothing.
func TestNamesOfAnotherTenantRefused(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Call("refund", in{"42"}) }),
		echo("refund", cairn.RequireApproval())))
	res := turn(t, eng, "acme::order", "go", engine.WithUser("alice"))
	call := res.Suspended.Calls[0]
	before := load(t, st, "acme::order")
	ctx := t.Context()
	execute := func(id string, opts ...engine.RunOption) func() error {
		return func() error { _, err := eng.Execute(ctx, id, "bot", cairn.Text("go"), opts...); return err }
	}
	for name, test := range map[string]struct {
		do    func() error
		field string
	}{
		"user":             {execute("acme::new", engine.WithUser("other::alice")), "user_id"},
		"user of a tenant": {execute("new", engine.WithUser("acme::alice")), "user_id"},
		"invalid user":     {execute("acme::new", engine.WithUser("acme::a::b")), "user_id"},
		"no user's name":   {execute("acme::new", engine.WithUser("acme::")), "user_id"},
		"thread":           {execute("acme::new", engine.WithThread("other::thread")), "thread"},
		"invalid thread":   {execute("acme::new", engine.WithThread("acme:: x")), "thread"},
		"no name":          {execute("acme::"), "session"},
		"no tenant":        {execute("::new"), "session"},
		"three parts":      {execute("acme::new::er"), "session"},
		"path in a name":   {execute("acme::../new"), "session"},
		"space in a name":  {execute("acme:: new"), "session"},
		"bad tenant":       {execute("ac/me::new"), "session"},
		"long tenant":      {execute(strings.Repeat("a", 65) + "::new"), "session"},
		"long id":          {execute("acme::" + strings.Repeat("a", 195)), "session"},
		"resume":           {func() error { _, err := eng.Resume(ctx, "acme::order", engine.WithUser("other::alice")); return err }, "user_id"},
		"create": {func() error {
			_, err := eng.Create(ctx, "acme::new", "bot", engine.WithUser("other::alice"))
			return err
		}, "user_id"},
		"branch": {func() error { _, err := eng.Branch(ctx, "acme::order", "other::branch"); return err }, "session"},
		"new user": {func() error {
			_, err := eng.SetContext(ctx, "acme::order", store.ContextChange{UserID: new("other::alice")})
			return err
		}, "user_id"},
		"reviewer": {func() error {
			_, err := eng.Submit(ctx, "acme::order", cairn.Approve(call).By("other::ann"))
			return err
		}, "reviewer"},
		"claim":   {func() error { _, err := eng.Claim(ctx, "acme::order", call.ID, "other::ann", 0); return err }, "reviewer"},
		"release": {func() error { _, err := eng.Release(ctx, "acme::order", call.ID, "other::ann"); return err }, "reviewer"},
		"erase":   {func() error { _, err := eng.EraseUser(ctx, "acme::a::b"); return err }, "user"},
	} {
		err := test.do()
		var e *cairn.Error
		if !errors.Is(err, cairn.ErrInvalid) || !errors.As(err, &e) || e.Field != test.field {
			t.Errorf("%s: %v, want an error about %s", name, err, test.field)
		}
	}
	if after := load(t, st, "acme::order"); after.Version != before.Version {
		t.Error("the session has changed")
	}
	for _, owner := range []string{"alice", "acme::alice"} {
		if _, err := eng.Resume(ctx, "acme::order", engine.WithUser(owner), engine.OnlyPaused()); !errors.Is(err, cairn.ErrNotResumable) {
			t.Errorf("resume by %s: %v", owner, err)
		}
	}
	page, err := eng.Sessions(ctx, store.SessionQuery{})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("sessions: %+v, %v", page.Items, err)
	}
}

// A call that only people of another tenant may answer fails: it neither waits nor runs.
func TestReviewersOfAnotherTenant(t *testing.T) {
	t.Parallel()
	for name, refund := range map[string]cairn.Tool{
		"approval": tool("refund", func(context.Context, *cairn.Call, in) (string, error) {
			t.Error("the tool runs")
			return "", nil
		}, cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "acme::ann")),
		"client tool": cairn.ClientTool[in, string]("refund", "Refunds.", cairn.AssignTo(cairn.AnyReviewer, "acme::ann")),
		"question": tool("refund", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
			var yes bool
			err := call.Ask(ctx, "Sure?", nil, &yes, cairn.AssignTo(cairn.AnyReviewer, "acme::ann"))
			if err == nil {
				t.Error("the question is answered")
			}
			return "", err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			eng := open(t, st, bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
					return scripted.Text("done")
				}
				return scripted.Call("refund", in{"42"}).ID("c1")
			}), refund))
			for _, session := range []string{"other::order", "order"} {
				wantStatus(t, turn(t, eng, session, "go"), cairn.RunCompleted, cairn.ReasonReply)
				got := result(t, messages(t, st, session), callOf(t, st, session, 0))
				if !got.IsError || got.Code != cairn.ErrInvalid || !strings.Contains(string(got.Output), "reviewers") {
					t.Errorf("result %+v: %s", got, got.Output)
				}
			}
			res := turn(t, eng, "acme::order", "go")
			if res.Suspended == nil || !slices.Equal(res.Suspended.Calls[0].Reviewers, []string{"acme::ann"}) {
				t.Errorf("in the tenant: %+v", res)
			}
		})
	}
}

// Runs of two tenants that have one id are separate: the end of the one that runs is not awaited for the other.
func TestRunsOfTenantsWithOneID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			return scripted.Reply(scripted.Text("On it. "), scripted.Pause(30*time.Minute), scripted.Text("Done."))
		})), patient)
		id := engine.WithRunID("run-1")
		one, other := start(t, eng, "acme::order", "go", id), start(t, eng, "other::order", "go", id)
		synctest.Wait()
		began := time.Now()
		if err := eng.Interrupt(t.Context(), "other::order", "enough"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > time.Minute {
			t.Errorf("the stop took %s", waited)
		}
		wantStatus(t, wait(t, other), cairn.RunInterrupted, cairn.ReasonInterrupted)
		wantStatus(t, wait(t, one), cairn.RunCompleted, cairn.ReasonReply)
		if again := start(t, eng, "acme::order", "go", id); again.Turn() != 1 || !again.Found() {
			t.Errorf("the run again: turn %d", again.Turn())
		}
	})
}
