package console_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// The page drops what a discarded step and the later ones have said, and nothing else.
func TestDiscardedSteps(t *testing.T) {
	t.Parallel()
	types := map[byte]cairn.EventType{'S': cairn.EventStepStart, 'C': cairn.EventStepCommitted, 'D': cairn.EventStepDiscarded, 't': cairn.EventTextDelta,
		'h': cairn.EventThinking, 'a': cairn.EventToolArgStart, 'u': cairn.EventToolStart, 'm': cairn.EventUserMessage, 'f': cairn.EventFiles}
	cases := map[string]struct{ log, shown string }{
		"a step":                          {"S1 tone D1 S1 ttwo", "[two]"},
		"two open steps":                  {"S1 tone ulook S2 ttwo D1 S1 tthree", "[three]"},
		"two open steps, and no more":     {"S1 tone alook S2 htwo D1", ""},
		"the second of two":               {"S1 tone ulook S2 ttwo D2 S2 tthree", "[one] [look] [three]"},
		"the first of two is committed":   {"S1 tone S2 ttwo C1", "one [two]"},
		"it is, and the second discarded": {"S1 tone ulook S2 ttwo C1 D2", "one look"},
		"both are committed":              {"S1 tone ulook S2 ttwo C1 C2", "one look two"},
		"a message and files":             {"mgo S1 tone ulook S2 ttwo f1a.png msteer C1 C2", "go steer one a.png look two"},
		"behind a committed step":         {"S1 tone C1 S2 ttwo S3 tthree D2 S2 tfour", "one [four]"},
		"no step":                         {"S1 tone C1 D2 S2 ttwo", "one [two]"},
		"no step, at once":                {"D1 S1 tone C1", "one"},
		"no step after it":                {"S1 tone D2", "[one]"},
		"of a sub-agent":                  {"S1 tone below:D1 ttwo", "[onetwo]"},
		"of another run":                  {"S1 tone next:D1 ttwo", "[onetwo]"},
	}
	logs := map[string][]cairn.Event{}
	for name, c := range cases {
		step := 0
		for word := range strings.FieldsSeq(c.log) {
			ev := cairn.Event{SessionID: "s", RunID: "r"}
			if rest, ok := strings.CutPrefix(word, "below:"); ok {
				ev.SessionID, word = "below", rest
			}
			if rest, ok := strings.CutPrefix(word, "next:"); ok {
				ev.RunID, word = "next", rest
			}
			switch ev.Type = types[word[0]]; word[0] {
			case 'S', 'C', 'D':
				if ev.Step = int(word[1] - '0'); word[0] == 'S' {
					step = ev.Step
				}
			case 'a', 'u':
				ev.Step, ev.CallID, ev.Tool = step, word[1:], word[1:]
			case 'f':
				ev.Step, ev.Files = int(word[1]-'0'), []cairn.FileRef{{Name: word[2:], MediaType: "image/png"}}
			default:
				ev.Step, ev.Text = step, word[1:]
			}
			logs[name] = append(logs[name], ev)
		}
	}
	script, err := filepath.Abs("web/transcript.js")
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(logs)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(testenv.Node(t, "testdata/transcript.mjs", script, string(in)), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if got[name] != cases[name].shown {
			t.Errorf("%s: the page shows %q, want %q", name, got[name], cases[name].shown)
		}
	}
}
