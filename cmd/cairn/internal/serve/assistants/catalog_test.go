package assistants

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// model returns a model that replies with its name and its instructions.
func model(name string) (cairn.Model, error) {
	if strings.HasPrefix(name, "gone:") {
		return nil, errors.New("there is no such provider")
	}
	return scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		return scripted.Text(name + " " + r.System)
	}), nil
}

var parts = Parts{Model: model}

func newCatalog() *Catalog {
	return &Catalog{Records: memstore.New(nil).Records(), Logger: slog.New(slog.DiscardHandler)}
}

func support(instructions string) []config.Assistant {
	return []config.Assistant{
		{Name: "support", Model: "m:1", Tools: []config.Tool{{Client: "where"}, {Agent: "researcher"}}},
		{Name: "researcher", Model: "m:1", Instructions: instructions, Description: "Looks things up."},
	}
}

func versionsOf(s *Set) (list []string) {
	for _, a := range s.Agents {
		list = append(list, a.Name+"@"+a.Version)
	}
	return list
}

func load(t *testing.T, c *Catalog, names ...string) *Set {
	t.Helper()
	set, err := c.Load(t.Context(), names, parts)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func publish(t *testing.T, c *Catalog, list []config.Assistant) {
	t.Helper()
	if err := c.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// A change is a new version, also of assistants that consult the changed one. An equal definition makes no version.
func TestChangesAreVersions(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	publish(t, c, support("a"))
	before, err := c.Changed(t.Context())
	if err != nil || before == 0 {
		t.Fatalf("got %d, %v", before, err)
	}
	publish(t, c, support("a"))
	if got := versionsOf(load(t, c, "support", "researcher")); !slices.Equal(got, []string{"support@1", "researcher@1"}) {
		t.Errorf("got %q", got)
	}
	publish(t, c, support("b"))
	if after, err := c.Changed(t.Context()); err != nil || after == before {
		t.Errorf("nobody sees the change: %d, %v", after, err)
	}
	set := load(t, c, "support") // and its sub-agents
	if got := versionsOf(set); !slices.Equal(got, []string{"support@1", "support@2"}) {
		t.Errorf("got %q", got)
	}
	eng, err := engine.New(memstore.New(nil), set.Agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	if got := eng.Agents(); !slices.Equal(got, []string{"researcher", "support"}) {
		t.Errorf("the engine has %q", got)
	}
	publish(t, c, support("a")) // back again
	if got := load(t, c, "support", "researcher").Numbers; got["support"] != 3 || got["researcher"] != 3 {
		t.Errorf("got %v", got)
	}
}

// Any number of processes that start with one file publish one version.
func TestPublishAtOnce(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := c.Publish(t.Context(), support("a")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := versionsOf(load(t, c, "support", "researcher")); !slices.Equal(got, []string{"support@1", "researcher@1"}) {
		t.Errorf("got %q", got)
	}
}

// A version that can no longer be built is omitted, but the latest one must be buildable.
func TestVersionsThatAreGone(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	publish(t, c, []config.Assistant{{Name: "a", Model: "gone:1"}})
	if _, err := c.Load(t.Context(), []string{"a"}, parts); err == nil || !strings.Contains(err.Error(), `assistant "a", version 1: there is no such provider`) {
		t.Errorf("got %v", err)
	}
	publish(t, c, []config.Assistant{{Name: "a", Model: "m:1"}})
	if got := versionsOf(load(t, c, "a")); !slices.Equal(got, []string{"a@2"}) {
		t.Errorf("got %q", got)
	}
	if err := Check([]config.Assistant{{Name: "a", Model: "gone:1"}}, parts); err == nil {
		t.Error("a definition without a provider passes")
	}
	if err := Check(support("a"), parts); err != nil {
		t.Error(err)
	}
}

// An agent has the output and the tools' fields that its definition declares, as it was stored.
func TestDeclaredOutputAndFields(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	fields := map[string]map[string]config.JSON{"anthropic": {"strict": config.JSON("true"), "note": config.JSON("null"), "n": config.JSON("9007199254740993")}}
	publish(t, c, []config.Assistant{
		{Name: "support", Model: "m:1", Output: config.Output{Schema: config.JSON(`{"type":"object"}`), Native: true},
			Tools: []config.Tool{{Client: "where", ProviderFields: fields}, {Agent: "researcher", ProviderFields: fields}}},
		{Name: "researcher", Model: "m:1", Output: config.Output{Schema: config.JSON(`{"type":"object"}`)}, Description: "Looks things up."},
	})
	set := load(t, c, "support", "researcher")
	for _, a := range set.Agents {
		if a.Output == nil || a.Output.IsNative() != (a.Name == "support") || string(a.Output.Schema()) != `{"type":"object"}` {
			t.Errorf("%s has the output %+v", a.Name, a.Output)
		}
		for i := range a.Tools {
			if got := string(define.Of(&a.Tools[i]).Spec().Fields["anthropic"]); got != `{"n":9007199254740993,"note":null,"strict":true}` {
				t.Errorf("%s has the fields %s", a.Tools[i].Name(), got)
			}
		}
	}
	publish(t, c, []config.Assistant{{Name: "support", Model: "m:1"}})
	if a := load(t, c, "support").Agents; a[len(a)-1].Output != nil {
		t.Error("an agent without an output has one")
	}
}
