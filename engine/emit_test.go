package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// An application's event is on the stream between two runs, and during one.
func TestEmitOnAStream(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	var during error
	var eng *engine.Engine
	eng = open(t, st, bot(counter(2), tool("note", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
		during = eng.Emit(ctx, "s", "stock", map[string]int{"left": 3})
		stream, err := eng.Stream(ctx, "s")
		if err == nil && stream.Ended {
			t.Error("the stream has ended while a run is under way")
		}
		return "", err
	})))
	turn(t, eng, "s", "go")
	before, err := eng.Stream(t.Context(), "s")
	if err != nil || during != nil || before.First != 1 || before.Last != int64(len(history(t, st, "s"))) || !before.Ended {
		t.Fatalf("the stream is %+v, %v, %v", before, err, during)
	}
	if err := eng.Emit(t.Context(), "s", "shipped", "today"); err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "and now?")
	var names []string
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventCustom {
			names = append(names, ev.Name+string(ev.Data))
			if ev.RunID != "" || ev.SessionID != "s" || ev.Agent != "bot" || ev.Time.IsZero() {
				t.Errorf("event %+v", ev)
			}
		}
		if ev.Sequence == before.Last+1 && ev.Name != "shipped" {
			t.Errorf("the event behind the first run is %+v", ev)
		}
	}
	if got := strings.Join(names, " "); got != `stock{"left":3} shipped"today" stock{"left":3}` {
		t.Errorf("custom events are %s", got)
	}
	wantError(t, eng.Emit(t.Context(), "s", "", 1), cairn.ErrInvalid)
	wantError(t, eng.Emit(t.Context(), "s", "x", func() {}), cairn.ErrInvalid)
	wantError(t, eng.Emit(t.Context(), "s", "x", "\x00"), cairn.ErrInvalid)
	wantError(t, eng.Emit(t.Context(), "s", "x", strings.Repeat("x", st.EventLog().MaxEvent())), cairn.ErrTooLarge)
	wantError(t, eng.Emit(t.Context(), "none", "x", 1), cairn.ErrNotFound)
	_, err = eng.Stream(t.Context(), "none")
	wantError(t, err, cairn.ErrNotFound)
	row, err := eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.EventLog().Trim(t.Context(), row.Log(), 7); err != nil {
		t.Fatal(err)
	}
	if after, err := eng.Stream(t.Context(), "s"); err != nil || after.First != 7 || after.Last <= before.Last {
		t.Errorf("the trimmed stream is %+v, %v", after, err)
	}
}

// The stream of a session that waits has ended until the last answer is there, and not while a turn is queued.
func TestStreamOfAWaitingSession(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Call("pay", in{"1"}), scripted.Text("paid"), scripted.Text("ok")), echo("pay", cairn.RequireApproval())))
	res := turn(t, eng, "s", "go")
	ended := func(want bool, when string) {
		t.Helper()
		if stream, err := eng.Stream(t.Context(), "s"); err != nil || stream.Ended != want {
			t.Errorf("%s: %+v, %v", when, stream, err)
		}
	}
	ended(true, "with an open call")
	if _, err := eng.Submit(t.Context(), "s", cairn.Approve(res.Suspended.Calls[0])); err != nil {
		t.Fatal(err)
	}
	ended(false, "with its answer")
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	wait(t, run)
	ended(true, "with the result")
}
