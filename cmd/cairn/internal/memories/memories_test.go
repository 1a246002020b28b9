package memories

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/memstore"
)

// custom is an analyzer that the command does not have.
type custom struct{ memory.Analyzer }

func (custom) Name() string { return "custom-1" }

// Commands index a scope as the agents do that use it. A scope with an analyzer of the application is not touched.
func TestCommandsUseTheAnalyzerOfTheScope(t *testing.T) {
	t.Parallel()
	for _, by := range []memory.Analyzer{nil, memory.English(), memory.Simple(), memory.Bigrams(), custom{memory.Simple()}} {
		st, scope, want := memstore.New(nil), memory.User("ada"), memory.English().Name()
		if by != nil {
			want = by.Name()
			m, err := memory.New(st, &memory.Options{Analyzer: by})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Add(t.Context(), scope, memory.Entry{Text: "Ada lives in 東京", Source: memory.Source{Kind: memory.Application}}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := memory.New(st, &options)
		if err != nil {
			t.Fatal(err)
		}
		o := &opened{Memory: m, store: st, scope: scope, owner: "user ada"}
		err = o.analyze(t.Context())
		if _, foreign := by.(custom); foreign {
			if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), `user ada are indexed by the analyzer "custom-1"`) {
				t.Errorf("error %v", err)
			}
			continue
		}
		if got := o.Options(); err != nil || got.Analyzer.Name() != want || got.MaxEntries >= 0 {
			t.Errorf("analyzer %q with a limit of %d entries, error %v, want %q without a limit", got.Analyzer.Name(), got.MaxEntries, err, want)
		}
	}
}

func TestOwnersOfScopes(t *testing.T) {
	t.Parallel()
	for scope, want := range map[memory.Scope]string{
		memory.Session("acme::a@b", "abc"): "acme::a@b", memory.Session("old", ""): "old", memory.User("ada@acme"): "ada@acme", memory.Group("a@b"): "a@b",
	} {
		if got := nameOf(scope); got != want {
			t.Errorf("%v belongs to %q, want %q", scope, got, want)
		}
	}
}
