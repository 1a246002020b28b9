package journal

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// What Redo publishes is recognized as the reply's, however much of it is cut. Otherwise each effect would publish it
// again. What another attempt has published is not.
func TestRedoneStepIsRecognised(t *testing.T) {
	t.Parallel()
	const max = 8 << 10
	g := newTestLog(memstore.New(&memstore.Options{MaxEvent: max}).EventLog(), -1)
	row := &cairn.Session{ID: "s", RootID: "s", Agent: "a"}
	attempt := func() *Emitter {
		return g.Attempt(t.Context(), row, "run_1", 0, Attempt{Step: 1, Abandon: func(error) {}})
	}
	st := step.New("run_1", 1, nil, nil)
	use := func(id string) cairn.Part {
		return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "echo", Input: json.RawMessage(`"` + strings.Repeat("x", 2*max) + `"`)}}
	}
	st.Add(&step.Reply{Message: &cairn.Message{Role: cairn.RoleAssistant, Model: "other:model", Parts: []cairn.Part{
		{Type: cairn.PartReasoning, Text: strings.Repeat("hm", max)}, cairn.TextPart(strings.Repeat("<é>", max)), use("c1"), use("c2")}}})
	st.Add(&step.Result{Began: true, Result: &cairn.ToolResult{CallID: "c1", Tool: "echo", Output: json.RawMessage(`"x"`)}})

	whole := func(e *Emitter, want bool, after string) {
		t.Helper()
		if got, err := e.SkipPublished(t.Context(), 0, st); got != want || err != nil {
			t.Fatalf("after %s the log says the reply: %v, want %v; error %v", after, got, want, err)
		}
	}
	late, e := attempt(), attempt()
	whole(e, true, "nothing")
	e.Event(StepStart(1))
	e.Event(cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: "another text"})
	whole(late, false, "another attempt")
	e.Event(StepDiscarded(1, nil))
	wantStale(t, late.Redo(t.Context(), st))
	whole(late, false, "a discard")
	if err := late.Redo(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	whole(attempt(), true, "it was published again")
}

func wantStale(t *testing.T, err error) {
	t.Helper()
	if cairn.AsError(err).Code != cairn.ErrStale {
		t.Fatalf("the error is %v, want %s", err, cairn.ErrStale)
	}
}

// An attempt's name is unique, although its writer may have been an earlier attempt's.
func TestAttemptsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := newTestLog(memstore.New(nil).EventLog(), -1)
	row := &cairn.Session{ID: "s", RootID: "s", Agent: "a"}
	attempt := func() (name, writer string) {
		e := g.Attempt(context.Background(), row, "run_1", 0, Attempt{Step: 1})
		defer e.Leave(1)
		return e.Attempt(), e.writer.ID
	}
	one, first := attempt()
	two, second := attempt()
	if one == two || first != second {
		t.Errorf("attempts %s and %s have the writers %s and %s", one, two, first, second)
	}
}

// between is a log that runs a function before the next append.
type between struct {
	*memstore.Log
	happens func()
}

func (l *between) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	if fn := l.happens; fn != nil {
		l.happens = nil
		fn()
	}
	return l.Log.AppendFenced(ctx, log, expect, w, events...)
}

// While one attempt publishes a call's start, another one publishes its end, which the first has to publish next.
func TestWhatWaitsIsLeftOutOnceOthersHavePublishedIt(t *testing.T) {
	t.Parallel()
	log := &between{Log: memstore.New(nil).EventLog().(*memstore.Log)}
	attempt := func(coalesce time.Duration) *Emitter {
		e := newTestLog(log, coalesce).Attempt(t.Context(), &cairn.Session{ID: "s", RootID: "s", Agent: "a"}, "run_1", 0, Attempt{Step: 1})
		if _, err := e.SkipPublished(t.Context(), 0, step.New("run_1", 1, nil, nil)); err != nil {
			t.Fatal(err)
		}
		return e
	}
	one, two := attempt(time.Hour), attempt(-1)
	begins, ends := cairn.Event{Type: cairn.EventToolStart, Step: 1, CallID: "c1"}, cairn.Event{Type: cairn.EventToolEnd, Step: 1, CallID: "c1"}
	one.Event(begins)
	log.happens = func() {
		one.Event(ends)
		two.Event(begins)
		two.Event(ends)
	}
	for range 2 {
		if err := one.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := log.Read(t.Context(), "s", 0, 10)
	if err != nil || len(list) != 2 || list[0].Type != begins.Type || list[1].Type != ends.Type {
		t.Errorf("the log has %v, error %v", list, err)
	}
}

// A discard voids the step that an attempt works on, or it does not. Then the attempt continues.
func TestOtherWritersAreOutrunByDiscards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ev   cairn.Event
		lost bool
	}{
		"of its step":             {cairn.Event{SessionID: "s", RunID: "r", Step: 2}, true},
		"of the step before it":   {cairn.Event{SessionID: "s", RunID: "r", Step: 1}, true},
		"of a step that is ahead": {cairn.Event{SessionID: "s", RunID: "r", Step: 3}, false},
		"of another run":          {cairn.Event{SessionID: "s", RunID: "earlier", Step: 2}, false},
		"of another session":      {cairn.Event{SessionID: "below", RunID: "r", Step: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTestLog(memstore.New(nil).EventLog(), -1)
			var cause error
			e := g.Attempt(t.Context(), &cairn.Session{ID: "s", RootID: "s", Agent: "a"}, "r", 0, Attempt{Step: 2, Abandon: func(err error) { cause = err }})
			st := step.New("r", 2, nil, nil)
			st.Add(&step.Reply{Message: &cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("hello")}}})
			if whole, err := e.SkipPublished(t.Context(), 0, st); !whole || err != nil {
				t.Fatal(whole, err)
			}
			r := e.otherWriters
			began := cairn.Event{Type: cairn.EventSubagentStart, SessionID: "s", RunID: "r", Step: 2, CallID: "c", ChildID: "child"}
			r.observe(&began)
			c.ev.Type = cairn.EventStepDiscarded
			r.observe(&c.ev)
			if _, consulted := e.Consulted("c"); (cause != nil) != c.lost || r.shown.matches(st) == c.lost || r.seen.Has(&began) == c.lost || consulted == c.lost {
				t.Errorf("cause %v, the reply stands %t, the call %t, its agent %t", cause, r.shown.matches(st), r.seen.Has(&began), consulted)
			}
		})
	}
}
