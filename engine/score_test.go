package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A score of a session, a run or a message is kept with the session, in any process, and replaced by a later one of the
// same judge. It goes with the session, and no other session with its id has it.
func TestScores(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Text("hello"), scripted.Text("hello"), scripted.Text("hello")))
	one, two := open(t, st, agent), open(t, st, agent)
	res := turn(t, one, "s", "go")
	turn(t, one, "other", "go")
	reply := messages(t, st, "s")[1]
	give := func(s cairn.Score) {
		t.Helper()
		if s.SessionID == "" {
			s.SessionID = "s"
		}
		kept, err := one.Score(t.Context(), s)
		if err != nil || kept.At.IsZero() || kept.Name == "" {
			t.Fatalf("%+v, %v", kept, err)
		}
	}
	give(cairn.Score{Value: 1, By: "ann"})
	give(cairn.Score{Value: -1, By: "ann", MessageID: reply.ID, Comment: "wrong order"})
	give(cairn.Score{Value: 0.25, Name: "accuracy", RunID: res.RunID, By: "judge"})
	give(cairn.Score{Value: 0.5, Name: "accuracy", RunID: res.RunID, By: "judge"}) // replaces it
	give(cairn.Score{Value: 9, SessionID: "other"})
	list, err := two.Scores(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range list {
		lines = append(lines, fmt.Sprintf("%s %t %t %g %s %s", s.Name, s.RunID == res.RunID, s.MessageID == reply.ID, s.Value, s.By, s.Comment))
	}
	if got, want := strings.Join(lines, "\n"), "score false false 1 ann \nscore true true -1 ann wrong order\naccuracy true false 0.5 judge "; got != want {
		t.Errorf("the scores are\n%s\nwant\n%s", got, want)
	}
	if err := two.Erase(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	page, err := st.Records().List(t.Context(), driver.RecordQuery{Namespace: driver.ScoreRecords})
	if err != nil || len(page.Items) != 1 || !strings.Contains(string(page.Items[0].Value), "other") {
		t.Errorf("scores that remain: %+v, %v", page.Items, err)
	}
	turn(t, one, "s", "go")
	if list, err := two.Scores(t.Context(), "s"); err != nil || len(list) != 0 {
		t.Errorf("a new session has the scores %+v, %v", list, err)
	}
}

func TestScoresAreChecked(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("hello"))))
	turn(t, eng, "s", "go")
	for field, s := range map[string]cairn.Score{
		"value":      {SessionID: "s", Value: math.NaN()},
		"name":       {SessionID: "s", Name: "a\x00"},
		"comment":    {SessionID: "s", Comment: strings.Repeat("x", 9000)},
		"by":         {SessionID: "s", By: strings.Repeat("x", 300)},
		"message_id": {SessionID: "s", MessageID: "none"},
		"run_id":     {SessionID: "s", RunID: "none"},
		"session":    {SessionID: "none"},
	} {
		_, err := eng.Score(t.Context(), s)
		var e *cairn.Error
		if !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if list, err := eng.Scores(t.Context(), "s"); err != nil || len(list) != 0 {
		t.Errorf("refused scores are kept: %+v, %v", list, err)
	}
}

// erasedBetween is a store that erases a session before a record is written.
type erasedBetween struct {
	*memstore.Store
	erase func()
}

func (s *erasedBetween) Records() store.Records { return recordsBehind{s.Store.Records(), s} }

type recordsBehind struct {
	store.Records
	of *erasedBetween
}

func (r recordsBehind) Put(ctx context.Context, w store.RecordWrite) (*store.Record, error) {
	if r.of.erase != nil {
		r.of.erase()
	}
	return r.Records.Put(ctx, w)
}

// A score that is written while its session is erased does not outlive it.
func TestScoreOfASessionThatIsErased(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"erased": false, "erased, and its id used again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &erasedBetween{Store: memstore.New(nil)}
			eng := open(t, st, bot(scripted.New(scripted.Text("hello"), scripted.Text("hello"))))
			turn(t, eng, "s", "go")
			st.erase = func() {
				st.erase = nil
				if err := eng.Erase(t.Context(), "s"); err != nil {
					t.Error(err)
				}
				if anew {
					turn(t, eng, "s", "go")
				}
			}
			if _, err := eng.Score(t.Context(), cairn.Score{SessionID: "s", Value: 1, Comment: "rude"}); !errors.Is(err, cairn.ErrNotFound) {
				t.Errorf("the error is %v", err)
			}
			page, err := st.Records().List(t.Context(), driver.RecordQuery{Namespace: driver.ScoreRecords})
			if err != nil || len(page.Items) != 0 {
				t.Errorf("scores that remain: %+v, %v", page.Items, err)
			}
		})
	}
}
