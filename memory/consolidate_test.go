package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// librarian is a model that takes the user's text of a turn as a fact, about Ann unless it says otherwise, and merges facts
// as merge says. It notes the requests to merge.
type librarian struct {
	merge  func(facts string) string
	merges []string
}

func (l *librarian) model() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		text := req.Messages[0].Text()
		if req.System == memory.ConsolidateInstructions {
			l.merges = append(l.merges, text)
			return scripted.Text(l.merge(text))
		}
		_, said, _ := strings.Cut(text, " user: ")
		said, _, _ = strings.Cut(said, "\n")
		entity := "Ann"
		if strings.Contains(said, "Bob") {
			entity = "Bob"
		}
		return scripted.Text(fmt.Sprintf(`{"facts":[{"text":%q,"entity":%q,"attribute":"drink","by":"user"}]}`, said, entity))
	})
}

// idOf returns the id of a fact in the list that the model is shown.
func idOf(facts, text string) string {
	for line := range strings.Lines(facts) {
		if strings.Contains(line, text) {
			return strings.Fields(line)[1]
		}
	}
	return "none"
}

func (h *house) facts(scope memory.Scope) (list []string) {
	h.t.Helper()
	for e, err := range h.mem.All(h.t.Context(), scope, memory.ListQuery{OldestFirst: true, Kind: memory.Fact, Current: true}) {
		if err != nil {
			h.t.Fatal(err)
		}
		list = append(list, e.Text)
	}
	return list
}

// Once a day a model merges facts. The merged ones stay as versions, and are current again if the merged fact has to go.
func TestFactsAreMergedOnceADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &librarian{merge: func(facts string) string {
			return fmt.Sprintf(`{"merged":[{"ids":[%q,%q,%q],"text":"Ann drinks hot green tea without sugar.","attribute":"drink"},{"ids":[%q,%q],"text":"All drink."},`+
				`{"ids":["mem_unknown",%q],"text":"Unknown."},{"ids":[%q,%q],"text":"Twice one."},{"ids":[%q],"text":"Alone."}]}`,
				idOf(facts, "green"), idOf(facts, "hot"), idOf(facts, "sugar"), idOf(facts, "Rome"), idOf(facts, "green"), idOf(facts, "Rome"),
				idOf(facts, "Rome"), idOf(facts, "Rome"), idOf(facts, "Rome"))
		}}
		h := newHouse(t, memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{Model: l.model(), Consolidate: true}}})
		eng, _ := h.agent()
		ann := memory.User("ann")
		h.say(eng, "ann", "s", "Ann drinks green tea.")
		first, err := eng.Checkpoint(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		h.say(eng, "ann", "s", "Ann takes no sugar.")
		h.say(eng, "ann", "other", "Ann likes it hot.")
		h.say(eng, "ann", "other", "Bob drinks coffee.")
		h.say(eng, "ann", "other", "Bob drinks water.")
		if len(l.merges) != 0 {
			t.Fatalf("facts of the first turn of the day: %q", l.merges)
		}
		testclock.Advance(24 * time.Hour)
		h.say(eng, "ann", "s", "Bob lives in Rome.")
		h.say(eng, "ann", "s", "Bob lives in Rome still.")
		if len(l.merges) != 1 || strings.Count(l.merges[0], "\n- ") != 6 {
			t.Fatalf("merged from %q", l.merges)
		}
		h.want("merged", h.facts(ann), []string{"Bob drinks coffee.", "Bob drinks water.", "Bob lives in Rome.",
			"Ann drinks hot green tea without sugar.", "Bob lives in Rome still."})
		hits, err := h.mem.Search(t.Context(), ann, memory.Query{Text: "sugar", Kind: memory.Fact})
		if err != nil || len(hits) == 0 || hits[0].Text != "Ann drinks hot green tea without sugar." {
			t.Fatalf("found %+v, %v", hits, err)
		}
		if versions, err := h.mem.History(t.Context(), ann, hits[0].ID); err != nil || len(versions) != 4 {
			t.Errorf("versions %+v, %v", versions, err)
		}
		testclock.Advance(24 * time.Hour)
		h.say(eng, "ann", "third", "Bob drinks wine.") // the only news are about Bob
		if len(l.merges) != 2 || strings.Contains(l.merges[1], "Ann") {
			t.Errorf("merged from %q", l.merges)
		}
		if _, err := eng.Rewind(t.Context(), "s", first.ID); err != nil {
			t.Fatal(err)
		}
		h.say(eng, "ann", "s", "Ann is back.")
		h.want("after the rewind", h.facts(ann), []string{"Ann drinks green tea.", "Ann likes it hot.", "Bob drinks coffee.", "Bob drinks water.", "Bob drinks wine.", "Ann is back."})
	})
}

// A model that makes no sense costs one call a day, and one that fails is asked again.
func TestFactsThatCannotBeMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, calls := memstore.New(nil), 0
		l := &librarian{}
		l.merge = func(string) string { calls++; return "I cannot do that." }
		h := newHouseOn(t, st, memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{Model: l.model(), Consolidate: true}}})
		eng, _ := h.agent()
		h.say(eng, "ann", "s", "Ann drinks tea.")
		h.say(eng, "ann", "s", "Ann drinks green tea.")
		testclock.Advance(24 * time.Hour)
		h.say(eng, "ann", "s", "Ann drinks milk.")
		h.say(eng, "ann", "s", "Ann drinks beer.")
		if calls != 1 || len(h.facts(memory.User("ann"))) != 4 {
			t.Errorf("%d calls, facts %q", calls, h.facts(memory.User("ann")))
		}
		if _, err := eng.EraseUser(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.mem.Get(t.Context(), memory.User("ann"), "any"); !errors.Is(err, cairn.ErrNotFound) {
			t.Error(err)
		}
	})
}
