package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// logOf parses a log, one event for each word: its type, the step and the text, and "below:" before what a sub-agent's
// session published, "next:" before what a later run did.
func logOf(words string) (list []cairn.Event) {
	types := map[byte]cairn.EventType{'S': cairn.EventStepStart, 'C': cairn.EventStepCommitted, 'D': cairn.EventStepDiscarded, 't': cairn.EventTextDelta,
		'h': cairn.EventThinking, 'q': cairn.EventSources, 'u': cairn.EventToolStart, 'E': cairn.EventRunEnd}
	for word := range strings.FieldsSeq(words) {
		ev := cairn.Event{Sequence: int64(len(list) + 1), SessionID: "s", RunID: "r", Status: cairn.RunCompleted}
		if rest, ok := strings.CutPrefix(word, "below:"); ok {
			ev.SessionID, word = "below", rest
		}
		if rest, ok := strings.CutPrefix(word, "next:"); ok {
			ev.RunID, word = "next", rest
		}
		ev.Type, ev.Step, ev.Text = types[word[0]], int(word[1]-'0'), word[2:]
		switch ev.Type {
		case cairn.EventSources:
			ev.Sources = []cairn.Source{{URL: ev.Text}}
		case cairn.EventToolStart:
			ev.Tool = ev.Text
		}
		list = append(list, ev)
	}
	return list
}

// What a discarded step and the later ones said is void, and nothing else.
func TestDiscardedStepsOfARemoteAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ log, want string }{
		"a step":                        {"S1 t1a D1 S1 t1b C1", "b"},
		"two open steps":                {"S1 t1a u1x S2 t2b D1 S1 t1c C1 S2 t2d C2", "c| d"},
		"the second of two open steps":  {"S1 t1a u1x S2 t2b D2 S2 t2d C1 C2", "a|x d"},
		"thoughts and calls":            {"S1 h1a u1x S2 h2b u2y D1 S1 h1c C1", "c"},
		"behind a committed step":       {"S1 t1a u1x C1 S2 t2b S3 t3c D2 S2 t2d C2", "a|x d"},
		"a committed step":              {"S1 t1a u1x C1 D1 S2 t2b C2", "a|x b"},
		"a sub-agent's committed step":  {"S1 t1a below:S1 below:u1y below:C1 below:D1 t1b C1", "a|y|b"},
		"no step":                       {"S1 t1a u1x C1 D2 S2 t2b C2", "a|x b"},
		"no step, at once":              {"D1 S1 t1a C1", "a"},
		"no step, once more":            {"S1 t1a C1 D2 D2 S2 t2b C2", "a b"},
		"a later run's":                 {"S1 t1a S2 t2b C1 C2 next:D1 next:S1 next:t1c next:D1 next:S1 next:t1d next:C1", "a b d"},
		"of a sub-agent":                {"S1 t1a below:S1 below:u1y below:D1 t1b C1", "ab"},
		"two of a sub-agent":            {"S1 t1a below:S1 below:u1y below:S2 below:u2z below:D1 below:S1 below:u1v t1b C1", "a v b"},
		"no step of a sub-agent":        {"S1 t1a below:S1 below:u1y below:C1 below:D2 t1b C1", "a y b"},
		"of a sub-agent's later run":    {"S1 t1a below:S1 below:u1y below:next:D1 t1b C1", "a y b"},
		"while a sub-agent works":       {"S1 t1a S2 u2x below:S1 below:u1y D1 S1 t1b C1", "y b"},
		"sources before the text":       {"S1 q1p C1 D2 S2 t2a C2", "a[p]"},
		"sources of a step":             {"S1 q1p D1 S1 t1a C1", "a"},
		"sources of the later step too": {"S1 q1p S2 q2v D2 S2 t2a C1 C2", "a[p]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reply []string
			k := &talk{m: &remote{}, request: &request{place: place{Session: "s"}}}
			k.yield = func(ch cairn.Chunk, _ error) bool {
				switch {
				case ch.Type == cairn.ChunkRestart:
					reply = nil
				case ch.Type == cairn.ChunkEvent:
					reply = append(reply, "|"+ch.Event.Tool+"|")
				case ch.Type == cairn.ChunkPartEnd:
					for _, s := range ch.Sources {
						reply = append(reply, "["+s.URL+"]")
					}
					reply = append(reply, "|")
				default:
					reply = append(reply, ch.Text)
				}
				return true
			}
			for _, ev := range logOf(c.log) {
				k.take(&ev)
			}
			words := func(s string) string {
				return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("| \n", r) }), " ")
			}
			if got := words(strings.Join(reply, "")); got != words(c.want) {
				t.Errorf("the reply is %q, want %q", got, words(c.want))
			}
		})
	}
}

// Each step whose text is void is named, the last one first, and no other step.
func TestTextOfDiscardedSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ log, want string }{
		"a step":                {"S1 t1a t1b D1 S1 t1c C1 E1", "1a 1b -1 1c"},
		"two open steps":        {"S1 t1a S2 t2b t2c D1 S1 t1d C1 S2 t2e C2 E2", "1a 2b 2c -2 -1 1d 2e"},
		"the second of two":     {"S1 t1a S2 t2b D2 S2 t2c C1 C2 E2", "1a 2b -2 2c"},
		"only a later one":      {"S1 u1x S2 t2b D1 S1 u1x C1 S2 t2c C2 E2", "2b -2 2c"},
		"behind a committed":    {"S1 t1a C1 S2 t2b S3 t3c D2 S2 t2d C2 E2", "1a 2b 3c -3 -2 2d"},
		"a committed step":      {"S1 t1a C1 D1 S2 t2b C2 E2", "1a 2b"},
		"no step":               {"D1 S1 t1a C1 D2 D2 S2 t2b C2 E2", "1a 2b"},
		"of a sub-agent":        {"S1 t1a below:S1 below:t1x below:D1 t1b C1 E1", "1a 1b"},
		"with the run's own id": {"S1 t1a below:D1 t1b C1 E1", "1a 1b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, ev := range logOf(c.log) {
					fmt.Fprintf(w, "id: %d\ndata: {\"type\":%q,\"session_id\":%q,\"run_id\":%q,\"step\":%d,\"text\":%q}\n\n", ev.Sequence, ev.Type, ev.SessionID, ev.RunID, ev.Step, ev.Text)
				}
			}))
			t.Cleanup(srv.Close)
			k, err := New(srv.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for text, err := range k.Text(t.Context(), "s", "r") {
				if err != nil {
					t.Fatal(err)
				}
				if text.Discarded {
					text.Step = -text.Step
				}
				got = append(got, fmt.Sprint(text.Step, text.Delta))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("it yields %q, want %q", got, c.want)
			}
		})
	}
}
