package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// A busy session is deleted with its queue in one call, by any process: the run is stopped and no queued turn begins.
func TestDeleteStopsABusySession(t *testing.T) {
	t.Parallel()
	for verb, remove := range map[string]func(*engine.Engine, context.Context, string) error{"delete": (*engine.Engine).Delete, "erase": (*engine.Engine).Erase} {
		for _, where := range []string{"here", "elsewhere", "dead"} {
			t.Run(verb+" "+where, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					asked := 0
					agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
						asked++
						return scripted.Reply(scripted.Text("so "), scripted.Pause(time.Hour))
					}))
					eng := open(t, st, agent, patient)
					run := start(t, eng, "s", "one")
					var queued []*engine.Run
					for range 3 {
						queued = append(queued, start(t, eng, "s", "more", engine.WithOnBusy(engine.BusyEnqueue)))
					}
					synctest.Wait()
					by := eng
					if where != "here" {
						by = open(t, st, agent, named("b"))
					}
					if where == "dead" {
						leave(t, eng)
					}
					if err := remove(by, t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
					if _, err := driver.Load(t.Context(), st, "s"); !driver.IsGone(err) && verb == "delete" || err == nil {
						t.Errorf("the session: %v", err)
					}
					if asked != 1 {
						t.Errorf("the model was called %d times", asked)
					}
					if where == "here" {
						wantStatus(t, wait(t, run), cairn.RunFailed, cairn.ReasonAborted)
					}
					for _, run := range queued {
						if res, err := run.Wait(t.Context()); err == nil {
							t.Errorf("the queued turn ended as %+v", res)
						}
					}
				})
			})
		}
	}
}

// A companion in the background holds its tree although the root is idle.
func TestDeleteStopsBackgroundCompanions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent, _ := companions(cairn.NonBlocking, scribe(time.Hour), spawn("c1", "ann", "one"), scripted.Text("ann is at work"))
		eng := open(t, tapOn(nil), agent, patient)
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		if err := eng.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if page, err := eng.Sessions(t.Context(), store.SessionQuery{}); err != nil || len(page.Items) > 0 {
			t.Errorf("left: %+v, %v", page.Items, err)
		}
	})
}

// A deletion that is given up leaves the session as it is.
func TestDeleteOfABusySessionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Pause(time.Hour))), patient)
		start(t, eng, "s", "one")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantError(t, open(t, st, bot(counter(1)), named("b")).Delete(ctx, "s"), context.Canceled)
		if row := load(t, st, "s"); row.Status != cairn.SessionActive {
			t.Errorf("the session is %s", row.Status)
		}
	})
}
