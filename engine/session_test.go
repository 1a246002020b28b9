package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

func checkpoints(t *testing.T, eng *engine.Engine, id string) []cairn.Checkpoint {
	t.Helper()
	page, err := eng.Checkpoints(t.Context(), id, store.PageQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func TestSecondTurnHasTheWholeHistory(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Text("one"), scripted.Text("two"))
	eng := open(t, tapOn(nil), bot(model))
	turn(t, eng, "s", "first")
	turn(t, eng, "s", "second")
	var texts []string
	for _, m := range model.Requests()[1].Messages {
		texts = append(texts, m.Text())
	}
	if got := strings.Join(texts, " "); got != "first one second" {
		t.Errorf("the model saw %q", got)
	}
}

func TestOfManyTurnsAtOnceOneWins(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	gate := make(chan struct{})
	agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Gate(gate), scripted.Text("ok"))
	}))
	var engines []*engine.Engine
	for i := range 3 {
		engines = append(engines, open(t, tapOn(st.Store), agent, named(fmt.Sprint("p", i, "_"))))
	}
	for round := range 2 { // on a new session, and on one that exists
		runs, errs := make(chan *engine.Run, 30), make(chan error, 30)
		for i := range 30 {
			go func() {
				run, err := engines[i%3].Execute(t.Context(), "s", "bot", cairn.Text("go"))
				if err != nil {
					errs <- err
				} else {
					runs <- run
				}
			}()
		}
		for range 29 {
			wantError(t, <-errs, cairn.ErrAlreadyRunning)
		}
		run := <-runs
		gate <- struct{}{}
		if res := wait(t, run); res.Turn != round+1 {
			t.Errorf("turn %d", res.Turn)
		}
	}
	wantSound(t, st, "s")
}

func TestBranchGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(3), note()))
	turn(t, eng, "s", "go", engine.WithUser("ann"), engine.WithTags("a"), engine.WithMetadata(map[string]string{"k": "v"}))
	original := render(t, st, "s")
	cps := checkpoints(t, eng, "s")
	two := 2
	for name, c := range map[string]struct {
		at       []engine.BranchOption
		messages int
		state    string
	}{
		"as it is":        {nil, 6, `{"notes":["1","2"]}`},
		"at a checkpoint": {[]engine.BranchOption{engine.AtCheckpoint(cps[0].ID)}, 3, `{"notes":["1"]}`},
		"at a message":    {[]engine.BranchOption{engine.AtMessage(3)}, 3, `{"notes":["1"]}`},
		"amid a step":     {[]engine.BranchOption{engine.AtMessage(two)}, 2, `{}`}, // the reply has a call without a result
		"at the start":    {[]engine.BranchOption{engine.AtMessage(0)}, 0, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			id := "branch " + name
			row, err := eng.Branch(t.Context(), "s", id, c.at...)
			if err != nil {
				t.Fatal(err)
			}
			if row.UserID != "ann" || row.Metadata["k"] != "v" || len(row.Tags) != 1 || row.RootID != id {
				t.Errorf("the branch is %+v", row)
			}
			if n := len(messages(t, st, id)); n != c.messages || state(t, st, id) != c.state {
				t.Errorf("%d messages and state %s, want %d and %s", n, state(t, st, id), c.messages, c.state)
			}
			wantStatus(t, turn(t, eng, id, "go on"), cairn.RunCompleted, cairn.ReasonReply)
			if name != "amid a step" { // its first messages have no events here
				for _, problem := range unanswered(messages(t, st, id)) {
					t.Error(problem)
				}
			}
		})
	}
	kept := slices.DeleteFunc(strings.SplitAfter(render(t, st, "s"), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), string(cairn.EventBranched))
	})
	if strings.Join(kept, "") != original {
		t.Error("the original session changed")
	}
}

func TestBranchThatCannotBeMade(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(2), note()))
	turn(t, eng, "s", "go")
	turn(t, eng, "other", "go")
	foreign := checkpoints(t, eng, "other")[0].ID
	for name, c := range map[string]struct {
		from, to string
		at       []engine.BranchOption
		want     error
	}{
		"from nowhere":                       {"nowhere", "x", nil, cairn.ErrNotFound},
		"onto a session":                     {"s", "other", nil, cairn.ErrExists},
		"onto itself":                        {"s", "s", nil, cairn.ErrExists},
		"to no name":                         {"s", "", nil, cairn.ErrInvalid},
		"at a checkpoint of another session": {"s", "x", []engine.BranchOption{engine.AtCheckpoint(foreign)}, cairn.ErrNotFound},
		"at a message there is not":          {"s", "x", []engine.BranchOption{engine.AtMessage(99)}, cairn.ErrInvalid},
		"at a negative message":              {"s", "x", []engine.BranchOption{engine.AtMessage(-1)}, cairn.ErrInvalid},
		"at two places":                      {"s", "x", []engine.BranchOption{engine.AtMessage(1), engine.AtCheckpoint("y")}, cairn.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eng.Branch(t.Context(), c.from, c.to, c.at...)
			wantError(t, err, c.want)
			if ok, _ := driver.Exists(t.Context(), st, "x"); ok {
				t.Error("the session was made")
			}
		})
	}
}

func TestRewindAndResume(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(3), note()))
	turn(t, eng, "s", "go")
	turn(t, eng, "other", "go")
	cps := checkpoints(t, eng, "s")

	before := render(t, st, "s")
	_, err := eng.Rewind(t.Context(), "s", checkpoints(t, eng, "other")[0].ID)
	wantError(t, err, cairn.ErrNotFound)
	_, err = eng.Resume(t.Context(), "s", engine.FromCheckpoint("nonsense"))
	wantError(t, err, cairn.ErrNotFound)
	_, err = eng.Rewind(t.Context(), "s", "")
	wantError(t, err, cairn.ErrInvalid)
	if render(t, st, "s") != before {
		t.Error("a refused rewind left a trace")
	}

	if _, err := eng.Rewind(t.Context(), "s", cps[1].ID); err != nil {
		t.Fatal(err)
	}
	if n := len(messages(t, st, "s")); n != 5 || state(t, st, "s") != `{"notes":["1","2"]}` {
		t.Errorf("after the rewind %d messages, state %s", n, state(t, st, "s"))
	}
	run, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(cps[0].ID), engine.WithInput(cairn.Text("another way")))
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, run); res.Turn != 2 || res.Steps != 3 {
		t.Errorf("outcome %+v", res)
	}
	if got := messages(t, st, "s")[3].Text(); got != "another way" {
		t.Errorf("after the checkpoint comes %q", got)
	}
	if got := state(t, st, "s"); got != `{"notes":["1","1","2"]}` {
		t.Errorf("state %s", got)
	}
	if left := checkpoints(t, eng, "s"); len(left) != 4 || left[0].ID != cps[0].ID || load(t, st, "s").CheckpointID != left[3].ID {
		t.Errorf("checkpoints %+v", left)
	}
}

func TestResumeOfACrashedSessionFromACheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(counter(4), tool("note", func(_ context.Context, call *cairn.Call, in in) (string, error) {
			if call.Number == 3 {
				st.cut()
			}
			return "", call.Append([]string{"notes"}, in.Text)
		}))
		_, _ = start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
		eng := open(t, tapOn(st.Store), bot(counter(2), note()), shortLease, named("b"))
		first := checkpoints(t, eng, "s")[0].ID
		_, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(first))
		wantError(t, err, cairn.ErrAlreadyRunning)
		testclock.Advance(ttl)
		_, err = eng.Resume(t.Context(), "s", engine.FromCheckpoint("nonsense"))
		wantError(t, err, cairn.ErrNotFound)
		if row := load(t, st.Store, "s"); row.Status != cairn.SessionActive {
			t.Errorf("a refused resume made the session %s", row.Status)
		}
		run, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(first))
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if got := state(t, st.Store, "s"); got != `{"notes":["1"]}` {
			t.Errorf("state %s", got)
		}
		if r := runsOf(t, st.Store, "s")[0]; r.Status != cairn.RunInterrupted || r.Reason != cairn.ReasonCrashed {
			t.Errorf("the run that crashed is %s (%s)", r.Status, r.Reason)
		}
	})
}

func TestCanResumeSaysWhatTheVerbsDo(t *testing.T) {
	t.Parallel()
	fail := scripted.Fail(cairn.Errorf(cairn.ErrAuth, "no key"))
	for name, c := range map[string]struct {
		prepare       func(t *testing.T, st *tap, eng *engine.Engine)
		resume, retry bool
		verbs         error // of the verbs that are not allowed
	}{
		"completed": {func(t *testing.T, _ *tap, eng *engine.Engine) { turn(t, eng, "s", "go") }, false, false, cairn.ErrNotResumable},
		"failed": {func(t *testing.T, st *tap, eng *engine.Engine) {
			turn(t, open(t, st, bot(scripted.New(fail)), named("b")), "s", "go")
		}, false, true, cairn.ErrNotResumable},
		"interrupted": {func(t *testing.T, st *tap, eng *engine.Engine) {
			other := open(t, st, bot(storyteller()), named("b"))
			start(t, other, "s", "go")
			synctest.Wait()
			if err := other.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		}, true, false, cairn.ErrNotResumable},
		"running": {func(t *testing.T, st *tap, eng *engine.Engine) {
			start(t, open(t, st, bot(storyteller()), named("b")), "s", "go")
			synctest.Wait()
		}, false, false, cairn.ErrAlreadyRunning},
		"crashed": {func(t *testing.T, st *tap, eng *engine.Engine) {
			dead := tapOn(st.Store)
			start(t, open(t, dead, bot(scripted.New(scripted.Reply(scripted.Do(dead.cut), scripted.Pause(time.Hour)))), shortLease, named("b")), "s", "go")
			testclock.Advance(ttl)
		}, true, false, cairn.ErrNotResumable},
		"empty": {func(t *testing.T, st *tap, eng *engine.Engine) {
			if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: "s", Agent: "bot"}, nil); err != nil {
				t.Fatal(err)
			}
		}, false, false, cairn.ErrNotResumable},
		"a branch": {func(t *testing.T, st *tap, eng *engine.Engine) {
			turn(t, eng, "from", "go")
			if _, err := eng.Branch(t.Context(), "from", "s"); err != nil {
				t.Fatal(err)
			}
		}, false, false, cairn.ErrNotResumable},
		"a branch within a turn": {func(t *testing.T, st *tap, eng *engine.Engine) {
			turn(t, eng, "from", "go")
			if _, err := eng.Branch(t.Context(), "from", "s", engine.AtMessage(1)); err != nil {
				t.Fatal(err)
			}
		}, true, false, cairn.ErrNotResumable},
		"paused": {func(t *testing.T, st *tap, eng *engine.Engine) {
			turn(t, eng, "s", "go")
			if _, _, err := driver.CompareAndSetStatus(t.Context(), st, "s", []cairn.SessionStatus{cairn.SessionCompleted}, cairn.SessionPaused); err != nil {
				t.Fatal(err)
			}
		}, true, false, cairn.ErrNotResumable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })))
				c.prepare(t, st, eng)
				can, err := eng.CanResume(t.Context(), "s")
				if err != nil || can.Resume != c.resume || can.Retry != c.retry || can.Reason == "" {
					t.Fatalf("can resume: %+v, %v", can, err)
				}
				before := render(t, st, "s")
				for verb, allowed := range map[string]bool{"resume": c.resume, "retry": c.retry} {
					if allowed {
						continue
					}
					if verb == "resume" {
						_, err = eng.Resume(t.Context(), "s")
					} else {
						_, err = eng.Retry(t.Context(), "s")
					}
					wantError(t, err, c.verbs)
				}
				if render(t, st, "s") != before {
					t.Error("a refused verb left a trace")
				}
				if !c.resume && !c.retry {
					return
				}
				run, err := eng.Resume(t.Context(), "s")
				if c.retry {
					run, err = eng.Retry(t.Context(), "s")
				}
				if err != nil {
					t.Fatal(err)
				}
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
			})
		})
	}
}

func TestResumeWithoutWordsAsksTheModelToGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		model := storyteller()
		eng := open(t, st, bot(model))
		start(t, eng, "s", "go")
		synctest.Wait()
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		req := model.Requests()[1].Messages
		if last := req[len(req)-1]; last.Role != cairn.RoleUser || !last.Hidden {
			t.Errorf("the request ends with %+v", last)
		}
		wantSound(t, st, "s")
	})
}

// Sessions with calls without results, from other sources, are healed when they are reopened.
func TestCallsWithoutResultsAreHealed(t *testing.T) {
	t.Parallel()
	use := func(id string) cairn.Part {
		return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "note", Input: []byte(`{"text":"x"}`)}}
	}
	answer := func(id string) cairn.Part {
		return cairn.Part{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: id, Tool: "note", Output: []byte(`"ok"`)}}
	}
	asks := func(id string, parts ...cairn.Part) cairn.Message {
		return cairn.Message{ID: id, Role: cairn.RoleAssistant, Parts: parts}
	}
	answers := func(id string, parts ...cairn.Part) cairn.Message {
		return cairn.Message{ID: id, Role: cairn.RoleTool, Parts: parts}
	}
	hello := cairn.Message{ID: "u1", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("hello")}}
	later := cairn.Message{ID: "u2", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("later")}}
	hidden := cairn.Context("by the way")
	hidden.ID = "h1"
	for name, list := range map[string][]cairn.Message{
		"at the end":                  {hello, asks("a1", use("c1"), use("c2"))},
		"half answered":               {hello, asks("a1", use("c1"), use("c2")), answers("t1", answer("c1"))},
		"with context after it":       {hello, asks("a1", use("c1")), hidden},
		"in the middle":               {hello, asks("a1", use("c1")), later, asks("a2", cairn.TextPart("hm"))},
		"answered too late":           {hello, asks("a1", use("c1")), later, answers("t1", answer("c1")), asks("a2", cairn.TextPart("hm"))},
		"answered without a question": {hello, answers("t1", answer("c9")), asks("a1", use("c1"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: "s", Agent: "bot"}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := driver.AppendMessages(t.Context(), st, "s", list...); err != nil {
				t.Fatal(err)
			}
			model := scripted.New(scripted.Call("note", in{"new"}).ID("c1"), scripted.Text("ok"))
			wantStatus(t, turn(t, open(t, st, bot(model, note())), "s", "and now?"), cairn.RunCompleted, cairn.ReasonReply)
			if name == "at the end" { // where the transcript itself can be mended
				for _, problem := range unanswered(messages(t, st, "s")) {
					t.Error(problem)
				}
			}
			for i, req := range model.Requests() {
				for _, problem := range unanswered(req.Messages) {
					if !strings.Contains(problem, "empty or repeated") {
						t.Errorf("request %d: %s", i+1, problem)
					}
				}
			}
		})
	}
}

func TestBadInputIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("ok"))))
	turn(t, eng, "s", "go")
	before := render(t, st, "s")
	ctx := t.Context()
	long, text := strings.Repeat("x", 201), cairn.Text("hi")
	execute := func(id, agent string, in cairn.Input, opts ...engine.RunOption) func() error {
		return func() error { _, err := eng.Execute(ctx, id, agent, in, opts...); return err }
	}
	resume := func(id string, opts ...engine.RunOption) func() error {
		return func() error { _, err := eng.Resume(ctx, id, opts...); return err }
	}
	retry := func(id string, opts ...engine.RunOption) func() error {
		return func() error { _, err := eng.Retry(ctx, id, opts...); return err }
	}
	for name, c := range map[string]struct {
		do    func() error
		want  error
		field string
	}{
		"empty session id":          {execute("", "bot", text), cairn.ErrInvalid, "session"},
		"long session id":           {execute(long, "bot", text), cairn.ErrInvalid, "session"},
		"session id of bad UTF-8":   {execute("a\xff", "bot", text), cairn.ErrInvalid, "session"},
		"session id with a newline": {execute("a\nb", "bot", text), cairn.ErrInvalid, "session"},
		"unknown agent":             {execute("s", "nobody", text), cairn.ErrNotFound, "agent"},
		"no input":                  {execute("s", "bot", cairn.Input{}), cairn.ErrInvalid, "input"},
		"empty text":                {execute("s", "bot", cairn.Text("")), cairn.ErrInvalid, "input"},
		"text of bad UTF-8":         {execute("s", "bot", cairn.Text("\xff")), cairn.ErrInvalid, "input"},
		"text that is too long":     {execute("s", "bot", cairn.Text(strings.Repeat("x", cairn.MaxInputBytes+1))), cairn.ErrTooLarge, "input"},
		"an assistant's message":    {execute("s", "bot", cairn.Messages(cairn.Message{Role: cairn.RoleAssistant})), cairn.ErrInvalid, "input.role"},
		"user id of bad UTF-8":      {execute("new", "bot", text, engine.WithUser("\xff")), cairn.ErrInvalid, "user_id"},
		"empty tag":                 {execute("new", "bot", text, engine.WithTags("")), cairn.ErrInvalid, "tags"},
		"metadata too large":        {execute("new", "bot", text, engine.WithMetadata(map[string]string{"k": strings.Repeat("x", cairn.MaxMetadataBytes)})), cairn.ErrTooLarge, "metadata"},
		"execute with input":        {execute("s", "bot", text, engine.WithInput(text)), cairn.ErrInvalid, "options"},
		"execute from a checkpoint": {execute("s", "bot", text, engine.FromCheckpoint("x")), cairn.ErrInvalid, "options"},
		"resume of nothing":         {resume("none"), cairn.ErrNotFound, "session"},
		"resume without a name":     {resume(""), cairn.ErrInvalid, "session"},
		"resume with empty words":   {resume("s", engine.WithInput(cairn.Text(""))), cairn.ErrInvalid, "input"},
		"retry of nothing":          {retry("none"), cairn.ErrNotFound, "session"},
		"retry from a checkpoint":   {retry("s", engine.FromCheckpoint("x")), cairn.ErrInvalid, "options"},
		"context without text":      {func() error { return eng.AddContext(ctx, "s", "") }, cairn.ErrInvalid, "input"},
		"context without texts":     {func() error { return eng.AddContext(ctx, "s") }, cairn.ErrInvalid, "input"},
		"context for nothing":       {func() error { return eng.AddContext(ctx, "none", "x") }, cairn.ErrNotFound, "session"},
		"interrupt without a name":  {func() error { return eng.Interrupt(ctx, "", "") }, cairn.ErrInvalid, "session"},
		"attach to nothing":         {func() error { _, err := eng.Attach(ctx, "none"); return err }, cairn.ErrNotFound, "session"},
		"can resume nothing":        {func() error { _, err := eng.CanResume(ctx, "none"); return err }, cairn.ErrNotFound, "session"},
		"snapshot of nothing":       {func() error { _, err := eng.Snapshot(ctx, "none"); return err }, cairn.ErrNotFound, "session"},
		"keep no checkpoint":        {func() error { _, err := eng.Prune(ctx, "s", 0); return err }, cairn.ErrInvalid, "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			wantError(t, err, c.want)
			var e *cairn.Error
			if !errors.As(err, &e) || e.Field != c.field {
				t.Errorf("error %q is about field %q, want %q", err, e.Field, c.field)
			}
			if render(t, st, "s") != before {
				t.Error("it left a trace")
			}
			if ok, _ := driver.Exists(ctx, st, "new"); ok {
				t.Error("it made a session")
			}
		})
	}
	for _, err := range eng.Events(ctx, "none", cairn.Cursor{}) {
		wantError(t, err, cairn.ErrNotFound)
	}
}

func TestSessionBelongsToItsAgent(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	one, two := bot(scripted.New(scripted.Text("ok"))), bot(scripted.New(scripted.Text("ok")))
	two.Name = "other"
	eng, err := engine.New(st, []*cairn.Agent{one, two}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(t, eng) })
	turn(t, eng, "s", "go")
	for range 2 { // warm and cold
		_, err = eng.Execute(t.Context(), "s", "other", cairn.Text("go"))
		wantError(t, err, cairn.ErrInvalid)
	}
	if n := len(runsOf(t, st, "s")); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestEngineRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := bot(scripted.New())
	for name, c := range map[string]struct {
		st     store.Store
		agents []*cairn.Agent
		opts   *engine.Options
		field  string
	}{
		"no store":             {nil, nil, nil, "store"},
		"no log":               {plain{tapOn(nil)}, nil, nil, "log"},
		"a nil agent":          {tapOn(nil), []*cairn.Agent{nil}, nil, "agents"},
		"an agent twice":       {tapOn(nil), []*cairn.Agent{good, good}, nil, "agents"},
		"an agent of no model": {tapOn(nil), []*cairn.Agent{{Name: "x"}}, nil, "model"},
		"a nil hook":           {tapOn(nil), nil, &engine.Options{Hooks: []*cairn.Hooks{nil}}, "hooks"},
		"a negative lease":     {tapOn(nil), nil, &engine.Options{LeaseTTL: -1}, "lease_ttl"},
		"a negative grace":     {tapOn(nil), nil, &engine.Options{StopGrace: -1}, "stop_grace"},
		"a negative interval":  {tapOn(nil), nil, &engine.Options{WorkInterval: -1}, "work_interval"},
		"a negative wait":      {tapOn(nil), nil, &engine.Options{WaitAtMost: -1}, "wait_at_most"},
		"fewer than no runs":   {tapOn(nil), nil, &engine.Options{WorkConcurrency: -1}, "work_concurrency"},
		"fewer than no tries":  {tapOn(nil), nil, &engine.Options{MaxRecoveries: -1}, "max_recoveries"},
		"a log of tiny events": {tapOn(nil), nil, &engine.Options{Log: tiny{tapOn(nil).log}}, "log"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.New(c.st, c.agents, c.opts)
			wantError(t, err, cairn.ErrInvalid)
			var e *cairn.Error
			if errors.As(err, &e); e.Field != c.field {
				t.Errorf("error %q is about field %q, want %q", err, e.Field, c.field)
			}
		})
	}
}

// plain is a store without an event log.
type plain struct{ store.Store }

func (p plain) Self() store.Store { return p }

type tiny struct{ store.Log }

func (tiny) MaxEvent() int { return 1000 }

// A turn creates its session again if that is erased between the turn's read and its write.
func TestTurnOfASessionThatIsBeingErased(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("Yes.") }))
	other := open(t, st, agent)
	turn(t, other, "s", "go")
	commits := 0
	st.stepIn(func(ctx context.Context, op string) error {
		if op != "Commit" {
			return nil
		}
		if commits++; commits != 1 {
			return nil
		}
		return other.Erase(ctx, "s")
	}, nil)
	wantStatus(t, turn(t, open(t, st, agent), "s", "again"), cairn.RunCompleted, cairn.ReasonReply)
	if row := load(t, st, "s"); commits < 2 || row.MessageCount != 2 {
		t.Errorf("%d commits, %d messages", commits, row.MessageCount)
	}
}
