package chat

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// TestRepeats plays the events of a session, as words of a letter for the type and the text, and lists what is
// shown.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, shown string }{
		"an answer":                    {"S tOne t_two C E", "S tOne t_two C E"},
		"the same again":               {"S tOne t_two D S tOne_ ttwo_three C E", "S tOne t_two t_three C E"},
		"in smaller pieces":            {"S tOne_two D R S tOne t_two t_three C E", "S tOne_two t_three C E"},
		"broken off twice":             {"S tOne t_two D S tOne D S tOne_two_three C E", "S tOne t_two t_three C E"},
		"cut at a text's end":          {"S tOne D S tOne C E", "S tOne C E"},
		"another answer":               {"S tOne t_two D S tThree C E", "S tOne t_two D S tThree C E"},
		"another end":                  {"S tOne t_two D S tOne t_three C E", "S tOne t_two D S tOne t_three C E"},
		"a shorter one":                {"S tOne t_two D S tOne C E", "S tOne t_two D S tOne C E"},
		"another, then the same of it": {"S tOne D S tTwo D S tTwo_three C E", "S tOne D S tTwo t_three C E"},
		"thoughts":                     {"S hWell H tOne D S hWell H tOne_two C E", "S hWell H tOne t_two C E"},
		"a text that was a thought":    {"S hOne D S tOne C E", "S hOne D S tOne C E"},
		"a call behind it":             {"S tOne D S tOne A C", "S tOne A C"},
		"a call before the discard":    {"S tOne A D S tOne C E", "S tOne A D S tOne C E"},
		"a sub-agent's call":           {"S tOne a D S tOne C E", "S tOne a D S tOne C E"},
		"a step before":                {"S tOne C S tOne C E", "S tOne C S tOne C E"},
		"the end while it repeats":     {"S tOne_two D S tOne E", "S tOne_two D S tOne E"},
		"nothing was said":             {"S D S tOne C E", "S D S tOne C E"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[byte]cairn.EventType{'S': cairn.EventStepStart, 't': cairn.EventTextDelta, 'h': cairn.EventThinking, 'H': cairn.EventThinkingEnd, 'D': cairn.EventStepDiscarded,
				'C': cairn.EventStepCommitted, 'E': cairn.EventRunEnd, 'R': cairn.EventRunResumed, 'A': cairn.EventToolStart, 'a': cairn.EventToolStart}
			r := repeats{session: "s"}
			var shown []string
			for _, word := range strings.Fields(c.events) {
				ev := cairn.Event{Type: kinds[word[0]], SessionID: "s", Text: word[1:], Name: word[:1]}
				if word == "a" {
					ev.SessionID = "below"
				}
				for _, ev := range r.pass(ev) {
					shown = append(shown, ev.Name+ev.Text)
				}
			}
			if got := strings.Join(shown, " "); got != c.shown {
				t.Errorf("shown is %s\nwant     %s", got, c.shown)
			}
		})
	}
}
