package fallback_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cairntest"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/scripted"
)

// chunksOf returns a reply's chunks as text.
func chunksOf(t *testing.T, m cairn.Model) string {
	t.Helper()
	var list []string
	for c, err := range m.Stream(t.Context(), &cairn.Request{}) {
		if err != nil {
			list = append(list, "error "+string(cairn.AsError(err).Code))
			break
		}
		switch text := c.Text + c.Model; {
		case c.Type == cairn.ChunkRestart:
			list = append(list, "restart")
		case c.Type == cairn.ChunkUsage:
			list = append(list, fmt.Sprint("usage ", c.Usage.InputTokens))
		default:
			list = append(list, strings.TrimSpace(string(c.Type)+" "+text))
		}
	}
	return strings.Join(list, ", ")
}

// A reply that breaks off is void once another model's reply begins, whatever the position of the models.
func TestBrokenReply(t *testing.T) {
	t.Parallel()
	broken := func(text string) scripted.Step { return scripted.Reply(scripted.Text(text), scripted.Break()) }
	restarted := func(text string) scripted.Step {
		return scripted.Reply(scripted.Text("no"), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkRestart, Text: "again"}), scripted.Text(text))
	}
	for name, test := range map[string]struct {
		models []cairn.Model
		want   string
	}{
		"the next model breaks off too": {[]cairn.Model{model("a", broken("1")), model("b", broken("2")), model("c", scripted.Text("3"))},
			"text 1, restart, model p-b:b, text 2, restart, model p-c:c, text 3, finish"},
		"the next model says nothing": {[]cairn.Model{model("a", broken("1")), model("b", fail(cairn.ErrAuth)), model("c", scripted.Text("3"))},
			"text 1, restart, model p-c:c, text 3, finish"},
		"all fail": {[]cairn.Model{model("a", broken("1")), model("b", fail(cairn.ErrAuth))}, "text 1, error authentication"},
		"usage is that of the model that answers": {[]cairn.Model{model("a", scripted.Reply(usage(), scripted.Text("1"), scripted.Break())), model("b", scripted.Text("2"))},
			"usage 7, text 1, restart, model p-b:b, text 2, finish"},
		"a model that starts again by itself": {[]cairn.Model{model("a", restarted("1"))}, "text no, restart, text 1, finish"},
		"the second starts again by itself": {[]cairn.Model{model("a", fail(cairn.ErrAuth)), model("b", restarted("2"))},
			"model p-b:b, text no, restart, model p-b:b, text 2, finish"},
		"a chain in a chain": {[]cairn.Model{model("a", broken("1")), fallback.New(nil, model("b", broken("2")), model("c", scripted.Text("3")))},
			"text 1, restart, model p-b:b, text 2, restart, model p-c:c, text 3, finish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := chunksOf(t, fallback.New(nil, test.models...)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// The first model, while it is cooling down, is the last one that is called, and answers under its own name.
func TestBrokenReplyAnsweredByTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fallback.New(nil, model("a", fail(cairn.ErrOverloaded), scripted.Text("one")),
			model("b", scripted.Text("two"), scripted.Reply(scripted.Text("tw"), scripted.Break())))
		chunksOf(t, m)
		if got, want := chunksOf(t, m), "model p-b:b, text tw, restart, text one, finish"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A model that asks for a pause that is longer than the cooldown has it.
func TestCooldownAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &cairn.Error{Code: cairn.ErrRateLimited, Message: "slow down", RetryAfter: cairn.Duration(time.Hour)}
		m := fallback.New(nil, model("a", scripted.Fail(limited), scripted.Text("one")), model("b", scripted.Text("two"), scripted.Text("two"), scripted.Text("two")))
		chunksOf(t, m)
		testclock.Advance(59 * time.Minute)
		if got := chunksOf(t, m); !strings.Contains(got, "two") {
			t.Errorf("before the pause is over: %s", got)
		}
		testclock.Advance(time.Minute)
		if got := chunksOf(t, m); !strings.Contains(got, "one") {
			t.Errorf("after it: %s", got)
		}
	})
}

// A refusal that another model answers says nothing about the model that refused.
func TestRefusalCausesNoCooldown(t *testing.T) {
	t.Parallel()
	m := fallback.New(&fallback.Options{Refusals: true}, model("a", fail(cairn.ErrFiltered), scripted.Text("one")), model("b", scripted.Text("two")))
	chunksOf(t, m)
	if got, want := chunksOf(t, m), "text one, finish"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A turn whose model dies in mid-stream costs one request of it: the next model answers in the same attempt, and
// an event makes readers drop what they have.
func TestTurnWhoseModelDies(t *testing.T) {
	t.Parallel()
	a := model("a", scripted.Reply(scripted.Text("The answ"), scripted.Break()))
	b := model("b", scripted.Text("Yes.").Usage(11, 3))
	s := cairntest.New(t, &cairn.Agent{Name: "bot", Model: fallback.New(nil, a, b)})
	run, err := s.Engine.Execute(t.Context(), s.ID, "bot", cairn.Text("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "Yes." || res.Usage.InputTokens != 11 {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := a.Model.(*scripted.Model).Calls(); n != 1 {
		t.Errorf("the model that died was asked %d times", n)
	}
	var types []cairn.EventType
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Type {
		case cairn.EventStepStart, cairn.EventTextDelta, cairn.EventStepCommitted:
			types = append(types, ev.Type)
		case cairn.EventStepDiscarded:
			types = append(types, ev.Type)
			if ev.Error == nil || !strings.Contains(ev.Error.Message, "p-a:a") {
				t.Errorf("the step was discarded for %v", ev.Error)
			}
		case cairn.EventModelFallback:
			types = append(types, ev.Type)
			if ev.Name != "p-b:b" || ev.Text != "p-a:a" {
				t.Errorf("the event names %q and %q", ev.Name, ev.Text)
			}
		}
	}
	want := []cairn.EventType{cairn.EventStepStart, cairn.EventTextDelta, cairn.EventStepDiscarded, cairn.EventStepStart,
		cairn.EventModelFallback, cairn.EventTextDelta, cairn.EventStepCommitted}
	if types = slices.Compact(types); !slices.Equal(types, want) {
		t.Errorf("the log has %v, want %v", types, want)
	}
}
