package server

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/store"
)

// mortal is a world whose sessions expire after an hour, with threads as given.
func mortal(t *testing.T, threads Threads) *world {
	bot := newBot()
	bot.TTL = time.Hour
	return newWorldOf(t, &Options{RequestsPerMinute: -1, Threads: func(string) Threads { return threads }}, bot)
}

// pass advances the store's clock.
func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// text is a message of a chat client with one text.
func text(role, id, words string) aisdk.Message {
	return aisdk.Message{ID: id, Role: role, Parts: []aisdk.Part{{Type: "text", Text: words}}}
}

// post posts messages to a chat and reads the stream of the turn to its end.
func (w *world) post(status int, token, chat string, more map[string]any, messages ...aisdk.Message) problemBody {
	w.t.Helper()
	body := map[string]any{"id": chat, "messages": messages}
	for k, v := range more {
		body[k] = v
	}
	if status != http.StatusOK {
		return want[problemBody](w, status, token, "POST", "/chat", body)
	}
	if res, data := w.do(token, "POST", "/chat", body); res.StatusCode != http.StatusOK || !strings.Contains(string(data), "[DONE]") {
		w.t.Fatalf("status %d: %s", res.StatusCode, data)
	}
	return problemBody{}
}

// chat returns the messages that a chat shows, each as its role and text.
func (w *world) chat(token, id string) (list []string) {
	w.t.Helper()
	for _, m := range want[chatBody](w, 200, token, "GET", "/chat/"+id, nil).Messages {
		words := m.Role + ":"
		for _, p := range m.Parts {
			if p.Text != "" {
				words += " " + p.Text
			}
		}
		list = append(list, words)
	}
	return list
}

func wantChat(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: the chat is %q, want %q", what, got, want)
	}
}

// sessionIDs returns the ids of the sessions that a query lists, newest first.
func (w *world) sessionIDs(token, query string) (list []string) {
	w.t.Helper()
	for _, s := range want[pageBody[cairn.Session]](w, 200, token, "GET", "/sessions?"+query, nil).Items {
		list = append(list, s.ID)
	}
	return list
}

// The user of an expired session learns that it has expired, and can restore it. To anybody else it never existed.
func TestExpiredSessionIsRefused(t *testing.T) {
	w := mortal(t, Threads{})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	w.pass(2 * time.Hour)
	again := map[string]any{"id": "s", "messages": []aisdk.Message{text("user", "two", "ho")}}
	start := startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "ho"}}}
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/chat", again}, {"GET", "/chat/s", nil}, {"GET", "/chat/s/stream", nil}, {"GET", "/chat/s/branches", nil},
		{"POST", "/chat/s/interrupt", nil}, {"POST", "/start", start}, {"GET", "/sessions/s", nil}, {"GET", "/status?session_id=s", nil},
		{"GET", "/sessions/s/messages", nil}, {"POST", "/sessions/s/branch", nil}, {"POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}}},
	} {
		if p := want[problemBody](w, 410, "a", r.method, r.path, r.body); p.Code != "expired" || p.Retryable {
			t.Errorf("%s %s: %+v", r.method, r.path, p)
		}
		if r.path != "/chat/s/stream" { // which a page asks for before its chat has begun
			want[problemBody](w, 404, "e", r.method, r.path, r.body)
		}
	}
	want[problemBody](w, 404, "e", "POST", "/sessions/s/restore", nil)
	want[cairn.Session](w, 200, "a", "POST", "/sessions/s/restore", nil)
	w.post(200, "a", "s", nil, text("user", "two", "ho"))
	wantChat(t, "after a restore", w.chat("a", "s"), "user: hi", "assistant: You said: hi", "user: ho", "assistant: You said: ho")
}

// With ExpiredRestore, a message to an expired session restores and continues it.
func TestExpiredSessionIsRestoredByAMessage(t *testing.T) {
	w := mortal(t, Threads{OnExpired: ExpiredRestore})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	w.pass(2 * time.Hour)
	w.post(404, "e", "s", nil, text("user", "two", "mine"))
	want[problemBody](w, 410, "a", "GET", "/chat/s", nil)
	w.post(200, "a", "s", nil, text("user", "two", "ho"))
	wantChat(t, "restored by POST /chat", w.chat("a", "s"), "user: hi", "assistant: You said: hi", "user: ho", "assistant: You said: ho")
	w.pass(2 * time.Hour)
	if begun := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "hey"}}}); begun.SessionID != "s" || begun.Turn != 3 {
		t.Errorf("restored by POST /start: %+v", begun)
	}
	if ids := w.sessionIDs("a", "thread_id=s"); len(ids) != 1 {
		t.Errorf("the thread has the sessions %q", ids)
	}
}

// With ExpiredNew, a message to a chat whose session has expired begins a new session, which the chat's id then stands
// for. Two tabs that do so at once share one. The thread's sessions can be listed, and a list of chats shows the thread
// once.
func TestExpiredSessionIsFollowedByANewOne(t *testing.T) {
	w := mortal(t, Threads{OnExpired: ExpiredNew})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}, Context: client.Context{Tags: []string{"vip"}}})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	seen := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	w.pass(2 * time.Hour)

	wantChat(t, "expired", w.chat("a", "s"))
	want[none](w, 204, "a", "GET", "/chat/s/stream", nil)
	want[problemBody](w, 410, "a", "GET", "/sessions/s", nil)
	w.post(404, "e", "s", nil, text("user", "two", "mine"))

	var tabs sync.WaitGroup
	for _, id := range []string{"two", "three"} {
		tabs.Go(func() { w.post(200, "a", "s", nil, append(seen[:len(seen):len(seen)], text("user", id, id))...) })
	}
	tabs.Wait()
	sessions := w.sessionIDs("a", "thread_id=s")
	if len(sessions) != 1 || sessions[0] == "s" {
		t.Fatalf("the thread has the sessions %q", sessions)
	}
	row := want[cairn.Session](w, 200, "a", "GET", "/sessions/"+sessions[0], nil)
	if row.ThreadID != "s" || row.UserID != "alice" || row.Turn != 2 || len(row.Tags) != 1 {
		t.Errorf("the new session is %+v", row)
	}
	if list := w.chat("a", "s"); len(list) != 4 {
		t.Errorf("the chat is %q", list)
	}
	if gone := w.sessionIDs("a", "thread_id=s&removed=expired"); len(gone) != 1 || gone[0] != "s" {
		t.Errorf("the expired sessions of the thread are %q", gone)
	}
	for _, path := range []string{"/chat/s", "/chat/s/branches", "/chat/" + row.ID} {
		want[problemBody](w, 404, "e", "GET", path, nil)
	}
	want[none](w, 204, "e", "GET", "/chat/s/stream", nil)
	if ids := w.sessionIDs("e", "thread_id=s"); len(ids) != 0 {
		t.Errorf("another user sees %q", ids)
	}
	if begun := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "hey"}}}); begun.SessionID != row.ID {
		t.Errorf("POST /start with the thread's id: %+v", begun)
	}
	w.settled(row.ID)

	// The first session is restored: it is in the thread, and no chat of its own.
	want[cairn.Session](w, 200, "a", "POST", "/sessions/s/restore", nil)
	if ids := w.sessionIDs("a", "thread_id=s"); len(ids) != 2 || ids[0] != row.ID || ids[1] != "s" {
		t.Errorf("the thread has the sessions %q", ids)
	}
	if ids := w.sessionIDs("a", "latest=true"); len(ids) != 1 || ids[0] != row.ID {
		t.Errorf("the chats are %q", ids)
	}
	if list := w.chat("a", "s"); len(list) != 6 {
		t.Errorf("after the restore of an earlier session the chat is %q", list)
	}
	want[problemBody](w, 404, "e", "DELETE", "/chat/s", nil)
	want[none](w, 204, "a", "DELETE", "/chat/s", nil)
	if ids := w.sessionIDs("a", "thread_id=s"); len(ids) != 0 {
		t.Errorf("after the deletion of the chat there are %q", ids)
	}
	w.post(404, "a", "s", nil, text("user", "four", "anybody there?"))
}

// Nobody gets into a thread under the id of a session that was purged.
func TestThreadKeepsItsID(t *testing.T) {
	w := mortal(t, Threads{OnExpired: ExpiredNew})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	w.pass(2 * time.Hour)
	w.post(200, "a", "s", nil, text("user", "two", "ho"))
	if err := w.eng.Erase(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	want[problemBody](w, 404, "e", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	want[problemBody](w, 404, "e", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "mine"}}})
	w.post(404, "e", "s", nil, text("user", "three", "mine"))
	if p := want[problemBody](w, 409, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}}); p.Code != "already_exists" {
		t.Errorf("got %+v", p)
	}
	wantChat(t, "without its first session", w.chat("a", "s"), "user: ho", "assistant: You said: ho")
}

// With EachTurn, each message to a chat begins a session of its own. The same message posted again does not.
func TestEachTurnHasItsSession(t *testing.T) {
	w := mortal(t, Threads{EachTurn: true})
	for _, m := range []aisdk.Message{text("user", "one", "hi"), text("user", "one", "hi"), text("user", "two", "pay"), text("user", "two", "pay"), text("user", "three", "ho")} {
		w.post(200, "a", "s", nil, m)
	}
	ids := w.sessionIDs("a", "thread_id=s")
	if len(ids) != 3 || ids[2] != "s" {
		t.Fatalf("the thread has the sessions %q", ids)
	}
	if latest := w.sessionIDs("a", "latest=true"); len(latest) != 1 || latest[0] != ids[0] {
		t.Errorf("the chats are %q", latest)
	}
	wantChat(t, "the last turn", w.chat("a", "s"), "user: ho", "assistant: You said: ho")
	wantChat(t, "the first turn", w.chat("a", ids[2]), "user: ho", "assistant: You said: ho") // its id is that of the chat
	calls, err := w.eng.Inbox(t.Context(), store.CallQuery{RootID: ids[1]})
	if err != nil || len(calls.Items) != 1 {
		t.Fatalf("got %+v, %v", calls, err)
	}
	call := calls.Items[0]
	approve := map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
	want[problemBody](w, 404, "e", "POST", "/chat/s/submit-tool-result", approve)
	if r := want[cairn.Receipt](w, 200, "r", "POST", "/chat/s/submit-tool-result", approve); r.Outcome != cairn.OutcomeAccepted {
		t.Errorf("the approval of an earlier turn: %+v", r)
	}
}
