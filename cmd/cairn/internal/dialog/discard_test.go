package dialog

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// A discard is noted if it voids a step that has begun, once, and only then.
func TestNoteOfDiscard(t *testing.T) {
	t.Parallel()
	types := map[byte]cairn.EventType{'S': cairn.EventStepStart, 'C': cairn.EventStepCommitted, 'D': cairn.EventStepDiscarded, 't': cairn.EventTextDelta, 'u': cairn.EventToolStart, 'E': cairn.EventRunEnd}
	for name, c := range map[string]struct {
		log     string
		notes   int
		partial bool
	}{
		"a step":                   {"S1 t1 D1 S1 t1 C1", 1, false},
		"a step, twice":            {"S1 t1 D1 S1 t1 D1 S1", 2, false},
		"before it said anything":  {"S1 D1 S1 t1", 1, true},
		"two open steps":           {"S1 u1 S2 t2 D1 S1", 1, false},
		"the second of two":        {"S1 u1 S2 t2 D2 S2", 1, true},
		"the first of two, later":  {"S1 u1 S2 t2 C1 D2 S2 t2 C2", 1, false},
		"one after the other":      {"S1 u1 S2 t2 D2 D1", 2, false},
		"both, each by its own":    {"S1 u1 S2 t2 D1 D2", 1, false},
		"no step":                  {"S1 t1 C1 D2 S2 t2 C2", 0, false},
		"no step, at once":         {"D1 S1 t1", 0, true},
		"of a sub-agent":           {"S1 u1 below:S1 below:u1 below:D1", 0, true},
		"a step of an earlier run": {"S1 t1 E1 next:D1 next:S1 next:t1", 0, true},
		"of another run":           {"S1 t1 next:D1", 0, true},
		"a sub-agent commits":      {"S1 u1 below:S1 below:u1 below:C1", 0, true},
		"the run ends":             {"S1 t1 E1", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			s := NewScreen(&cli.App{Stdout: &out})
			s.Session = "s"
			for i, word := range strings.Fields(c.log) {
				ev := cairn.Event{Sequence: int64(i + 1), SessionID: "s", RunID: "r", Text: "word ", Tool: "look"}
				if rest, ok := strings.CutPrefix(word, "below:"); ok {
					ev.SessionID, word = "below", rest
				}
				if rest, ok := strings.CutPrefix(word, "next:"); ok {
					ev.RunID, word = "next", rest
				}
				ev.Type, ev.Step = types[word[0]], int(word[1]-'0')
				s.Show(ev)
			}
			if n := strings.Count(out.String(), "was interrupted"); n != c.notes || s.Partial() != c.partial {
				t.Errorf("%d notes, partial is %t; want %d, %t:\n%s", n, s.Partial(), c.notes, c.partial, out.String())
			}
		})
	}
}
