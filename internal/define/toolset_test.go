package define_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// set is a toolset whose tools are a function of the pinned offer.
type set func(pinned json.RawMessage) ([]cairn.Tool, error)

func (set) Name() string { return "set" }

func (set) Offer(context.Context, *cairn.Step, json.RawMessage) (*cairn.Offer, error) {
	return nil, nil
}

func (s set) Tools(pinned json.RawMessage) ([]cairn.Tool, error) { return s(pinned) }

func look(name string, opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil }, opts...)
}

// Invalid tools are left out, with a reason for each.
func TestOffered(t *testing.T) {
	t.Parallel()
	pinned := map[string]json.RawMessage{"set": json.RawMessage("1")}
	for _, test := range []struct {
		name      string
		offer     set
		want, why string
	}{
		{"new ones", func(json.RawMessage) ([]cairn.Tool, error) { return []cairn.Tool{look("a"), look("b")}, nil }, "a b", ""},
		{"a name that the agent has", func(json.RawMessage) ([]cairn.Tool, error) { return []cairn.Tool{look("own"), look("b")}, nil }, "b", `tool "own": duplicate tool name`},
		{"one name twice", func(json.RawMessage) ([]cairn.Tool, error) { return []cairn.Tool{look("a"), look("a")}, nil }, "a", `tool "a": duplicate tool name`},
		{"a cached tool", func(json.RawMessage) ([]cairn.Tool, error) {
			return []cairn.Tool{look("a", cairn.Cache(cairn.CachePolicy{TTL: time.Hour}))}, nil
		}, "a", ""},
		{"no name", func(json.RawMessage) ([]cairn.Tool, error) { return []cairn.Tool{look("no name")}, nil }, "", "no name"},
		{"an error", func(json.RawMessage) ([]cairn.Tool, error) { return nil, errors.New("broken") }, "", "broken"},
		{"a panic", func(json.RawMessage) ([]cairn.Tool, error) { panic("help") }, "", "panic: help"},
	} {
		tools, problems := define.Offered(&cairn.Agent{Name: "bot", Tools: []cairn.Tool{look("own")}, Toolsets: []cairn.Toolset{test.offer}}, nil, pinned)
		var names []string
		for i := range tools {
			names = append(names, tools[i].Name())
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: the tools are %q", test.name, got)
		}
		why := fmt.Sprint(errors.Join(problems...))
		if test.why == "" && len(problems) > 0 || !strings.Contains(why, test.why) || strings.Contains(why, "%!") {
			t.Errorf("%s: the problems are %s", test.name, why)
		}
	}
}

// restating is a toolset whose restatement is a function of the pinned offer.
type restating struct {
	set
	restate func(pinned json.RawMessage) (string, error)
}

func (t restating) Restate(pinned json.RawMessage) (string, error) { return t.restate(pinned) }

// A toolset says nothing about what it has not pinned. What cannot be kept is left out, with a reason.
func TestRestated(t *testing.T) {
	t.Parallel()
	const own, other = `{"pinned":"by it"}`, `{"pinned":"by another"}`
	for _, test := range []struct {
		name, pinned string
		restate      func(json.RawMessage) (string, error)
		want, why    string
	}{
		{"the pinned offer", "set", func(raw json.RawMessage) (string, error) { return string(raw), nil }, own, ""},
		{"nothing", "set", func(json.RawMessage) (string, error) { return "", nil }, "", ""},
		{"of another", "other", func(raw json.RawMessage) (string, error) { return string(raw), nil }, "", ""},
		{"an error", "set", func(json.RawMessage) (string, error) { return "half", errors.New("broken") }, "", `toolset "set": broken`},
		{"a panic", "set", func(json.RawMessage) (string, error) { panic("help") }, "", "panic: help"},
		{"a text with a NUL", "set", func(json.RawMessage) (string, error) { return "a\x00b", nil }, "", "NUL"},
	} {
		pinned := map[string]json.RawMessage{"set": json.RawMessage(own), "other": json.RawMessage(other)}
		if test.pinned == "other" {
			delete(pinned, "set")
		}
		texts, problems := define.Restated(&cairn.Agent{Name: "bot", Toolsets: []cairn.Toolset{restating{nil, test.restate}}}, pinned)
		if got := strings.Join(texts, "|"); got != test.want {
			t.Errorf("%s: the texts are %q", test.name, got)
		}
		if why := fmt.Sprint(errors.Join(problems...)); test.why == "" && len(problems) > 0 || !strings.Contains(why, test.why) {
			t.Errorf("%s: the problems are %s", test.name, why)
		}
	}
	if texts, problems := define.Restated(&cairn.Agent{Name: "bot", Toolsets: []cairn.Toolset{set(nil)}}, map[string]json.RawMessage{"set": json.RawMessage("1")}); len(texts)+len(problems) > 0 {
		t.Errorf("a toolset that restates nothing: %q, %v", texts, problems)
	}
}
