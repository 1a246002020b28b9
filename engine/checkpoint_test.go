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
	"github.com/cairn-agents/cairn/store"
)

// A session can be rewound between the commit of a checkpoint and the return of it.
func TestCheckpointThatIsRewoundAtOnce(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("done"))))
	turn(t, eng, "s", "go")
	before := load(t, st, "s").CheckpointID
	other := open(t, tapOn(st.Store), bot(scripted.New()), named("b"))
	st.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Commit" {
			_, err := other.Rewind(t.Context(), "s", before)
			return err
		}
		return nil
	})
	if cp, err := eng.Checkpoint(t.Context(), "s"); !errors.Is(err, cairn.ErrStale) {
		t.Errorf("%+v, %v", cp, err)
	}
}

func TestCheckpointByHand(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(2), note()))
	_, err := eng.Checkpoint(t.Context(), "s")
	wantError(t, err, cairn.ErrNotFound)
	turn(t, eng, "s", "one")
	if err := eng.AddContext(t.Context(), "s", "by the way"); err != nil {
		t.Fatal(err)
	}
	cp, err := eng.Checkpoint(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	row := load(t, st, "s")
	page, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if last := page.Items[len(page.Items)-1]; len(page.Items) != 3 || last != *cp || row.CheckpointID != cp.ID || cp.MessageCount != 5 || cp.RunID != row.RunID || cp.ParentID != page.Items[1].ID {
		t.Errorf("checkpoint %+v of %+v", cp, page.Items)
	}
	turn(t, eng, "s", "two")
	if _, err := eng.Branch(t.Context(), "s", "branch", engine.AtCheckpoint(cp.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Rewind(t.Context(), "s", cp.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s", "branch"} {
		if n := load(t, st, id).MessageCount; n != 5 {
			t.Errorf("%s has %d messages", id, n)
		}
		if got := state(t, st, id); got != `{"notes":["1"]}` {
			t.Errorf("%s has the state %s", id, got)
		}
	}
	turn(t, eng, "s", "three")
	wantSound(t, st, "s")
	told := 0
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventCheckpoint && ev.CheckpointID == cp.ID && ev.MessageCount == 5 {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the log has the checkpoint %d times", told)
	}
}

func TestNoCheckpointByHandWhileARunHoldsTheSession(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	gate := make(chan struct{})
	eng := open(t, st, bot(scripted.New(scripted.Reply(scripted.Text("so "), scripted.Gate(gate), scripted.Text("it is")))))
	run := start(t, eng, "s", "go")
	_, err := eng.Checkpoint(t.Context(), "s")
	wantError(t, err, cairn.ErrAlreadyRunning)
	close(gate)
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	wantSound(t, st, "s")
}

func TestToolCacheIsListedAndDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		runs := 0
		look := tool("look", func(_ context.Context, _ *cairn.Call, in in) (string, error) { runs++; return "saw " + in.Text, nil },
			cairn.Cache(cairn.CachePolicy{TTL: time.Hour}))
		ask := func(text string) scripted.Step { return scripted.Call("look", in{text}) }
		gate := make(chan struct{})
		eng := open(t, st, bot(scripted.New(
			ask("a"), ask("b"), scripted.Text("one"),
			ask("a"), scripted.Text("two"),
			ask("b"), scripted.Reply(scripted.Text("I think "), scripted.Gate(gate), ask("a")), ask("b"), scripted.Text("three")), look))
		turn(t, eng, "s", "go")
		list, err := eng.ToolCache(t.Context(), "s")
		if err != nil || len(list) != 2 || string(list[0].Output) != `"saw b"` || string(list[1].Output) != `"saw a"` || list[0].Tool != "look" {
			t.Fatalf("%+v, %v", list, err)
		}
		n, err := eng.DropToolCache(t.Context(), "s", list[1].Key, "no such key")
		if err != nil || n != 1 {
			t.Errorf("%d were dropped, %v", n, err)
		}
		if turn(t, eng, "s", "again"); runs != 3 {
			t.Errorf("the tool ran %d times, want 3", runs)
		}
		run := start(t, eng, "s", "and while it runs")
		synctest.Wait()
		if n, err := eng.DropToolCache(t.Context(), "s"); n != 2 || err != nil {
			t.Errorf("%d were dropped, %v", n, err)
		}
		close(gate)
		if wait(t, run); runs != 4 { // the step under way knew "a"
			t.Errorf("the tool ran %d times, want 4", runs)
		}
		list, err = eng.ToolCache(t.Context(), "s")
		if err != nil || len(list) != 1 || string(list[0].Output) != `"saw b"` {
			t.Errorf("%+v, %v", list, err)
		}
		testclock.Advance(2 * time.Hour)
		if list, err := eng.ToolCache(t.Context(), "s"); err != nil || len(list) != 0 {
			t.Errorf("what is no longer good: %+v, %v", list, err)
		}
		if n, err := eng.DropToolCache(t.Context(), "s", "no such key"); n != 0 || err != nil {
			t.Errorf("%d were dropped, %v", n, err)
		}
	})
}
