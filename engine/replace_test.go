package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A turn that replaces an earlier one refuses or stops a turn under way. Options that it does not support are refused,
// and pruned checkpoints cannot be reached. None of these refusals changes the session.
func TestFromMessage(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		said := r.Messages[len(r.Messages)-1].Text()
		if said == "three" {
			return scripted.Gate(hold)
		}
		return scripted.Text("You said " + said + ".")
	})}
	st := memstore.New(nil)
	defer st.Close()
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	defer close(hold)
	say := func(text string, opts ...engine.RunOption) (*engine.Run, error) {
		return eng.Execute(t.Context(), "s", "bot", cairn.Text(text), opts...)
	}
	for _, text := range []string{"one", "two"} {
		run, err := say(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := say("three"); err != nil {
		t.Fatal(err)
	}
	if _, err := say("two again", engine.FromMessage(2)); !errors.Is(err, cairn.ErrAlreadyRunning) {
		t.Errorf("beside a turn under way: %v", err)
	}
	for name, opt := range map[string]engine.RunOption{"a negative index": engine.FromMessage(-1),
		"a queue": engine.WithOnBusy(engine.BusyEnqueue), "a wait": engine.WithOnWaiting(engine.WaitingEnqueue)} {
		if _, err := say("never", engine.FromMessage(0), opt); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, verb := range map[string]func() (*engine.Run, error){
		"Resume": func() (*engine.Run, error) { return eng.Resume(t.Context(), "s", engine.FromMessage(0)) },
		"Retry":  func() (*engine.Run, error) { return eng.Retry(t.Context(), "s", engine.FromMessage(0)) },
	} {
		if _, err := verb(); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := eng.Execute(t.Context(), "nobody", "bot", cairn.Text("hi"), engine.FromMessage(0)); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("no session: %v", err)
	}
	run, err := say("two again", engine.FromMessage(2), engine.WithOnBusy(engine.BusyInterrupt))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "You said two again." || res.Turn != 4 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if _, err := eng.Prune(t.Context(), "s", 1); err != nil {
		t.Fatal(err)
	}
	before, err := eng.Snapshot(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := say("two once more", engine.FromMessage(2)); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a checkpoint that was pruned: %v", err)
	}
	after, err := eng.Snapshot(t.Context(), "s")
	if err != nil || after.Session.Version != before.Session.Version || len(after.Messages) != 4 {
		t.Errorf("afterwards there are %d messages: %+v, %v", len(after.Messages), after.Session, err)
	}
}

// A turn that replaces an earlier one asks the model that its options name.
func TestFromMessageAsksTheNamedModel(t *testing.T) {
	t.Parallel()
	says := func(text string) cairn.Model {
		return scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text(text) })
	}
	agent := &cairn.Agent{Name: "bot", Model: says("the agent's own"), Models: map[string]cairn.Model{"large": says("the large one")}}
	st := memstore.New(nil)
	defer st.Close()
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	for _, turn := range []struct {
		opts []engine.RunOption
		want string
	}{
		{nil, "the agent's own"},
		{[]engine.RunOption{engine.FromMessage(0), engine.WithModel("large")}, "the large one"},
	} {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Who are you?"), turn.opts...)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != turn.want {
			t.Errorf("it answered %+v, %v; want %q", res, err, turn.want)
		}
	}
}

// KeepReplaced copies what a turn replaces to a session below, with its messages and state. A refused turn leaves no copy.
func TestKeepReplaced(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	defer st.Close()
	eng := open(t, st, &cairn.Agent{Name: "bot", Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		return scripted.Text("You said " + r.Messages[len(r.Messages)-1].Text() + ".")
	})})
	say := func(text string, opts ...engine.RunOption) error {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(text), opts...)
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		return err
	}
	for _, text := range []string{"one", "two", "three"} {
		if err := say(text); err != nil {
			t.Fatal(err)
		}
	}
	before, err := eng.Snapshot(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := say("two again", engine.FromMessage(2), engine.KeepReplaced()); err != nil {
		t.Fatal(err)
	}
	kept := func() []cairn.Session {
		page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return page.Items
	}
	list := kept()
	if len(list) != 1 || list[0].Kind != cairn.ChildReplaced || list[0].Name != before.Messages[2].ID || list[0].RootID != "s" || list[0].Status != cairn.SessionCompleted {
		t.Fatalf("kept is %+v", list)
	}
	old, err := eng.Snapshot(t.Context(), list[0].ID)
	if err != nil || len(old.Messages) != 6 || old.Messages[5].Text() != "You said three." || string(old.State) != string(before.State) {
		t.Errorf("kept is %+v, %v", old, err)
	}
	if _, err := eng.Execute(t.Context(), list[0].ID, "bot", cairn.Text("hi")); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a turn of what is kept: %v", err)
	}
	if branch, err := eng.Branch(t.Context(), list[0].ID, "again"); err != nil || branch.ParentID != "" || branch.ThreadID != "again" || branch.MessageCount != 6 {
		t.Errorf("a branch of what is kept: %+v, %v", branch, err)
	}
	if _, err := eng.Prune(t.Context(), "s", 1); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]engine.RunOption{
		"no turn to replace":  {engine.KeepReplaced()},
		"a pruned checkpoint": {engine.FromMessage(2), engine.KeepReplaced()},
		"no turn's beginning": {engine.FromMessage(1), engine.KeepReplaced()},
	} {
		if err := say("never", opts...); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := kept(); len(list) != 1 {
		t.Errorf("refused turns left %+v", list)
	}
}

// What is kept of replaced turns takes no room in the tree from agents' sessions.
func TestKeptTurnsDoNotCountAsAgents(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	defer st.Close()
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("helped") })}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(helper)}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == cairn.RoleTool {
			return scripted.Text(last.Parts[0].Result.Tool + ": " + string(last.Parts[0].Result.Output))
		}
		if last.Text() == "help" {
			return scripted.Call("helper", map[string]string{"input": "please"})
		}
		return scripted.Text("yes")
	})}
	eng := open(t, st, agent, with(func(o *engine.Options) { o.MaxTreeSessions = 2 }))
	say := func(text string, opts ...engine.RunOption) string {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(text), opts...)
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res.Text
	}
	say("hi")
	for range 3 {
		say("hi", engine.FromMessage(0), engine.KeepReplaced())
	}
	if got := say("help"); got != `helper: "helped"` {
		t.Errorf("beside three kept turns: %s", got)
	}
	if got := say("help"); got == `helper: "helped"` {
		t.Error("a third session of an agent was begun")
	}
}

// diesAfterCopy is a store whose commits fail once its sessions were copied, as if the process had died in between.
type diesAfterCopy struct {
	store.Store
	dead atomic.Bool
}

func (s *diesAfterCopy) Unwrap() store.Store { return s.Store }

func (s *diesAfterCopy) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	row, err := s.Store.Branch(ctx, from, at, to)
	s.dead.Store(true)
	return row, err
}

func (s *diesAfterCopy) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if s.dead.Load() {
		return nil, cairn.Errorf(cairn.ErrInternal, "the process has died")
	}
	return s.Store.Commit(ctx, id, c)
}

// A copy and the turn that it is made for appear together. What a dead process leaves is neither listed nor taken for the
// copy of a later turn, whatever follows in the session.
func TestKeptCopyAppearsWithItsTurn(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*testing.T, *engine.Engine, func(string, ...engine.RunOption)) (kept []int){
		"nothing": func(*testing.T, *engine.Engine, func(string, ...engine.RunOption)) []int { return nil },
		"the same edit": func(_ *testing.T, _ *engine.Engine, say func(string, ...engine.RunOption)) []int {
			say("again", engine.FromMessage(0), engine.KeepReplaced())
			return []int{4}
		},
		"a turn, then an edit": func(_ *testing.T, _ *engine.Engine, say func(string, ...engine.RunOption)) []int {
			say("three")
			say("again", engine.FromMessage(0), engine.KeepReplaced())
			return []int{6}
		},
		"another state, then an edit": func(t *testing.T, eng *engine.Engine, say func(string, ...engine.RunOption)) []int {
			if _, err := eng.SetState(t.Context(), "s", json.RawMessage(`{"x":1}`)); err != nil {
				t.Fatal(err)
			}
			say("again", engine.FromMessage(0), engine.KeepReplaced())
			return []int{4}
		},
		"an edit that keeps nothing": func(_ *testing.T, _ *engine.Engine, say func(string, ...engine.RunOption)) []int {
			say("again", engine.FromMessage(0))
			return nil
		},
		"a rewind": func(t *testing.T, eng *engine.Engine, _ func(string, ...engine.RunOption)) []int {
			page, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
			if err != nil || len(page.Items) == 0 {
				t.Fatal(page, err)
			}
			if _, err := eng.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
				t.Fatal(err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			defer st.Close()
			agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") })}
			saying := func(eng *engine.Engine) func(string, ...engine.RunOption) {
				return func(text string, opts ...engine.RunOption) {
					t.Helper()
					run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(text), opts...)
					if err == nil {
						_, err = run.Wait(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			dying := &diesAfterCopy{Store: st}
			first := open(t, dying, agent)
			saying(first)("one")
			saying(first)("two")
			if _, err := first.Execute(t.Context(), "s", "bot", cairn.Text("never"), engine.FromMessage(2), engine.KeepReplaced()); err == nil {
				t.Fatal("the edit has begun")
			}
			eng := open(t, st, agent, named("second"))
			list := func() (kept []int) {
				page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range page.Items {
					kept = append(kept, s.MessageCount)
				}
				return kept
			}
			if got := list(); got != nil {
				t.Fatalf("copies of %d messages are listed before their turn", got)
			}
			want := then(t, eng, saying(eng))
			if got := list(); !slices.Equal(got, want) {
				t.Errorf("copies of %d messages are listed, want %d", got, want)
			}
			if name == "another state, then an edit" {
				page, _ := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
				if state, err := eng.State(t.Context(), page.Items[0].ID, ""); err != nil || string(state) != `{"x":1}` {
					t.Errorf("the copy has the state %s, %v", state, err)
				}
			}
		})
	}
}

// Two edits at once make one copy, and the one that is refused does not remove it.
func TestKeptCopySurvivesAnotherWriter(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	defer st.Close()
	agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") })}
	one, two := open(t, st, agent), open(t, st, agent, named("two"))
	run, err := one.Execute(t.Context(), "s", "bot", cairn.Text("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	var begun atomic.Int64
	for _, eng := range []*engine.Engine{one, two} {
		both.Go(func() {
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("again"), engine.FromMessage(0), engine.KeepReplaced())
			if err != nil {
				if !errors.Is(err, cairn.ErrAlreadyRunning) && !errors.Is(err, cairn.ErrStale) && !errors.Is(err, cairn.ErrInvalid) {
					t.Error(err)
				}
				return
			}
			begun.Add(1)
			if _, err := run.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	page, err := one.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
	if err != nil || len(page.Items) != int(begun.Load()) || begun.Load() == 0 {
		t.Errorf("%d edits have begun, and %d copies are listed, %v", begun.Load(), len(page.Items), err)
	}
}

// Beyond Options.MaxReplaced, the oldest copy goes.
func TestReplacedVersionsAreBounded(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]string{1: {"5"}, 2: {"5", "4"}, 0: {"5", "4", "3", "2", "1", "0"}, -1: {"5", "4", "3", "2", "1", "0"}} {
		st := memstore.New(nil)
		defer st.Close()
		agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") })}
		eng := open(t, st, agent, with(func(o *engine.Options) { o.MaxReplaced = limit }))
		for i := range 7 {
			var opts []engine.RunOption
			if i > 0 {
				opts = []engine.RunOption{engine.FromMessage(0), engine.KeepReplaced()}
			}
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(strconv.Itoa(i)), opts...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range page.Items {
			list, err := eng.Messages(t.Context(), s.ID, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, list[0].Text())
		}
		if !slices.Equal(got, want) {
			t.Errorf("with at most %d: %q, want %q", limit, got, want)
		}
	}
}
