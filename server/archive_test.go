package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// wantSessions checks which sessions a query lists, newest first.
func (w *world) wantSessions(token, query string, want ...string) {
	w.t.Helper()
	if got := w.sessionIDs(token, query); !slices.Equal(got, want) {
		w.t.Errorf("GET /sessions?%s: %q, want %q", query, got, want)
	}
}

// A chat that its user archives leaves the list of chats, and is in that of archived ones until the user writes in it.
func TestArchivedChat(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	w.post(200, "a", "one", nil, text("user", "m1", "hi"))
	w.post(200, "a", "two", nil, text("user", "m1", "hi"))
	row := want[cairn.Session](w, 200, "a", "PATCH", "/chat/one", `{"archived": true}`)
	if row.ArchivedAt.IsZero() || row.MessageCount != 2 {
		t.Errorf("archived: %+v", row)
	}
	if again := want[cairn.Session](w, 200, "a", "PATCH", "/sessions/one", `{"archived": true}`); again.Version != row.Version {
		t.Errorf("archived twice: %+v", again)
	}
	if got := want[cairn.Session](w, 200, "a", "GET", "/sessions/one", nil); !got.ArchivedAt.Equal(row.ArchivedAt) {
		t.Errorf("read: %+v", got)
	}
	for _, latest := range []string{"", "&latest=true"} {
		w.wantSessions("a", "limit=10"+latest, "two")
		w.wantSessions("a", "archived=false"+latest, "two")
		w.wantSessions("a", "archived=true"+latest, "one")
		w.wantSessions("a", "archived=all"+latest, "two", "one")
	}
	w.wantSessions("a", "thread_id=one", "one")
	w.wantSessions("a", "thread_id=one&archived=false")
	w.wantSessions("x", "user_id=alice", "two")
	w.wantSessions("x", "user_id=alice&archived=true", "one")
	w.wantSessions("e", "archived=all")
	if p := want[problemBody](w, 400, "a", "GET", "/sessions?archived=yes", nil); p.Field != "archived" {
		t.Errorf("got %+v", p)
	}
	want[problemBody](w, 404, "e", "PATCH", "/chat/one", `{"archived": false}`)

	wantChat(t, "archived", w.chat("a", "one"), "user: hi", "assistant: You said: hi")
	w.post(200, "a", "one", nil, text("user", "m2", "ho"))
	w.wantSessions("a", "archived=true")
	w.wantSessions("a", "archived=false", "two", "one")
	want[cairn.Session](w, 200, "a", "PATCH", "/sessions/two", `{"archived": true}`)
	if row = want[cairn.Session](w, 200, "a", "PATCH", "/sessions/two", `{"archived": false, "title": "Lamp"}`); !row.ArchivedAt.IsZero() || row.Title != "Lamp" {
		t.Errorf("made current: %+v", row)
	}
	w.wantSessions("a", "archived=false", "two", "one")
}

// The open call of an archived session stays in the inbox, and its answer leaves the session archived.
func TestInboxHasCallsOfArchivedSessions(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	w.post(200, "a", "s", nil, text("user", "m1", "pay"))
	want[cairn.Session](w, 200, "a", "PATCH", "/chat/s", `{"archived": true}`)
	for _, token := range []string{"a", "r", "x"} {
		if calls := want[pageBody[cairn.PendingCall]](w, 200, token, "GET", "/inbox", nil); len(calls.Items) != 1 || calls.Items[0].SessionID != "s" {
			t.Fatalf("the inbox of %q has %+v", token, calls.Items)
		}
	}
	call := want[pageBody[cairn.PendingCall]](w, 200, "r", "GET", "/inbox", nil).Items[0]
	want[cairn.Receipt](w, 200, "r", "POST", "/submit-tool-result?session_id=s",
		map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
	w.wantSessions("a", "archived=true", "s")
}

// A thread is archived with all its sessions, under the id of the chat, and current with its next session.
func TestArchivedThread(t *testing.T) {
	w := mortal(t, Threads{EachTurn: true})
	for _, id := range []string{"m1", "m2"} {
		w.post(200, "a", "s", nil, text("user", id, "hi"))
	}
	ids := w.sessionIDs("a", "thread_id=s")
	if len(ids) != 2 {
		t.Fatalf("the thread has %q", ids)
	}
	if row := want[cairn.Session](w, 200, "a", "PATCH", "/chat/s", `{"archived": true}`); row.ID != ids[0] || row.ArchivedAt.IsZero() {
		t.Errorf("archived: %+v", row)
	}
	w.wantSessions("a", "limit=10")
	w.wantSessions("a", "latest=true")
	w.wantSessions("a", "latest=true&archived=true", ids[0])
	w.wantSessions("a", "archived=true", ids...)
	w.post(200, "a", "s", nil, text("user", "m3", "ho"))
	next := w.sessionIDs("a", "thread_id=s")[0]
	w.wantSessions("a", "latest=true", next)
	w.wantSessions("a", "latest=true&archived=true")
	want[cairn.Session](w, 200, "a", "PATCH", "/chat/s", `{"archived": false}`)
	w.wantSessions("a", "limit=10", append([]string{next}, ids...)...)
}

// An archived chat that expires is in neither list, and among the removed ones. Restored by a message, it is current.
func TestArchivedChatExpires(t *testing.T) {
	w := mortal(t, Threads{OnExpired: ExpiredRestore})
	w.post(200, "a", "s", nil, text("user", "m1", "hi"))
	want[cairn.Session](w, 200, "a", "PATCH", "/chat/s", `{"archived": true}`)
	w.pass(2 * time.Hour)
	w.wantSessions("a", "archived=all")
	w.wantSessions("a", "removed=expired", "s")
	w.wantSessions("a", "status=expired&archived=true", "s")
	w.wantSessions("a", "status=expired&archived=false")
	want[problemBody](w, 410, "a", "PATCH", "/chat/s", `{"archived": false}`)
	w.post(200, "a", "s", nil, text("user", "m2", "ho"))
	w.wantSessions("a", "archived=false", "s")
}

// A page of current sessions is full, however many archived ones are between them.
func TestPagesOfCurrentSessions(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	for _, id := range strings.Split("abcdefgh", "") {
		if _, err := w.eng.Create(t.Context(), id, "bot", engine.WithUser("alice")); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if id >= "b" && id <= "g" {
			want[cairn.Session](w, 200, "a", "PATCH", "/sessions/"+id, `{"archived": true}`)
		}
	}
	w.wantSessions("a", "limit=2", "h", "a")
	w.wantSessions("a", "limit=1&offset=1", "a")
	page := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?archived=true&limit=2", nil)
	w.wantSessions("a", "archived=true&limit=3&cursor="+page.Next, "e", "d", "c")
}
