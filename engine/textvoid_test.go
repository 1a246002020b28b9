package engine_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// played is a memory store whose log has other events than those that were published.
type played struct {
	*memstore.Store
	log *playedLog
}

type playedLog struct {
	*memstore.Log
	events []cairn.Event
}

func (s *played) EventLog() store.Log { return s.log }

func (l *playedLog) Follow(ctx context.Context, _ string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		for i := after; i < int64(len(l.events)); i++ {
			if !yield(l.events[i], nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

// What a discarded step and the later ones said is void, each step named once, the last one first; and no other text.
func TestTextOfDiscardedSteps(t *testing.T) {
	t.Parallel()
	types := map[byte]cairn.EventType{'S': cairn.EventStepStart, 'C': cairn.EventStepCommitted, 'D': cairn.EventStepDiscarded, 't': cairn.EventTextDelta}
	for name, c := range map[string]struct{ log, want string }{
		"a step":                     {"S1 t1a t1b D1 S1 t1c C1", "1a 1b -1 1c"},
		"two open steps":             {"S1 t1a S2 t2b t2c D1 S1 t1d C1 S2 t2e C2", "1a 2b 2c -2 -1 1d 2e"},
		"the second of two":          {"S1 t1a S2 t2b D2 S2 t2c C1 C2", "1a 2b -2 2c"},
		"only a later one has text":  {"S1 S2 t2b D1 S1 C1 S2 t2c C2", "2b -2 2c"},
		"behind a committed step":    {"S1 t1a C1 S2 t2b S3 t3c D2 S2 t2d C2", "1a 2b 3c -3 -2 2d"},
		"a committed step":           {"S1 t1a C1 D1 S2 t2b C2", "1a 2b"},
		"no step":                    {"D1 S1 t1a C1 D2 D2 S2 t2b C2", "1a 2b"},
		"of a sub-agent":             {"S1 t1a below:S1 below:t1x below:D1 t1b C1", "1a 1b"},
		"of another run, before it":  {"S1 t1a prior:D1 t1b C1", "1a 1b"},
		"once more, as it had begun": {"S1 t1a D1 D1 S1 t1b D1 S1 t1c C1", "1a -1 1b -1 1c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			log := &played{st, &playedLog{Log: st.EventLog().(*memstore.Log)}}
			agent := bot(scripted.New(scripted.Text("done")))
			turn(t, open(t, st, agent), "s", "go", engine.WithRunID("r"))
			run, err := open(t, log, agent).Attach(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range append(strings.Fields(c.log), "E") {
				ev := cairn.Event{Sequence: int64(len(log.log.events) + 1), SessionID: "s", RunID: "r", Type: cairn.EventRunEnd, Status: cairn.RunCompleted}
				if rest, ok := strings.CutPrefix(word, "below:"); ok {
					ev.SessionID, word = "below", rest
				}
				if rest, ok := strings.CutPrefix(word, "prior:"); ok {
					ev.RunID, word = "prior", rest
				}
				if word != "E" {
					ev.Type, ev.Step, ev.Text = types[word[0]], int(word[1]-'0'), word[2:]
				}
				log.log.events = append(log.log.events, ev)
			}
			var got []string
			for text, err := range run.Text(t.Context()) {
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
