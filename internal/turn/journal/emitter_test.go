package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func newTestLog(log driver.Log, coalesce time.Duration) *Log {
	return NewLog(log, false, &settings.Options{Now: time.Now, Coalesce: coalesce, Logger: slog.New(slog.DiscardHandler)})
}

// newTestEmitter returns an emitter for a new log that takes events of at most max bytes.
func newTestEmitter(t *testing.T, max int, coalesce time.Duration) (*Emitter, func() []cairn.Event) {
	log := memstore.New(&memstore.Options{MaxEvent: max}).EventLog()
	g := newTestLog(log, coalesce)
	e := g.Emitter(t.Context(), &cairn.Session{ID: "s", RootID: "s", Agent: "a"}, "run_1", 0)
	return e, func() []cairn.Event {
		t.Helper()
		list, err := log.Read(context.Background(), "s", 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
}

func TestEventsAreWrittenWithinTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logged := newTestEmitter(t, 1<<20, 20*time.Millisecond)
		say := func(text string) { e.Event(cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: text}) }
		e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 1})
		say("at once ")
		synctest.Wait()
		if n := len(logged()); n != 2 {
			t.Fatalf("%d events, want the first delta at once", n)
		}
		say("a ")
		say("b ")
		e.Event(cairn.Event{Type: cairn.EventThinking, Step: 1, Text: "hm"})
		say("c")
		testclock.Advance(20*time.Millisecond - time.Nanosecond)
		if n := len(logged()); n != 2 {
			t.Fatalf("%d events before the window has passed", n)
		}
		testclock.Advance(time.Nanosecond)
		list := logged()
		if len(list) != 5 || list[2].Text != "a b " || list[3].Text != "hm" || list[4].Text != "c" {
			t.Fatalf("events %+v", list)
		}
		if e.Position() != 5 {
			t.Errorf("position %d", e.Position())
		}
		e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 2})
		say("first again")
		synctest.Wait()
		if n := len(logged()); n != 7 {
			t.Errorf("%d events: the first delta of the second step was held back", n)
		}
	})
}

func TestAFlushOpensAWindowOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logged := newTestEmitter(t, 1<<20, 20*time.Millisecond)
		say := func() { e.Event(cairn.Event{Type: cairn.EventCustom}) }
		say() // held back: the first window opens with the emitter
		say()
		testclock.Advance(15 * time.Millisecond)
		if n := len(logged()); n != 0 {
			t.Errorf("%d events before the first window has passed", n)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		say()
		testclock.Advance(20*time.Millisecond - time.Nanosecond)
		if n := len(logged()); n != 2 {
			t.Errorf("%d events before the second window has passed, want 2", n)
		}
		testclock.Advance(time.Nanosecond)
		if n := len(logged()); n != 3 {
			t.Errorf("%d events when the second window has passed, want 3", n)
		}
	})
}

func TestDeltasOfDifferentCallsAreNotJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logged := newTestEmitter(t, 1<<20, time.Hour)
		e.Event(cairn.Event{Type: cairn.EventRunStart})
		for _, id := range []string{"c1", "c1", "c2", "c1"} {
			e.Event(cairn.Event{Type: cairn.EventToolArgDelta, Step: 1, CallID: id, Text: "x"})
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ev := range logged()[1:] {
			got = append(got, ev.CallID+"="+ev.Text)
		}
		if want := "[c1=xx c2=x c1=x]"; fmt.Sprint(got) != want {
			t.Errorf("deltas %v, want %v", got, want)
		}
	})
}

// forgetful is a log that drops the answers to as many appends as a test wants.
type forgetful struct {
	*memstore.Log
	lose int
}

func (l *forgetful) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	last, err := l.Log.AppendFenced(ctx, log, expect, w, events...)
	if l.lose > 0 {
		l.lose--
		return 0, cairn.Errorf(cairn.ErrUnavailable, "the answer was lost")
	}
	return last, err
}

// Each event is written once, whether the answer of an append is lost once, or so often that the flush fails and later
// flushes have more to write.
func TestLostAnswersDoubleNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logged := newTestEmitter(t, 1<<20, time.Hour)
		log := &forgetful{Log: e.g.Log.(*memstore.Log)}
		e.g.Log = log
		say := func(text string) { e.Event(cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: text}) }
		flush := func(lose int) error {
			log.lose = lose
			return e.Flush(t.Context())
		}
		e.Event(cairn.Event{Type: cairn.EventRunStart})
		say("one ")
		say("and ")
		if err := flush(1); err != nil {
			t.Fatal(err)
		}
		say("two ")
		if err := flush(retry.Tries); !errors.Is(err, cairn.ErrUnavailable) {
			t.Fatalf("a flush without any answer: %v", err)
		}
		say("and ") // must not be merged with a delta that may be on the log already
		if err := flush(retry.Tries); !errors.Is(err, cairn.ErrUnavailable) {
			t.Fatalf("another one: %v", err)
		}
		say("three")
		if err := flush(1); err != nil {
			t.Fatal(err)
		}
		if err := flush(0); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ev := range logged()[1:] {
			got = append(got, ev.Text)
		}
		if want := []string{"one and ", "two ", "and three"}; !slices.Equal(got, want) || e.Position() != 4 {
			t.Errorf("events %q up to %d, want %q", got, e.Position(), want)
		}
	})
}

func TestClosedEmitterWritesNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logged := newTestEmitter(t, 1<<20, time.Second)
		e.Event(cairn.Event{Type: cairn.EventRunStart})
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.Event(cairn.Event{Type: cairn.EventCustom})
		e.Close()
		testclock.Advance(time.Minute)
		if n := len(logged()); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

// Whatever is emitted fits the log: the smallest log that an engine accepts, with the longest ids, and every byte
// escaped.
func TestEverythingFitsTheLog(t *testing.T) {
	t.Parallel()
	const max = 8 << 10
	angry := strings.Repeat("<", 200)
	long := strings.Repeat("<é\x01", 5*max)
	raw, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	custom := map[string]float64{}
	for i := range 1000 {
		custom[fmt.Sprint("<usage>", i)] = 1
	}
	failure := cairn.Errorf(cairn.ErrTool, "%s", long)
	failure.Details = []string{long}
	file := cairn.FileRef{Name: angry, MediaType: angry, URL: "https://a.example/" + angry}
	for name, ev := range map[string]cairn.Event{
		"a message":        {Type: cairn.EventUserMessage, MessageID: angry, Text: long[:1<<10], Files: slices.Repeat([]cairn.FileRef{file}, 16)},
		"a queued turn":    {Type: cairn.EventQueued, Text: long[:1<<10], Files: slices.Repeat([]cairn.FileRef{file}, 16)},
		"files":            {Type: cairn.EventFiles, MessageID: angry, Files: slices.Repeat([]cairn.FileRef{file}, 16)},
		"a stopped run":    {Type: cairn.EventRunEnd, Text: long, Error: failure, Usage: &cairn.Usage{Custom: custom}},
		"a call that asks": {Type: cairn.EventToolApproval, CallID: angry[:64], Data: raw, Prompt: long, Payload: raw},
		"text":             {Type: cairn.EventTextDelta, Text: long},
		"thinking":         {Type: cairn.EventThinking, Text: long},
		"arguments":        {Type: cairn.EventToolArgDelta, Text: long, CallID: angry[:64]},
		"a result":         {Type: cairn.EventToolEnd, Data: raw, CallID: angry[:64], Tool: angry[:64]},
		"a JSON value":     {Type: cairn.EventToolEnd, Data: json.RawMessage("[" + string(raw) + "]")},
		"an output":        {Type: cairn.EventOutput, Data: raw},
		"an error":         {Type: cairn.EventRunEnd, Error: failure, Usage: &cairn.Usage{Custom: custom}},
		"usage":            {Type: cairn.EventUsage, Usage: &cairn.Usage{Custom: custom}},
		"one patch":        {Type: cairn.EventStatePatch, Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: raw}}},
		"a long path":      {Type: cairn.EventStatePatch, Patch: []cairn.PatchOp{{Op: "add", Path: "/" + long, Value: raw}}},
		"conflicts":        {Type: cairn.EventStatePatch, Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: raw}}, Conflicts: slices.Repeat([]cairn.StateConflict{{Path: "/" + angry, Lost: angry, Won: angry}}, 100)},
		"a long conflict":  {Type: cairn.EventStatePatch, Patch: []cairn.PatchOp{{Op: "add", Path: "/" + long, Value: raw}}, Conflicts: []cairn.StateConflict{{Path: "/" + long}}},
		"sources":          {Type: cairn.EventSources, Sources: slices.Repeat([]cairn.Source{{URL: "https://a.example/<", Title: "<é>", Quote: long}}, 100)},
		"many patches":     {Type: cairn.EventStatePatch, Patch: slicesRepeat(cairn.PatchOp{Op: "add", Path: "/<a>/-", Value: json.RawMessage(`"<<<<<<<<<<"`)}, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := memstore.New(&memstore.Options{MaxEvent: max}).EventLog()
			e := newTestLog(log, 0).Emitter(t.Context(), &cairn.Session{ID: angry, RootID: "s", Agent: angry}, "run_"+angry[:26], 0)
			e.Event(ev)
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			list, err := log.Read(t.Context(), "s", 0, 100_000)
			if err != nil || len(list) == 0 {
				t.Fatalf("%d events, %v", len(list), err)
			}
			text, patched := "", 0
			for i := range list {
				if _, err := driver.EncodeEvent(&list[i], max); err != nil {
					t.Errorf("event %d: %v", i, err)
				}
				text += list[i].Text
				patched += len(list[i].Patch)
			}
			if whole := ev.Type == cairn.EventTextDelta || ev.Type == cairn.EventThinking || ev.Type == cairn.EventToolArgDelta; whole && text != ev.Text {
				t.Errorf("%d bytes of text of %d", len(text), len(ev.Text))
			}
			if name == "many patches" && patched != len(ev.Patch) {
				t.Errorf("%d patches of %d", patched, len(ev.Patch))
			}
			if len(list) == 1 && !list[0].Truncated {
				t.Error("what was cut is not marked")
			}
		})
	}
}

func slicesRepeat(op cairn.PatchOp, n int) []cairn.PatchOp {
	list := make([]cairn.PatchOp, n)
	for i := range list {
		list[i] = op
	}
	return list
}
