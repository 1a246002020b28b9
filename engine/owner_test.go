package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// situations are sessions of ann, in each status. Each leaves the session "s" and returns the id of its last run.
var situations = map[string]func(t *testing.T, st *tap) string{
	"completed": func(t *testing.T, st *tap) string {
		return turn(t, open(t, st, bot(scripted.New(scripted.Text("ok")))), "s", "go", engine.WithUser("ann")).RunID
	},
	"failed": func(t *testing.T, st *tap) string {
		model := scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "no")))
		return turn(t, open(t, st, bot(model)), "s", "go", engine.WithUser("ann")).RunID
	},
	"interrupted": func(t *testing.T, st *tap) string {
		eng := open(t, st, bot(storyteller()))
		run := start(t, eng, "s", "go", engine.WithUser("ann"))
		synctest.Wait()
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		return run.ID()
	},
	"waiting": func(t *testing.T, st *tap) string {
		return turn(t, open(t, st, asking()), "s", "go", engine.WithUser("ann")).RunID
	},
	"answered": func(t *testing.T, st *tap) string {
		eng := open(t, st, asking())
		res := turn(t, eng, "s", "go", engine.WithUser("ann"))
		if _, err := eng.Submit(t.Context(), "s", cairn.Answer(res.Suspended.Calls[0], "yes")); err != nil {
			t.Fatal(err)
		}
		return res.RunID
	},
	"running": func(t *testing.T, st *tap) string {
		run := start(t, open(t, st, bot(storyteller())), "s", "go", engine.WithUser("ann"))
		synctest.Wait()
		return run.ID()
	},
	"crashed": func(t *testing.T, st *tap) string {
		cut := tapOn(st.Store)
		model := scripted.New(scripted.Reply(scripted.Do(cut.cut), scripted.Pause(time.Hour)))
		run := start(t, open(t, cut, bot(model), shortLease), "s", "go", engine.WithUser("ann"))
		testclock.Advance(ttl)
		return run.ID()
	},
	"of no user": func(t *testing.T, st *tap) string {
		return turn(t, open(t, st, bot(scripted.New(scripted.Text("ok")))), "s", "go").RunID
	},
}

// A verb with WithUser neither uses nor shows a session of another user, whatever its status and the other options:
// the session appears not to exist, and does not change.
func TestWithUserRefusesSessionOfAnother(t *testing.T) {
	t.Parallel()
	type verb func(eng *engine.Engine, ctx context.Context, run string) (*engine.Run, error)
	execute := func(opts ...engine.RunOption) verb {
		return func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Execute(ctx, "s", "bot", cairn.Text("What did I say?"), append(opts, engine.WithUser("eve"))...)
		}
	}
	verbs := map[string]verb{
		"Execute":           execute(),
		"Execute, enqueue":  execute(engine.WithOnBusy(engine.BusyEnqueue), engine.WithOnWaiting(engine.WaitingEnqueue)),
		"Execute, steer":    execute(engine.WithOnBusy(engine.BusySteer)),
		"Execute, stop":     execute(engine.WithOnBusy(engine.BusyInterrupt), withdraw),
		"Execute, rollback": execute(engine.WithOnBusy(engine.BusyRollback)),
		"Execute, replace":  execute(engine.FromMessage(0), engine.WithOnBusy(engine.BusyInterrupt)),
		"Execute, as anonymous": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			user := ""
			if row, _ := eng.Session(ctx, "s"); row.UserID == "" {
				user = "eve"
			}
			return eng.Execute(ctx, "s", "bot", cairn.Text("hi"), engine.WithUser(user))
		},
		"Execute, same run": func(eng *engine.Engine, ctx context.Context, run string) (*engine.Run, error) {
			return execute(engine.WithRunID(run))(eng, ctx, run)
		},
		"Resume": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithUser("eve"))
		},
		"Resume, input": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithUser("eve"), engine.WithInput(cairn.Text("hi")))
		},
		"Resume, model": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithUser("eve"), engine.WithModel(""))
		},
		"Resume, checkpoint": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithUser("eve"), engine.FromCheckpoint("cp"))
		},
		"Resume, same run": func(eng *engine.Engine, ctx context.Context, run string) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithUser("eve"), engine.WithRunID(run))
		},
		"Retry": func(eng *engine.Engine, ctx context.Context, _ string) (*engine.Run, error) {
			return eng.Retry(ctx, "s", engine.WithUser("eve"))
		},
	}
	for status, situation := range situations {
		for name, do := range verbs {
			t.Run(status+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					run := situation(t, st)
					before := load(t, st, "s").Version
					eng := open(t, tapOn(st.Store), asking(), named("b"))
					got, err := do(eng, t.Context(), run)
					_, missing := eng.Session(t.Context(), "none")
					if got != nil || !errors.Is(err, cairn.ErrNotFound) || cairn.AsError(err).Code != cairn.ErrNotFound || cairn.AsError(err).Field != cairn.AsError(missing).Field {
						t.Fatalf("run %v, error %v, want one as for a session that does not exist", got, err)
					}
					synctest.Wait()
					if after := load(t, st, "s").Version; after != before {
						t.Errorf("the session has changed")
					}
				})
			})
		}
	}
}

// A session that another user creates at the same moment is not used either.
func TestWithUserLosesRaceForSession(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("hi"))))
	rival := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("of ann"))), named("b"))
	first := true
	st.stepIn(func(_ context.Context, op string) error {
		if op == "Commit" && first {
			first = false
			turn(t, rival, "s", "my PIN is 1234", engine.WithUser("ann"))
		}
		return nil
	}, nil)
	if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("What did I say?"), engine.WithUser("eve")); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// The owner acts as before, and others act for the owner only where the caller says so.
func TestActForOwner(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("one"), scripted.Text("two"), scripted.Text("three"))))
	for _, opts := range [][]engine.RunOption{{engine.WithUser("ann")}, {engine.WithUser("ann")}, {engine.WithUser("desk"), engine.ActForOwner()}} {
		turn(t, eng, "s", "go", opts...)
	}
	if row := load(t, st, "s"); row.UserID != "ann" || row.Turn != 3 {
		t.Errorf("turn %d of a session of %q", row.Turn, row.UserID)
	}
}
