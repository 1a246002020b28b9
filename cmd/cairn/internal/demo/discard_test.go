package demo

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The screen skips what a discarded step and the later ones published, and nothing else.
func TestSkipDiscarded(t *testing.T) {
	t.Parallel()
	types := map[byte]cairn.EventType{'S': cairn.EventStepStart, 'C': cairn.EventStepCommitted, 'D': cairn.EventStepDiscarded, 't': cairn.EventTextDelta, 'u': cairn.EventToolStart}
	for name, c := range map[string]struct{ log, shown string }{
		"a step":                  {"S1 t1 D1 S1 t1 C1", "S1 t1 C1"},
		"two open steps":          {"S1 u1 S2 t2 D1 S1 t1", "S1 t1"},
		"the second of two":       {"S1 u1 S2 t2 D2 S2 t2", "S1 u1 S2 t2"},
		"behind a committed step": {"S1 t1 C1 S2 u2 S3 t3 D2 S2", "S1 t1 C1 S2"},
		"no step":                 {"S1 t1 C1 D2 S2 t2", "S1 t1 C1 S2 t2"},
		"while a sub-agent works": {"S1 u1 below:S1 below:u1 below:C1 t1 D1", "below:S1 below:u1 below:C1"},
		"of a sub-agent":          {"S1 u1 below:S1 below:u1 below:D1 t1", "S1 u1 t1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			eng, err := engine.New(st, []*cairn.Agent{{Name: support.Name, Model: scripted.New()}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close(t.Context())
			row, err := eng.Create(t.Context(), "s1", support.Name)
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(c.log)
			for _, word := range words {
				ev := cairn.Event{SessionID: "s1", RunID: "r"}
				if rest, ok := strings.CutPrefix(word, "below:"); ok {
					ev.SessionID, word = "below", rest
				}
				ev.Type, ev.Step = types[word[0]], int(word[1]-'0')
				if _, err := st.EventLog().Append(t.Context(), row.Log(), driver.AnySequence, ev); err != nil {
					t.Fatal(err)
				}
			}
			k := newChat(&cli.App{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}}, &setup.Setup{Eng: eng}, "s1", nil)
			if err := k.skipDiscarded(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, sequence := range slices.Backward(slices.Sorted(maps.Keys(k.Skip))) {
				words = slices.Delete(words, int(sequence)-1, int(sequence))
			}
			if got := strings.Join(words, " "); got != c.shown {
				t.Errorf("shown is %q, want %q", got, c.shown)
			}
		})
	}
}
