package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// family returns an engine and the result of a turn of session "s" whose sub-agent waits for a client, after it has
// consulted a sub-agent of its own.
func family(t *testing.T, st store.Store) (*engine.Engine, *cairn.Result) {
	t.Helper()
	expert := &cairn.Agent{Name: "expert", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("advice") })}
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("expert", task{"advise"}), scripted.Call("ask", in{"?"}), scripted.Text("helped")),
		Tools: []cairn.Tool{cairn.SubAgent(expert), cairn.ClientTool[in, string]("ask", "Asks.")}}
	eng := open(t, st, bot(scripted.New(scripted.Call("helper", task{"help"}), scripted.Text("done")), cairn.SubAgent(helper)))
	res := turn(t, eng, "s", "go")
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
	return eng, res
}

// A verb for whole conversations refuses the session of a sub-agent before it has changed anything.
func TestVerbsOfRootsRefuseChildren(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng, res := family(t, st)
	child := res.Suspended.Children[0].SessionID
	page, err := eng.Checkpoints(t.Context(), child, store.PageQuery{})
	if err != nil || len(page.Items) < 1 {
		t.Fatal(page.Items, err)
	}
	before := []*cairn.Session{load(t, st, "s"), load(t, st, child)}
	begin := func(_ *engine.Run, err error) error { return err }
	for name, verb := range map[string]func(ctx context.Context) error{
		"Delete":  func(ctx context.Context) error { return eng.Delete(ctx, child) },
		"Erase":   func(ctx context.Context) error { return eng.Erase(ctx, child) },
		"Restore": func(ctx context.Context) error { _, err := eng.Restore(ctx, child); return notExists(err) },
		"TrimEvents": func(ctx context.Context) error {
			_, err := eng.TrimEvents(ctx, child, engine.EventRetention{})
			return err
		},
		"Execute":               func(ctx context.Context) error { return begin(eng.Execute(ctx, child, "helper", cairn.Text("hi"))) },
		"Execute of the root's": func(ctx context.Context) error { return begin(eng.Execute(ctx, child, "bot", cairn.Text("hi"))) },
		"Execute, withdraw": func(ctx context.Context) error {
			return begin(eng.Execute(ctx, child, "bot", cairn.Text("hi"), withdraw))
		},
		"Execute, FromMessage": func(ctx context.Context) error {
			return begin(eng.Execute(ctx, child, "bot", cairn.Text("hi"), engine.FromMessage(0)))
		},
		"Resume": func(ctx context.Context) error { return begin(eng.Resume(ctx, child)) },
		"Resume, FromCheckpoint": func(ctx context.Context) error {
			return begin(eng.Resume(ctx, child, engine.FromCheckpoint(page.Items[0].ID)))
		},
		"Resume, WithInput": func(ctx context.Context) error {
			return begin(eng.Resume(ctx, child, engine.WithInput(cairn.Text("hi"))))
		},
		"Retry": func(ctx context.Context) error { return begin(eng.Retry(ctx, child)) },
		"SetContext of the user": func(ctx context.Context) error {
			_, err := eng.SetContext(ctx, child, store.ContextChange{UserID: new("eve")})
			return err
		},
	} {
		if err := verb(t.Context()); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		for i, id := range []string{"s", child} {
			if row := load(t, st, id); row.Version != before[i].Version || row.Status != before[i].Status {
				t.Fatalf("%s changed session %s: it is %s", name, id, row.Status)
			}
		}
	}
}

// notExists takes the refusal of what need not be restored for one of a child.
func notExists(err error) error {
	if errors.Is(err, cairn.ErrExists) {
		return cairn.ErrInvalid
	}
	return err
}

// What a sub-agent's session has is changed and shown under its own id.
func TestChildIDNamesTheChild(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng, res := family(t, st)
	child := res.Suspended.Children[0].SessionID
	before := load(t, st, "s")
	if row, err := eng.SetState(t.Context(), child, map[string]int{"n": 1}); err != nil || row.ID != child || state(t, st, child) != `{"n":1}` {
		t.Errorf("state of %+v, %v", row, err)
	}
	if _, err := eng.Checkpoint(t.Context(), child); err != nil {
		t.Error(err)
	}
	if branch, err := eng.Branch(t.Context(), child, "branch"); err != nil || branch.Agent != "helper" || branch.RootID != "branch" {
		t.Errorf("branch %+v, %v", branch, err)
	}
	if after := load(t, st, "s"); after.Version != before.Version || state(t, st, "s") != "{}" {
		t.Errorf("the root has changed: %+v", after)
	}
	if err := eng.Interrupt(t.Context(), child, "enough"); err != nil {
		t.Fatal(err)
	}
	if row := load(t, st, child); row.Status != cairn.SessionInterrupted {
		t.Errorf("the child is %s", row.Status)
	}
}

// The events of a sub-agent's session are its own and those of the sessions below it, however they are read.
func TestEventsOfAChild(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng, res := family(t, st)
	child := res.Suspended.Children[0]
	below, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: child.SessionID})
	if err != nil || len(below.Items) != 1 {
		t.Fatal(below.Items, err)
	}
	var want []int64
	for _, ev := range history(t, st, "s") {
		if ev.SessionID == child.SessionID || ev.SessionID == below.Items[0].ID {
			want = append(want, ev.Sequence)
		}
	}
	got, err := eng.History(t.Context(), child.SessionID, cairn.Cursor{}, 0)
	if err != nil || !slices.Equal(sequences(got), want) {
		t.Errorf("history %v, %v, want %v", sequences(got), err, want)
	}
	var paged []cairn.Event
	for after := (cairn.Cursor{}); ; {
		page, err := eng.History(t.Context(), child.SessionID, after, 3)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
		if len(page) < 3 {
			break
		}
		after = page[2].Cursor()
	}
	if !slices.Equal(sequences(paged), want) {
		t.Errorf("in pages %v, want %v", sequences(paged), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var followed []cairn.Event
	for ev := range until(t, ctx, eng.Events(ctx, child.SessionID, cairn.Cursor{})) {
		if followed = append(followed, ev); len(followed) == len(want) {
			cancel()
		}
	}
	if !slices.Equal(sequences(followed), want) {
		t.Errorf("followed %v, want %v", sequences(followed), want)
	}
	run, err := eng.Attach(t.Context(), child.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range run.Events(t.Context()) {
		if err != nil || !slices.Contains(want, ev.Sequence) {
			t.Errorf("event %d of session %s, %v", ev.Sequence, ev.SessionID, err)
		}
	}
	if err := eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, err := range eng.Events(t.Context(), child.SessionID, cairn.Cursor{}) {
		wantError(t, err, cairn.ErrDeleted)
	}
}

func sequences(list []cairn.Event) (all []int64) {
	for _, ev := range list {
		all = append(all, ev.Sequence)
	}
	return all
}

// Readers of a sub-agent's session learn that its tree is removed.
func TestReaderOfAChildSeesTheRemoval(t *testing.T) {
	t.Parallel()
	eng, res := family(t, tapOn(nil))
	child := res.Suspended.Children[0].SessionID
	var last cairn.Event
	var ended error
	for ev, err := range eng.Events(t.Context(), child, cairn.Cursor{}) {
		if err != nil {
			ended = err
			break
		}
		if last.Type == "" {
			if err := eng.Delete(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		last = ev
	}
	if last.Type != cairn.EventSessionDeleted || !errors.Is(ended, cairn.ErrDeleted) {
		t.Errorf("the last event is %s, then %v", last.Type, ended)
	}
}
