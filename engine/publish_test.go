package engine_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// What the process of a verb died before publishing is on the log once, before what follows: another verb or a run.
func TestVerbWhoseProcessDiedIsPublished(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	eng := open(t, st, bot(counter(2), note()))
	turn(t, eng, "s", "go")
	for i, next := range []func(){
		func() { turn(t, eng, "s", "and now?") },
		func() { wantError(t, eng.AddContext(t.Context(), "s", "It pours."), nil) },
	} {
		before := len(history(t, st, "s"))
		m := cairn.Context("It rains.")
		m.ID = string(rune('a' + i))
		must(store.Update(t.Context(), st, "s", func(*cairn.Session) (*store.Commit, error) {
			return &store.Commit{Messages: []cairn.Message{m}, Publish: &cairn.Event{Type: cairn.EventContextAdded}}, nil
		}))
		if n := len(history(t, st, "s")); n != before {
			t.Fatalf("a commit alone adds %d events", n-before)
		}
		next()
		next()
		var told []cairn.Event
		for _, ev := range history(t, st, "s") {
			if ev.MessageID == m.ID {
				told = append(told, ev)
			}
		}
		if len(told) != 1 || told[0].Sequence != int64(before)+1 || told[0].Text != "It rains." {
			t.Errorf("the log tells %+v, want it once, as event %d", told, before+1)
		}
	}
}
