package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A change of context is on the row and the log, and unnamed fields keep their values.
func TestSetContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("hello"))))
		turn(t, eng, "s", "Where is my lamp?", engine.WithUser("ada"), engine.WithTags("old"), engine.WithMetadata(map[string]string{"plan": "free", "region": "eu"}))
		expiry := time.Now().Add(time.Hour).UTC()
		row, err := eng.SetContext(t.Context(), "s", store.ContextChange{Title: new("Lamp"), Tags: &[]string{"new"},
			Metadata: cairn.Metadata{"plan": "pro", "region": ""}, ExpiresAt: &expiry})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(row.UserID, row.Title, row.Tags, row.Metadata, row.ExpiresAt.Equal(expiry), row.Opening)
		if want := "adaLamp[new] map[plan:pro] trueWhere is my lamp?"; got != want {
			t.Errorf("row %s, want %s", got, want)
		}
		if row, err = eng.SetContext(t.Context(), "s", store.ContextChange{Title: new("")}); err != nil || row.Title != "" || row.Metadata["plan"] != "pro" {
			t.Errorf("without a title %+v, %v", row, err)
		}
		list, err := eng.History(t.Context(), "s", cairn.Cursor{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, ev := range list {
			if ev.Type == cairn.EventContextChanged && ev.Name == "session" {
				told = append(told, string(ev.Data))
			}
		}
		stamp, _ := expiry.MarshalJSON()
		if want := []string{`{"title":"Lamp","tags":["new"],"metadata":{"plan":"pro","region":""},"expires_at":` + string(stamp) + `}`, `{"title":""}`}; fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("the log says %s, want %s", told, want)
		}
	})
}

func TestSetContextRefuses(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("ok"))}
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Call("helper", task{"go"}), scripted.Text("done")), cairn.SubAgent(helper)))
	turn(t, eng, "s", "go")
	page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	child := page.Items[0].ID
	for name, c := range map[string]struct {
		id     string
		change store.ContextChange
		want   error
	}{
		"nothing":              {"s", store.ContextChange{}, cairn.ErrInvalid},
		"no session":           {"none", store.ContextChange{Title: new("x")}, cairn.ErrNotFound},
		"a title that is long": {"s", store.ContextChange{Title: new(strings.Repeat("x", cairn.MaxTitleBytes+1))}, cairn.ErrTooLarge},
		"a title that is bad":  {"s", store.ContextChange{Title: new("\xff")}, cairn.ErrInvalid},
		"a tag that is empty":  {"s", store.ContextChange{Tags: &[]string{""}}, cairn.ErrInvalid},
		"much metadata":        {"s", store.ContextChange{Metadata: cairn.Metadata{"k": strings.Repeat("x", cairn.MaxMetadataBytes)}}, cairn.ErrTooLarge},
		"a sub-agent's user":   {child, store.ContextChange{UserID: new("x")}, cairn.ErrInvalid},
		"a sub-agent's expiry": {child, store.ContextChange{ExpiresAt: new(time.Time)}, cairn.ErrInvalid},
	} {
		before, _ := eng.Session(t.Context(), "s")
		_, err := eng.SetContext(t.Context(), c.id, c.change)
		if wantError(t, err, c.want); t.Failed() {
			t.Fatal(name)
		}
		if after, _ := eng.Session(t.Context(), "s"); after.Version != before.Version {
			t.Errorf("%s has changed the session", name)
		}
	}
	if _, err := eng.SetContext(t.Context(), child, store.ContextChange{Title: new("x")}); err != nil {
		t.Errorf("a sub-agent's title: %v", err)
	}
}

// Tools and hooks read the whole context, and see a concurrent change from the next commit on.
func TestContextIsReadByToolsAndHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		show := func(step *cairn.Step) {
			seen = append(seen, fmt.Sprint(step.UserID, step.Title, step.Tags, step.Metadata, step.RootID, step.ParentID, step.TraceParent))
		}
		var eng *engine.Engine
		look := cairn.Func("look", "Looks.", func(ctx context.Context, call *cairn.Call, _ struct{}) (string, error) {
			show(call.Step)
			call.Metadata["plan"] = "spoiled" // a copy
			_, err := eng.SetContext(ctx, "s", store.ContextChange{UserID: new("bob"), Title: new("Lamp"), Metadata: cairn.Metadata{"plan": "pro"}})
			return "", err
		})
		agent := bot(scripted.New(scripted.Call("look", struct{}{}), scripted.Text("ok")), look)
		agent.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, step *cairn.Step, _ *cairn.Request) error { show(step); return nil }}
		eng = open(t, memstore.New(nil), agent)
		turn(t, eng, "s", "go", engine.WithUser("ada"), engine.WithTags("t"), engine.WithMetadata(map[string]string{"plan": "free"}), engine.WithTraceParent("00-x"))
		want := []string{"ada[t] map[plan:free]s00-x", "ada[t] map[plan:free]s00-x", "bobLamp[t] map[plan:pro]s00-x"}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}

// A new user is set on everything in the tree, including calls that wait for people.
func TestNewUserOfATree(t *testing.T) {
	t.Parallel()
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil }, cairn.RequireApproval())
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("pay", struct{}{}), scripted.Text("ok")), Tools: []cairn.Tool{pay}}
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Call("helper", task{"go"}), scripted.Text("done")), cairn.SubAgent(helper)))
	res := turn(t, eng, "s", "go", engine.WithUser("guest-1"))
	if _, err := eng.SetContext(t.Context(), "s", store.ContextChange{UserID: new("ada")}); err != nil {
		t.Fatal(err)
	}
	for s, err := range allSessions(t, eng) {
		if err != nil || s.UserID != "ada" {
			t.Errorf("session %s is %q's, %v", s.ID, s.UserID, err)
		}
	}
	calls, err := eng.Inbox(t.Context(), store.CallQuery{UserID: "ada"})
	if err != nil || len(calls.Items) != 1 || calls.Items[0].ID != res.Suspended.Calls[0].ID {
		t.Fatalf("the new user's calls are %+v, %v", calls.Items, err)
	}
	if _, err := eng.Submit(t.Context(), "s", cairn.Approve(calls.Items[0].CallRef)); err != nil {
		t.Fatal(err)
	}
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, run); res.Text != "done" {
		t.Errorf("outcome %+v", res)
	}
}

// The title that a step sets is committed with it, whenever that is.
func TestTitleOfAStep(t *testing.T) {
	t.Parallel()
	for name, durability := range map[string]cairn.Durability{"per step": cairn.PerStep, "per tool": cairn.PerTool, "manual": cairn.Manual} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := cairn.Func("name", "Names.", func(_ context.Context, call *cairn.Call, in task) (string, error) {
				return "", call.SetTitle(in.Input)
			})
			agent := bot(scripted.New(scripted.Call("name", task{"First"}), scripted.Call("name", task{"Second"}), scripted.Text("ok"),
				scripted.Call("name", task{strings.Repeat("x", cairn.MaxTitleBytes+1)}), scripted.Text("ok")), tool)
			agent.Durability = durability
			var late error
			agent.Hooks = &cairn.Hooks{RunComplete: func(_ context.Context, step *cairn.Step, _ *cairn.Result) { late = step.SetTitle("late") }}
			eng := open(t, memstore.New(nil), agent)
			turn(t, eng, "s", "go")
			row, err := eng.Session(t.Context(), "s")
			if err != nil || row.Title != "Second" {
				t.Errorf("the title is %q, %v", row.Title, err)
			}
			turn(t, eng, "s", "again")
			if row, err = eng.Session(t.Context(), "s"); err != nil || row.Title != "Second" {
				t.Errorf("after one that is too long the title is %q, %v", row.Title, err)
			}
			if late == nil {
				t.Error("a hook sets the title after the last commit")
			}
		})
	}
}
