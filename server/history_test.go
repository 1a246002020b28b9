package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/aisdk"
)

// chatPage returns a page of a chat.
func (w *world) chatPage(id string, limit int, cursor string) chatBody {
	w.t.Helper()
	return want[chatBody](w, 200, "a", "GET", fmt.Sprintf("/chat/%s?limit=%d&cursor=%s", id, limit, url.QueryEscape(cursor)), nil)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A long chat is read in pages of messages, the newest first. Together they are the whole chat. The pages before an edit
// stay readable; one whose place in the chat was replaced is refused.
func TestChatPages(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	for i := range 5 {
		w.post(200, "a", "s", nil, text("user", fmt.Sprint("m", i), fmt.Sprint("word ", i)))
	}
	if err := w.eng.AddContext(t.Context(), "s", "hidden"); err != nil {
		t.Fatal(err)
	}
	w.post(200, "a", "s", nil, text("user", "m5", "pay"))
	call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
	want[cairn.Receipt](w, 200, "a", "POST", "/chat/s/submit-tool-result",
		map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
	want[client.Started](w, 202, "a", "POST", "/resume?session_id=s", nil)
	w.settled("s")
	all := want[chatBody](w, 200, "a", "GET", "/chat/s", nil)
	if len(all.Messages) != 12 || all.Next != "" {
		t.Fatalf("the chat has %d messages, next %q", len(all.Messages), all.Next)
	}
	for limit := 1; limit <= 12; limit++ {
		var messages []aisdk.Message
		for cursor, first := "", true; first || cursor != ""; first = false {
			page := w.chatPage("s", limit, cursor)
			if len(page.Messages) > limit || page.Next != "" && len(page.Messages) != limit {
				t.Fatalf("limit %d: a page has %d messages", limit, len(page.Messages))
			}
			messages = append(slices.Clone(page.Messages), messages...)
			cursor = page.Next
		}
		if got, want := asJSON(t, messages), asJSON(t, all.Messages); got != want {
			t.Errorf("limit %d: the pages are\n%s, want\n%s", limit, got, want)
		}
	}
	newer, older := w.chatPage("s", 2, "").Next, w.chatPage("s", 6, "").Next
	w.post(200, "a", "s", map[string]any{"messageId": "m4"}, text("user", "m4", "edited"))
	if list := w.chatPage("s", 6, older).Messages; len(list) != 6 || list[0].ID != "m0" {
		t.Errorf("the page before the edit is %+v", list)
	}
	if p := want[problemBody](w, 409, "a", "GET", "/chat/s?cursor="+url.QueryEscape(newer), nil); p.Code != "outdated" {
		t.Errorf("a page in what was replaced: %+v", p)
	}
	for _, bad := range []string{"limit=101", "limit=-1", "cursor=x", "cursor=0.x", "cursor=3"} {
		want[problemBody](w, 400, "a", "GET", "/chat/s?"+bad, nil)
	}
}

// A page that does not say how many messages it wants gets a hundred, and a list of branches says where it continues.
func TestChatPageIsLarge(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	for i := range 12 {
		w.post(200, "a", "s", nil, text("user", fmt.Sprint("m", i), "hi"))
	}
	if all := want[chatBody](w, 200, "a", "GET", "/chat/s", nil); len(all.Messages) != 24 || all.Next != "" {
		t.Errorf("%d messages, next %q", len(all.Messages), all.Next)
	}
	for _, id := range []string{"m11", "m10"} {
		w.post(200, "a", "s", map[string]any{"messageId": id}, text("user", id, "ho"))
	}
	page := want[pageBody[client.ChatBranch]](w, 200, "a", "GET", "/chat/s/branches?limit=1", nil)
	if len(page.Items) != 1 || page.Next == "" || !page.HasMore || page.Limit != 1 {
		t.Errorf("%+v", page)
	}
}

// An edited message and another answer keep what they replace: as a branch of the chat, which is listed and shown as it
// was, is in no list of sessions, and goes with the chat.
func TestEditKeepsABranch(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	w.post(200, "a", "s", nil, text("user", "two", "pay"))
	first := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	w.post(200, "a", "s", map[string]any{"messageId": "two"}, text("user", "two", "ho"))
	second := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	w.post(200, "a", "s", map[string]any{"trigger": "regenerate-message"}, text("user", "one", "not what was said"))
	wantChat(t, "after both", w.chat("a", "s"), "user: hi", "assistant: You said: hi")

	list := want[pageBody[client.ChatBranch]](w, 200, "a", "GET", "/chat/s/branches", nil).Items
	if len(list) != 2 || list[0].MessageID != "one" || list[1].MessageID != "two" || list[0].CreatedAt.Before(list[1].CreatedAt) {
		t.Fatalf("the branches are %+v", list)
	}
	if got, want := asJSON(t, want[chatBody](w, 200, "a", "GET", "/chat/"+list[0].ID, nil).Messages), asJSON(t, second); got != want {
		t.Errorf("the chat before the second edit is\n%s, was\n%s", got, want)
	}
	// The call that was pending was closed before its turn was replaced.
	shown := want[chatBody](w, 200, "a", "GET", "/chat/"+list[1].ID, nil).Messages
	if len(shown) != len(first) || shown[3].ID != first[3].ID || shown[3].Parts[1].State != "output-error" {
		t.Errorf("the chat before the first edit is\n%s, was\n%s", asJSON(t, shown), asJSON(t, first))
	}
	if page := want[pageBody[client.ChatBranch]](w, 200, "a", "GET", "/chat/s/branches?limit=1", nil); len(page.Items) != 1 || page.Next == "" {
		t.Errorf("a page of branches: %+v", page)
	}
	if ids := w.sessionIDs("a", ""); !slices.Equal(ids, []string{"s"}) {
		t.Errorf("the list of sessions has %q", ids)
	}
	for _, path := range []string{"/chat/" + list[0].ID, "/sessions/" + list[0].ID, "/chat/s/branches"} {
		want[problemBody](w, 404, "e", "GET", path, nil)
	}
	want[none](w, 204, "a", "DELETE", "/sessions/s", nil)
	want[problemBody](w, 404, "a", "GET", "/chat/"+list[0].ID, nil)
	want[cairn.Session](w, 200, "a", "POST", "/sessions/s/restore", nil)
	want[chatBody](w, 200, "a", "GET", "/chat/"+list[0].ID, nil)
}

// Another answer to a message that had none keeps no branch, since nothing is lost. A message that never arrived is
// stored by the request for another answer to it.
func TestRegenerateWithoutAnAnswer(t *testing.T) {
	failed := false
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		if !failed {
			failed = true
			return scripted.Fail(cairn.ErrInvalid)
		}
		return scripted.Text("hello")
	})})
	again := map[string]any{"trigger": "regenerate-message"}
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	wantChat(t, "after a failure", w.chat("a", "s"), "user: hi", "assistant:")
	w.post(200, "a", "s", again, text("user", "one", "hi"))
	seen := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	w.post(200, "a", "s", again, append(seen, text("user", "two", "ho"))...)
	wantChat(t, "in the end", w.chat("a", "s"), "user: hi", "assistant: hello", "user: ho", "assistant: hello")
	if list := want[pageBody[client.ChatBranch]](w, 200, "a", "GET", "/chat/s/branches", nil).Items; len(list) != 0 {
		t.Errorf("the branches are %+v", list)
	}
}

// A tab that shows a turn which another tab has replaced is refused: it would continue a chat that it does not show.
func TestStaleTabIsRefused(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	w.post(200, "a", "s", nil, text("user", "one", "hi"))
	w.post(200, "a", "s", nil, text("user", "two", "ho"))
	tab := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	with := func(seen []aisdk.Message, more ...aisdk.Message) []aisdk.Message {
		return append(slices.Clone(seen), more...)
	}

	w.post(200, "a", "s", nil, with(tab, text("user", "three", "another tab's"))...)
	w.post(200, "a", "s", nil, with(tab, text("user", "four", "a tab that has not seen it"))...)
	w.post(200, "a", "s", nil, with(tab[:2], text("user", "lost", "a post that failed"), text("assistant", "note", "the page's own"), text("user", "five", "and on"))...)

	w.post(200, "a", "s", map[string]any{"messageId": "two"}, with(tab[:2], text("user", "two", "edited"))...)
	before := w.settled("s")
	for name, c := range map[string]struct {
		more     map[string]any
		messages []aisdk.Message
	}{
		"a message":                          {nil, with(tab, text("user", "six", "more"))},
		"an edit of a message that is gone":  {map[string]any{"messageId": "three"}, with(tab, text("user", "three", "more"))},
		"another answer to one that is gone": {map[string]any{"trigger": "regenerate-message"}, with(tab, text("user", "three", "more"))},
	} {
		if p := w.post(409, "a", "s", c.more, c.messages...); p.Code != "outdated" || p.Retryable {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if after := w.settled("s"); after.Version != before.Version {
		t.Errorf("the session has changed: %+v", after)
	}
	now := want[chatBody](w, 200, "a", "GET", "/chat/s", nil).Messages
	w.post(200, "a", "s", nil, with(now, text("user", "six", "more"))...)
}
