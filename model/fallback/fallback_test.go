package fallback_test

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
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// named is a model with a name of its own.
type named struct {
	cairn.Model
	provider, name string
}

func (m named) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: m.provider, Name: m.name} }

func model(name string, steps ...scripted.Step) named {
	return named{scripted.New(steps...), "p-" + name, name}
}

func usage() scripted.Step {
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: 7}})
}

func fail(code cairn.Code) scripted.Step {
	return scripted.Fail(cairn.Errorf(code, "it fails"))
}

// ask returns a model's reply: the name of the model that answered, its text, and the error.
func ask(ctx context.Context, m cairn.Model, req *cairn.Request) (by, text string, err error) {
	for c, err := range m.Stream(ctx, req) {
		switch {
		case err != nil:
			return by, text, err
		case c.Type == cairn.ChunkModel && text == "":
			by = c.Model
		case c.Type == cairn.ChunkRestart:
			by, text = "", ""
			continue
		}
		text += c.Text
	}
	return by, text, nil
}

func TestChain(t *testing.T) {
	for _, test := range []struct {
		name     string
		opts     fallback.Options
		first    scripted.Step
		by, text string
		code     cairn.Code
	}{
		{name: "the first answers", first: scripted.Text("one"), text: "one"},
		{name: "it is overloaded", first: fail(cairn.ErrOverloaded), by: "p-b:b", text: "two"},
		{name: "its key is refused", first: fail(cairn.ErrAuth), by: "p-b:b", text: "two"},
		{name: "it fails behind its usage", first: scripted.Reply(usage(), fail(cairn.ErrOverloaded)), by: "p-b:b", text: "two"},
		{name: "it says nothing", first: scripted.Break(), by: "p-b:b", text: "two"},
		{name: "it fails in the middle", first: scripted.Reply(scripted.Text("on"), fail(cairn.ErrOverloaded)), by: "p-b:b", text: "two"},
		{name: "it breaks off in the middle", first: scripted.Reply(scripted.Text("on"), scripted.Break()), by: "p-b:b", text: "two"},
		{name: "it breaks off in a call", first: scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "1", Tool: "t"}), scripted.Break()), by: "p-b:b", text: "two"},
		{name: "it does not exist", first: fail(cairn.ErrModelNotFound), by: "p-b:b", text: "two"},
		{name: "the request is wrong in the middle", first: scripted.Reply(scripted.Text("on"), fail(cairn.ErrModelRequest)), text: "on", code: cairn.ErrModelRequest},
		{name: "the request is wrong", first: fail(cairn.ErrModelRequest), code: cairn.ErrModelRequest},
		{name: "the filter steps in", first: fail(cairn.ErrFiltered), code: cairn.ErrFiltered},
		{name: "it refuses, and others may answer", opts: fallback.Options{Refusals: true}, first: fail(cairn.ErrFiltered), by: "p-b:b", text: "two"},
		{name: "it refuses in the middle, and others may answer", opts: fallback.Options{Refusals: true},
			first: scripted.Reply(scripted.Text("I c"), fail(cairn.ErrFiltered)), by: "p-b:b", text: "two"},
		{name: "the request is wrong, and others may answer refusals", opts: fallback.Options{Refusals: true}, first: fail(cairn.ErrModelRequest), code: cairn.ErrModelRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := fallback.New(&test.opts, model("a", test.first), model("b", scripted.Text("two")))
			by, text, err := ask(t.Context(), m, &cairn.Request{})
			if test.code == "" && err != nil || test.code != "" && cairn.AsError(err).Code != test.code || by != test.by || text != test.text {
				t.Errorf("%q says %q, %v", by, text, err)
			}
		})
	}
	m := fallback.New(nil, model("a", fail(cairn.ErrOverloaded)), model("b", fail(cairn.ErrRateLimited)))
	if _, _, err := ask(t.Context(), m, &cairn.Request{}); cairn.AsError(err).Code != cairn.ErrRateLimited {
		t.Errorf("all fail: %v", err)
	}
	inner := fallback.New(nil, model("b", fail(cairn.ErrOverloaded)), model("c", scripted.Text("three")))
	m = fallback.New(nil, model("a", fail(cairn.ErrOverloaded)), inner)
	if by, text, err := ask(t.Context(), m, &cairn.Request{}); by != "p-c:c" || text != "three" || err != nil {
		t.Errorf("a chain in a chain: %q says %q, %v", by, text, err)
	}
}

// A model that failed is skipped for a time, unless there is no other.
func TestCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := model("a", fail(cairn.ErrOverloaded), scripted.Text("one"))
		m := fallback.New(nil, first, model("b", scripted.Text("two"), scripted.Text("two"), fail(cairn.ErrOverloaded)))
		ask(t.Context(), m, &cairn.Request{})
		testclock.Advance(29 * time.Second)
		if _, text, _ := ask(t.Context(), m, &cairn.Request{}); text != "two" {
			t.Errorf("%q, before the time is over", text)
		}
		if _, text, _ := ask(t.Context(), m, &cairn.Request{}); text != "one" {
			t.Errorf("%q, where the other fails as well", text)
		}
	})
}

// A stopped call is not passed to another model.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	second := model("b", scripted.Text("two"))
	m := fallback.New(nil, model("a", scripted.Reply(scripted.Do(cancel), scripted.Pause(time.Hour))), second)
	if _, text, err := ask(ctx, m, &cairn.Request{}); text != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", text, err)
	}
	if n := second.Model.(*scripted.Model).Calls(); n != 0 {
		t.Errorf("the other was asked %d times", n)
	}
	for range m.Stream(t.Context(), &cairn.Request{}) { // the reader wants no more
		break
	}
}

// Options of one provider are sent to no other.
func TestOptions(t *testing.T) {
	second := model("b", scripted.Text("two"))
	m := fallback.New(nil, model("a", fail(cairn.ErrOverloaded)), second)
	req := &cairn.Request{Settings: cairn.Settings{MaxOutputTokens: 5, Options: map[string]any{"a": 1}}}
	if _, _, err := ask(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	got := second.Model.(*scripted.Model).Requests()[0].Settings
	if got.Options != nil || got.MaxOutputTokens != 5 || req.Settings.Options == nil {
		t.Errorf("it was sent %+v", got)
	}
}

type keyless struct{ cairn.Model }

func (keyless) Validate() error { return cairn.Invalid("key", "is missing") }

func TestValidate(t *testing.T) {
	for want, m := range map[string]*fallback.Model{
		"no models":       fallback.New(nil),
		"model 2 of":      fallback.New(nil, model("a"), nil),
		"key: is missing": fallback.New(nil, model("a"), keyless{model("b")}),
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := fallback.New(nil, model("a")).Validate(); err != nil {
		t.Error(err)
	}
}

// The transcript and the log name the model that answered, and a session survives a change of the chain.
func TestSession(t *testing.T) {
	st := memstore.New(nil)
	defer st.Close()
	turn := func(chain cairn.Model, says string) []cairn.Event {
		t.Helper()
		eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: chain}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(context.Background())
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Text != says {
			t.Fatalf("%+v, %v", res, err)
		}
		var list []cairn.Event
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, ev)
		}
		return list
	}
	a, b := model("a", fail(cairn.ErrOverloaded), scripted.Text("one")), model("b", scripted.Text("two"))
	list := turn(fallback.New(nil, a, b), "two")
	at := slices.IndexFunc(list, func(ev cairn.Event) bool { return ev.Type == cairn.EventModelFallback })
	if at < 0 || list[at].Name != "p-b:b" || list[at-1].Type != cairn.EventStepStart || list[at+1].Type != cairn.EventTextDelta {
		t.Errorf("the log has %+v", list)
	}
	list = turn(fallback.New(nil, a), "one")
	if slices.ContainsFunc(list, func(ev cairn.Event) bool { return ev.Type == cairn.EventModelFallback }) {
		t.Errorf("the log has %+v", list)
	}
	eng, err := engine.New(st, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	messages, err := eng.Messages(t.Context(), "s", 0, 0)
	if err != nil || len(messages) != 4 || messages[1].Model != "p-b:b" || messages[3].Model != "" {
		t.Errorf("the transcript is %+v, %v", messages, err)
	}
}

// The usage of a model that was passed over is on the bill, under its own name, before that of the next one.
func TestUsageOfModelsPassedOver(t *testing.T) {
	spent := func(n int64) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: n}})
	}
	fails := func(name string, n int64) named {
		return model(name, scripted.Reply(spent(n), fail(cairn.ErrOverloaded)))
	}
	answers := func() named { return model("last", scripted.Text("hello").Usage(1000, 0)) }
	for name, test := range map[string]struct {
		model cairn.Model
		want  string
	}{
		"in one chain":      {fallback.New(nil, fails("one", 1), fails("two", 20), fails("three", 300), answers()), "p-one:one=1 p-two:two=20 p-three:three=300 p-last:last answers 1000"},
		"in nested chains":  {fallback.New(nil, fails("one", 1), fallback.New(nil, fails("two", 20), fails("three", 300)), fallback.New(nil, fails("four", 4000), answers())), "p-one:one=1 p-two:two=20 p-three:three=300 p-four:four=4000 p-last:last answers 1000"},
		"of an empty reply": {fallback.New(nil, model("one", scripted.Reply(spent(1), scripted.Break())), answers()), "p-one:one=1 p-last:last answers 1000"},
		"without usage":     {fallback.New(nil, model("one", fail(cairn.ErrOverloaded)), answers()), "p-last:last answers 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			var bill []string
			by, last := "", cairn.Chunk{}
			for c, err := range test.model.Stream(t.Context(), &cairn.Request{}) {
				if err != nil {
					t.Fatal(err)
				}
				switch c.Type {
				case cairn.ChunkUsage:
					last = c
				case cairn.ChunkModel:
					by = c.Model
				case cairn.ChunkRestart:
					for _, call := range last.Calls {
						bill = append(bill, fmt.Sprintf("%s=%d", call.Model, call.Usage.InputTokens))
					}
					by, last = "", cairn.Chunk{}
				}
			}
			bill = append(bill, fmt.Sprintf("%s answers %d", by, last.Usage.InputTokens))
			if got := strings.Join(bill, " "); got != test.want {
				t.Errorf("the bill is %s\nwant %s", got, test.want)
			}
		})
	}
}
