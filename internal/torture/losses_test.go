package torture

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// One request may have been under way when the store lost it. A second one shows a process that continues from memory.
func TestModelIsGivenWhatTheStoreLacksOnceAtMost(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	id := "group.per-step"
	c := &driver.Commit{Create: &cairn.Session{Agent: agentOf(id)}, Messages: []cairn.Message{{ID: "1", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("one")}}}}
	if _, err := st.Commit(t.Context(), id, c); err != nil {
		t.Fatal(err)
	}
	l := &losing{T: t, st: st, strayed: map[string]string{}}
	given := func(process, text string) error {
		said := append(c.Messages[:1:1], cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(text)}})
		return l.compare(t.Context(), process, &cairn.Request{SessionID: id, Messages: said})
	}
	for _, text := range []string{"one", "two", "two"} { // as it is, under way, and tried again
		if err := given("p", text); err != nil {
			t.Error(err)
		}
	}
	if err := given("q", "three"); err != nil {
		t.Errorf("another process had one under way: %v", err)
	}
	if err := given("p", "three"); err == nil {
		t.Error("a second request that the store lacks was accepted")
	}
	l.losses.Add(1)
	if err := given("p", "three"); err != nil {
		t.Errorf("under way at the next loss: %v", err)
	}
}
