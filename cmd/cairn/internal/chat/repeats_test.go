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
		"two steps":                    {"1 S tOne 2 S tTwo 1 D S tOne 2 S tTwo C", "S tOne S tTwo D S tOne S tTwo C"},
		"the later of two":             {"1 S tOne 2 S tTwo 2 D S tTwo_three C", "S tOne S tTwo t_three C"},
		"no step":                      {"1 S tOne C 2 D S tOne C", "S tOne C D S tOne C"},
		"no step, while it repeats":    {"1 S tOne_two D S tOne 2 D 1 t_two_three C", "S tOne_two t_three C"},
		"no step, in an answer":        {"1 S tOne 2 D 1 t_two C", "S tOne D t_two C"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[byte]cairn.EventType{'S': cairn.EventStepStart, 't': cairn.EventTextDelta, 'h': cairn.EventThinking, 'H': cairn.EventThinkingEnd, 'D': cairn.EventStepDiscarded,
				'C': cairn.EventStepCommitted, 'E': cairn.EventRunEnd, 'R': cairn.EventRunResumed, 'A': cairn.EventToolStart, 'a': cairn.EventToolStart}
			r := repeats{session: "s"}
			var shown []string
			step := 0
			for _, word := range strings.Fields(c.events) {
				if word[0] <= '9' { // the number of the step from here on
					step = int(word[0] - '0')
					continue
				}
				ev := cairn.Event{Type: kinds[word[0]], SessionID: "s", Step: step, Text: word[1:], Name: word[:1]}
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
