package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/server/internal/notebook"
)

// newNotebook is a server whose agent has a memory, in the tenants of [inEachTenant].
func newNotebook(t *testing.T, kind cairn.MemoryScopeKind) *world {
	t.Helper()
	bot := newBot()
	bot.Memory = &notebook.Memory{Kind: kind}
	return newWorldOf(t, &Options{RequestsPerMinute: -1, Authenticate: Tokens(inEachTenant())}, bot)
}

// refused makes a request that must be refused with a status.
func (w *world) refused(status int, token, method, path string, body any) {
	w.t.Helper()
	if res, data := w.do(token, method, path, body); res.StatusCode != status {
		w.t.Errorf("%s %s with token %q: status %d, want %d: %s", method, path, token, res.StatusCode, status, data)
	}
}

type memoryPage = cairn.Page[cairn.MemoryEntry]

// A user's memories are the user's: what is written there is the user's word, and a name that another tenant's user has,
// too, is another scope.
func TestMemoriesOfUsers(t *testing.T) {
	t.Parallel()
	w := newNotebook(t, cairn.MemoryOfUser)
	for _, of := range []string{"", "acme:", "other:"} {
		e := want[cairn.MemoryEntry](w, 201, of+"a", "POST", "/memory/entries", client.NewMemory{Text: "likes tea, says " + of})
		if e.Source.Kind != cairn.MemoryUserSaid {
			t.Errorf("a user's own memory is of %s", e.Source.Kind)
		}
		if e := want[cairn.MemoryEntry](w, 201, of+"x", "POST", "/memory/entries?user_id=alice", client.NewMemory{Text: "pays late"}); e.Source.Kind != cairn.MemoryApplication {
			t.Errorf("an administrator's memory is of %s", e.Source.Kind)
		}
		list := want[memoryPage](w, 200, of+"a", "GET", "/memory/entries", nil).Items
		if len(list) != 2 || list[0].Text != "likes tea, says "+of {
			t.Errorf("alice of %q reads %+v", of, list)
		}
		if list := want[memoryPage](w, 200, of+"o", "GET", "/memory/entries?user_id=alice", nil).Items; len(list) != 2 {
			t.Errorf("the operator of %q reads %+v", of, list)
		}
		w.refused(404, of+"e", "GET", "/memory/entries?user_id=alice", nil)
		w.refused(404, of+"r", "GET", "/memory/entries?user_id=alice", nil)
		w.refused(400, of+"x", "GET", "/memory/entries?user_id=acme::alice", nil)
	}
	if list := want[memoryPage](w, 200, "platform", "GET", "/memory/entries?user_id=acme::alice", nil).Items; len(list) != 2 {
		t.Errorf("the platform reads %+v", list)
	}
	if got := want[client.Forgotten](w, 200, "acme:a", "DELETE", "/memory/entries/m0", nil); got.Removed != 1 {
		t.Errorf("%d memories are gone", got.Removed)
	}
	if list := want[memoryPage](w, 200, "other:a", "GET", "/memory/entries", nil).Items; len(list) != 2 {
		t.Errorf("the memories of another tenant: %+v", list)
	}
}

// Reviewers see what is in quarantine, and nothing else. Users do not promote.
func TestReviewersPromoteMemories(t *testing.T) {
	t.Parallel()
	w := newNotebook(t, cairn.MemoryOfUser)
	memories, err := w.eng.Agent("bot").Memory.(cairn.EditableMemory).Of(&cairn.Session{UserID: "acme::alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := memories.Add(t.Context(), cairn.MemoryEntry{ID: "known", Text: "Ann", State: cairn.MemoryActive},
		cairn.MemoryEntry{ID: "caught", Text: "pay", State: cairn.MemoryQuarantined, Source: cairn.MemorySource{Kind: cairn.MemoryToolReturned, Session: "acme::s"}}); err != nil {
		t.Fatal(err)
	}
	list := want[memoryPage](w, 200, "acme:r", "GET", "/memory/entries?user_id=alice&state=quarantined&from_session=s", nil).Items
	if len(list) != 1 || list[0].ID != "caught" || list[0].Source.Session != "s" {
		t.Errorf("the reviewer reads %+v", list)
	}
	if got := want[client.MemoryVersions](w, 200, "acme:r", "GET", "/memory/entries/caught?user_id=alice", nil); len(got.History) != 1 {
		t.Errorf("the reviewer reads %+v", got)
	}
	w.refused(404, "acme:r", "GET", "/memory/entries/known?user_id=alice", nil)
	w.refused(404, "acme:r", "GET", "/memory/search?user_id=alice&text=Ann", nil)
	w.refused(404, "acme:a", "POST", "/memory/entries/caught/promote", nil)
	if e := want[cairn.MemoryEntry](w, 200, "acme:r", "POST", "/memory/entries/caught/promote?user_id=alice", nil); e.State != cairn.MemoryActive {
		t.Errorf("promoted: %+v", e)
	}
	w.refused(404, "acme:r", "GET", "/memory/entries/caught?user_id=alice", nil)
}

// A group's memories are not for those who use its agents, and each tenant has its own.
func TestMemoriesOfGroups(t *testing.T) {
	t.Parallel()
	w := newNotebook(t, cairn.MemoryOfGroup)
	w.same("acme::s")
	want[cairn.MemoryEntry](w, 201, "acme:x", "POST", "/memory/entries", client.NewMemory{Text: "closed on Sundays"})
	w.refused(404, "acme:a", "GET", "/memory/entries", nil)
	w.refused(404, "acme:a", "GET", "/memory/entries?session_id=s", nil)
	w.refused(404, "acme:o", "POST", "/memory/entries", client.NewMemory{Text: "open on Sundays"})
	w.refused(400, "acme:x", "GET", "/memory/entries?user_id=alice", nil)
	for token, n := range map[string]int{"acme:o": 1, "acme:x": 1, "other:x": 0, "x": 0} {
		if list := want[memoryPage](w, 200, token, "GET", "/memory/entries", nil).Items; len(list) != n {
			t.Errorf("%s reads %+v, want %d", token, list, n)
		}
	}
}

// A session's memories are for those who may read the session.
func TestMemoriesOfSessions(t *testing.T) {
	t.Parallel()
	w := newNotebook(t, cairn.MemoryOfSession)
	w.same("acme::s")
	want[cairn.MemoryEntry](w, 201, "acme:a", "POST", "/memory/entries?session_id=s", client.NewMemory{Text: "in a hurry"})
	if list := want[memoryPage](w, 200, "acme:o", "GET", "/memory/entries?session_id=s", nil).Items; len(list) != 1 {
		t.Errorf("the operator reads %+v", list)
	}
	w.refused(404, "acme:e", "GET", "/memory/entries?session_id=s", nil)
	w.refused(404, "acme:e", "GET", "/memory/entries?session_id=s&agent=nobody", nil)
	w.refused(404, "other:x", "GET", "/memory/entries?session_id=s", nil)
	w.refused(400, "acme:a", "GET", "/memory/entries", nil)
	w.refused(400, "acme:a", "GET", "/memory/entries?session_id=s&agent=nobody", nil)
	w.refused(404, "acme:a", "GET", "/memory/entries?agent=nobody", nil)
}

// A POST that is repeated adds one memory, and is answered again only to those who may still read it.
func TestMemoryIsAddedOnce(t *testing.T) {
	t.Parallel()
	w := newNotebook(t, cairn.MemoryOfUser)
	add := func(token string) string {
		status, text, _ := w.keyed(token, "k1", "/memory/entries?user_id=alice", client.NewMemory{Text: "likes tea"})
		return fmt.Sprint(status, " ", text)
	}
	first := add("acme:a")
	if again := add("acme:a"); again != first || !strings.HasPrefix(first, "201") {
		t.Errorf("first %s, then %s", first, again)
	}
	if list := want[memoryPage](w, 200, "acme:a", "GET", "/memory/entries", nil).Items; len(list) != 1 {
		t.Errorf("there are %+v", list)
	}
	if other := add("acme:e"); !strings.HasPrefix(other, "404") {
		t.Errorf("another user gets %s", other)
	}
}
