package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

func TestContextAddedBetweenTurnsIsReadByTheNextOne(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := scripted.New(scripted.Text("one"), scripted.Text("two"))
	eng := open(t, st, bot(model))
	turn(t, eng, "s", "first")
	if err := eng.AddContext(t.Context(), "s", "it rains", "it pours"); err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "second")
	seen := model.Requests()[1].Messages
	if len(seen) != 5 || seen[2].Text() != "it rains" || seen[3].Text() != "it pours" || !seen[2].Hidden || seen[4].Text() != "second" {
		t.Errorf("the model saw %s", marshal(seen))
	}
	// The previous request is still the beginning, word for word.
	if a, b := marshal(model.Requests()[0].Messages), marshal(seen[:1]); a != b {
		t.Errorf("the prefix changed from %s to %s", a, b)
	}
	wantSound(t, st, "s")
}

func TestUserContextIsThatOfTheFirstTurn(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("one"), scripted.Text("two"))))
	turn(t, eng, "s", "go", engine.WithUser("ann"), engine.WithTags("a", "b"), engine.WithTraceParent("00-1-2-01"),
		engine.WithMetadata(map[string]string{"k": "v"}))
	turn(t, eng, "s", "go", engine.WithUser("eve"), engine.ActForOwner(), engine.WithTags("c"))
	row := load(t, st, "s")
	if row.UserID != "ann" || len(row.Tags) != 2 || row.TraceParent != "00-1-2-01" || row.Metadata["k"] != "v" {
		t.Errorf("the session is %+v", row)
	}
	page, err := eng.Sessions(t.Context(), store.SessionQuery{UserID: "ann"})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("sessions %+v, %v", page.Items, err)
	}
}

func TestHandlesSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	type place struct {
		session, run, agent, user string
		turn, number              int
	}
	of := func(s *cairn.Step) place { return place{s.SessionID, s.RunID, s.Agent, s.UserID, s.Turn, s.Number} }
	var infos []place
	agent := bot(scripted.New(scripted.Text("one"), scripted.Call("where", in{}), scripted.Text("two")),
		tool("where", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
			infos = append(infos, of(call.Step))
			return "", nil
		}))
	agent.Hooks = &cairn.Hooks{RunStart: func(_ context.Context, s *cairn.Step) { infos = append(infos, of(s)) }}
	eng := open(t, tapOn(nil), agent)
	turn(t, eng, "s", "go", engine.WithUser("ann"))
	res := turn(t, eng, "s", "go")
	want := place{session: "s", run: res.RunID, agent: "bot", user: "ann", turn: 2}
	if infos[1] != want {
		t.Errorf("the hook is at %+v, want %+v", infos[1], want)
	}
	want.number = 1
	if infos[2] != want {
		t.Errorf("the tool is at %+v, want %+v", infos[2], want)
	}
}

func TestResumedAndRetriedRunsNameTheirPredecessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		var called []string
		add := func(format string, args ...any) { called = append(called, fmt.Sprintf(format, args...)) }
		agent := bot(scripted.New(scripted.Pause(time.Hour), scripted.Fail(cairn.Errorf(cairn.ErrAuth, "no key")), scripted.Text("ok")))
		agent.Hooks = &cairn.Hooks{
			RunStart:    func(_ context.Context, s *cairn.Step) { add("start of turn %d", s.Turn) },
			RunResumed:  func(_ context.Context, _ *cairn.Step, previous string) { add("resumed after %s", previous) },
			RunComplete: func(_ context.Context, _ *cairn.Step, r *cairn.Result) { add("complete: %s", r.Text) },
			RunFail:     func(_ context.Context, _ *cairn.Step, r *cairn.Result) { add("failed: %s", r.Error.Code) },
		}
		eng := open(t, st, agent)
		start(t, eng, "s", "go")
		synctest.Wait()
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []func(context.Context, string, ...engine.RunOption) (*engine.Run, error){eng.Resume, eng.Retry} {
			run, err := verb(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wait(t, run)
		}
		want := []string{"start of turn 1", "resumed after run_2", "failed: authentication", "resumed after run_3", "complete: ok"}
		if !slices.Equal(called, want) {
			t.Errorf("hooks %q, want %q", called, want)
		}
		runs := runsOf(t, st, "s")
		if runs[1].Kind != cairn.RunResume || runs[1].PreviousRunID != "run_2" || runs[2].Kind != cairn.RunRetry || runs[2].PreviousRunID != "run_3" {
			t.Errorf("runs %+v", runs)
		}
		wantSound(t, st, "s")
	})
}

func TestRunUnderWayShowsWhatItCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Call("note", in{"x"}).Usage(7, 3), scripted.Pause(time.Hour)), note()))
		start(t, eng, "s", "go")
		synctest.Wait()
		page, err := eng.Runs(t.Context(), "s", store.PageQuery{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("runs %+v, %v", page.Items, err)
		}
		if r := page.Items[0]; r.Status != cairn.RunRunning || r.Steps != 1 || r.Usage.InputTokens != 7 || !r.EndedAt.IsZero() {
			t.Errorf("run %+v", r)
		}
	})
}

func TestRunRecordsWhereItsEventsAndMessagesBegin(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(2), note()))
	turn(t, eng, "s", "one")
	turn(t, eng, "s", "two")
	runs, events := runsOf(t, st, "s"), history(t, st, "s")
	for i, r := range runs {
		if ev := events[r.StartSequence]; ev.Type != cairn.EventRunStart || ev.RunID != r.ID {
			t.Errorf("run %d starts after sequence %d, there is %s", i+1, r.StartSequence, ev.Type)
		}
		if m := messages(t, st, "s")[r.FirstMessage]; m.RunID != r.ID || m.Role != cairn.RoleUser {
			t.Errorf("run %d begins at message %d, which is %s", i+1, r.FirstMessage, marshal(m))
		}
		if r.EndedAt.Before(r.StartedAt) || r.EndedAt.IsZero() {
			t.Errorf("run %d from %s to %s", i+1, r.StartedAt, r.EndedAt)
		}
	}
}

func TestDeletedSessionIsGoneWithItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Text("once"), scripted.Text("anew"))))
		turn(t, eng, "s", "go")
		if err := eng.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wantError(t, eng.Delete(t.Context(), "s"), cairn.ErrNotFound)
		if err := eng.Erase(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if res := turn(t, eng, "s", "go"); res.Turn != 1 {
			t.Errorf("the session of the same name goes on at turn %d", res.Turn)
		}
		wantSound(t, st, "s")
	})
}
