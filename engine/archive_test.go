package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// archive archives a session, or makes it current.
func archive(t *testing.T, eng *engine.Engine, id string, archived bool) *cairn.Session {
	t.Helper()
	row, err := eng.SetContext(t.Context(), id, store.ContextChange{Archived: &archived})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// wantArchived checks which sessions are archived, of those that a query selects.
func wantArchived(t *testing.T, eng *engine.Engine, q store.SessionQuery, want ...string) {
	t.Helper()
	q.Archived = new(true)
	page, err := eng.Sessions(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range page.Items {
		got = append(got, s.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("archived are %q, want %q", got, want)
	}
}

// changes returns what the log says of changes of a session's context.
func changes(t *testing.T, eng *engine.Engine, id string) (list []string) {
	t.Helper()
	events, err := eng.History(t.Context(), id, cairn.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Type == cairn.EventContextChanged && ev.Name == "session" {
			list = append(list, string(ev.Data))
		}
	}
	return list
}

// Archiving is on the row, in lists and on the log. Repeated, it writes nothing.
func TestArchive(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("hello"))))
	turn(t, eng, "s", "hi", engine.WithUser("ada"))
	turn(t, eng, "other", "hi", engine.WithUser("ada"))
	first := archive(t, eng, "s", true)
	if first.ArchivedAt.IsZero() || first.Status != cairn.SessionCompleted || first.MessageCount != 2 {
		t.Fatalf("row %+v", first)
	}
	wantArchived(t, eng, store.SessionQuery{UserID: "ada"}, "s")
	if again := archive(t, eng, "s", true); again.Version != first.Version || !again.ArchivedAt.Equal(first.ArchivedAt) {
		t.Errorf("archived twice, it is %+v", again)
	}
	current := archive(t, eng, "s", false)
	if !current.ArchivedAt.IsZero() || archive(t, eng, "s", false).Version != current.Version {
		t.Errorf("made current, it is %+v", current)
	}
	wantArchived(t, eng, store.SessionQuery{})
	row, err := eng.SetContext(t.Context(), "s", store.ContextChange{Archived: new(true), Title: new("Lamp")})
	if err != nil || row.Title != "Lamp" || row.ArchivedAt.IsZero() {
		t.Errorf("archived with a title: %+v, %v", row, err)
	}
	if got, want := fmt.Sprint(changes(t, eng, "s")), `[{"archived":true} {"archived":false} {"title":"Lamp","archived":true}]`; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
}

func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("ok"))}
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Call("helper", task{"go"}), scripted.Text("done")), cairn.SubAgent(helper)))
	turn(t, eng, "s", "go")
	turn(t, eng, "gone", "go")
	page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page.Items, err)
	}
	if err := eng.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]error{"none": cairn.ErrNotFound, "gone": cairn.ErrDeleted, page.Items[0].ID: cairn.ErrInvalid} {
		for _, archived := range []bool{true, false} {
			_, err := eng.SetContext(t.Context(), id, store.ContextChange{Archived: &archived, Title: new("x")})
			wantError(t, err, want)
			if want == cairn.ErrInvalid && cairn.AsError(err).Field != "archived" {
				t.Errorf("the error is %+v", err)
			}
		}
	}
	if row, err := eng.Session(t.Context(), page.Items[0].ID); err != nil || row.Title != "" {
		t.Errorf("a refused change is on the row %+v, %v", row, err)
	}
}

// A message of the user makes an archived session current, however it arrives: as a turn, in the queue, with a resume,
// in place of an earlier one, and to the session of a dead process. What the agent and people do about it does not.
func TestMessageMakesArchivedSessionCurrent(t *testing.T) {
	t.Parallel()
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil }, cairn.RequireApproval())
	for name, c := range map[string]struct {
		do      func(t *testing.T, eng *engine.Engine) error
		current bool
	}{
		"a message": {func(t *testing.T, eng *engine.Engine) error {
			_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithOnWaiting(engine.WaitingWithdraw))
			return err
		}, true},
		"a message that is queued": {func(t *testing.T, eng *engine.Engine) error {
			_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithOnWaiting(engine.WaitingEnqueue))
			return err
		}, true},
		"a message that is refused": {func(t *testing.T, eng *engine.Engine) error {
			_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"))
			wantError(t, err, cairn.ErrWaiting)
			return nil
		}, false},
		"an answer": {func(t *testing.T, eng *engine.Engine) error {
			calls, err := eng.Inbox(t.Context(), store.CallQuery{UserID: "ada"})
			if err != nil || len(calls.Items) != 1 {
				return fmt.Errorf("the inbox has %+v, %w", calls.Items, err)
			}
			if _, err := eng.Submit(t.Context(), "s", cairn.Approve(calls.Items[0].CallRef)); err != nil {
				return err
			}
			run, err := eng.Resume(t.Context(), "s")
			if err == nil {
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
			}
			return err
		}, false},
		"a resume with a message": {func(t *testing.T, eng *engine.Engine) error {
			calls, err := eng.Inbox(t.Context(), store.CallQuery{})
			if err != nil {
				return err
			}
			if _, err := eng.Submit(t.Context(), "s", cairn.Approve(calls.Items[0].CallRef)); err != nil {
				return err
			}
			run, err := eng.Resume(t.Context(), "s", engine.WithInput(cairn.Text("and more")))
			if err == nil {
				wait(t, run)
			}
			return err
		}, true},
		"context": {func(t *testing.T, eng *engine.Engine) error { return eng.AddContext(t.Context(), "s", "hidden") }, false},
		"a title": {func(t *testing.T, eng *engine.Engine) error {
			_, err := eng.SetContext(t.Context(), "s", store.ContextChange{Title: new("Lamp")})
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
				if strings.HasPrefix(r.Messages[len(r.Messages)-1].Text(), "pay") {
					return scripted.Call("pay", struct{}{})
				}
				return scripted.Text("done")
			})
			eng := open(t, memstore.New(nil), bot(model, pay))
			turn(t, eng, "s", "pay", engine.WithUser("ada"))
			archive(t, eng, "s", true)
			if err := c.do(t, eng); err != nil {
				t.Fatal(err)
			}
			if row, err := eng.Session(t.Context(), "s"); err != nil || row.ArchivedAt.IsZero() != c.current {
				t.Errorf("archived at %v, %v", row.ArchivedAt, err)
			}
		})
	}
}

// Archiving a session leaves its active run alone. An edit of an earlier message makes the session current again.
func TestArchiveDuringARun(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role == cairn.RoleUser {
			return scripted.Reply(scripted.Gate(gate), scripted.Call("note", in{Text: "x"}))
		}
		return scripted.Text("done")
	}), note()))
	run := start(t, eng, "s", "hi", engine.WithUser("ada"))
	row := archive(t, eng, "s", true)
	if row.Status != cairn.SessionActive {
		t.Fatalf("row %+v", row)
	}
	close(gate)
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	if row = load(t, st, "s"); row.ArchivedAt.IsZero() || row.Step != 2 {
		t.Errorf("after its run: %+v", row)
	}
	again, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("again"), engine.FromMessage(0))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, again)
	if row = load(t, st, "s"); !row.ArchivedAt.IsZero() {
		t.Errorf("after an edit: archived at %v", row.ArchivedAt)
	}
}

// A message that was queued before the session was archived does not make it current when its turn begins.
func TestQueuedMessageLeavesSessionArchived(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Gate(gate), scripted.Text("done"))
	})))
	first := start(t, eng, "s", "one")
	second := start(t, eng, "s", "two", engine.WithOnBusy(engine.BusyEnqueue))
	archive(t, eng, "s", true)
	close(gate)
	wait(t, first)
	wait(t, second)
	if row := load(t, st, "s"); row.ArchivedAt.IsZero() || row.Turn != 2 {
		t.Errorf("row %+v", row)
	}
}

// The sessions of a thread that have one user are archived together; another user's stay. The thread is current with
// its next session.
func TestArchiveThread(t *testing.T) {
	t.Parallel()
	now := time.Now()
	eng := open(t, memstore.New(&memstore.Options{Now: func() time.Time { return now }}), bot(scripted.New(scripted.Text("hello"))))
	ada := engine.WithUser("ada")
	for id, user := range map[string]engine.RunOption{"one": ada, "two": ada, "three": ada, "bob's": engine.WithUser("bob"), "nobody's": engine.WithUser("")} {
		if _, err := eng.Create(t.Context(), id, "bot", user, engine.WithThread("one")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := eng.Create(t.Context(), "another", "bot", ada); err != nil {
		t.Fatal(err)
	}
	if err := eng.Delete(t.Context(), "three"); err != nil {
		t.Fatal(err)
	}
	archive(t, eng, "two", true)
	wantArchived(t, eng, store.SessionQuery{}, "one", "two")
	archive(t, eng, "nobody's", true)
	wantArchived(t, eng, store.SessionQuery{}, "one", "two", "nobody's")
	now = now.Add(time.Minute)
	if _, err := eng.Create(t.Context(), "next", "bot", ada, engine.WithThread("one")); err != nil {
		t.Fatal(err)
	}
	if latest, err := eng.Thread(t.Context(), "one"); err != nil || latest.ID != "next" || !latest.ArchivedAt.IsZero() {
		t.Errorf("the thread is %+v, %v", latest, err)
	}
	archive(t, eng, "one", true)
	wantArchived(t, eng, store.SessionQuery{UserID: "ada"}, "one", "two", "next")
	if n := len(changes(t, eng, "one")); n != 1 {
		t.Errorf("the log of a session that was archived before has %d changes", n)
	}
	archive(t, eng, "one", false)
	wantArchived(t, eng, store.SessionQuery{}, "nobody's")
}

// An archived session expires, and is swept and erased, like any other.
func TestArchivedSessionEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	st := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	defer st.Close()
	agent := bot(scripted.New(scripted.Text("hello")))
	agent.TTL = time.Hour
	eng := open(t, st, agent)
	turn(t, eng, "s", "hi", engine.WithUser("ada"))
	turn(t, eng, "erased", "hi", engine.WithUser("bob"))
	archive(t, eng, "s", true)
	archive(t, eng, "erased", true)
	if _, err := eng.EraseUser(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	_, err := eng.Session(t.Context(), "erased")
	wantError(t, err, cairn.ErrNotFound)
	now = now.Add(2 * time.Hour)
	wantArchived(t, eng, store.SessionQuery{})
	_, err = eng.Session(t.Context(), "s")
	wantError(t, err, cairn.ErrExpired)
	if row, err := eng.Restore(t.Context(), "s"); err != nil || row.ArchivedAt.IsZero() {
		t.Errorf("restored as %+v, %v", row, err)
	}
}
