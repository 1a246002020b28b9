package storetest

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var messageTests = []storeTest{
	{name: "EveryPartRoundTrips", run: everyPart},
	{name: "CreationTime", run: messageTime},
	{name: "Range", run: messageRange},
	{name: "DefaultLimit", run: messageDefaultLimit},
	{name: "RangeWhileWriting", run: messageRangeWhileWriting},
	{name: "Snapshot", run: snapshot},
	{name: "NoSession", run: messagesOfNobody},
}

func everyPart(h *harness) {
	h.create("session")
	at := time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC)
	given := []cairn.Message{
		{ID: "m1", Role: cairn.RoleUser, CreatedAt: at, Parts: []cairn.Part{
			cairn.TextPart("look at these"),
			cairn.FilePart(cairn.File{Name: "a.bin", MediaType: "application/octet-stream", Data: []byte{0, 1, 255}}),
			cairn.FilePart(cairn.File{MediaType: "image/png", URL: "https://example.com/a.png"})}},
		{ID: "m2", Role: cairn.RoleUser, Hidden: true, Origin: cairn.OriginCompanion, ChildID: "child", CreatedAt: at, Parts: []cairn.Part{cairn.TextPart("context")}},
		{ID: "m3", Role: cairn.RoleAssistant, RunID: "run", CreatedAt: at, Parts: []cairn.Part{
			{Type: cairn.PartReasoning, Text: "hm", Model: "anthropic:big", Provider: []byte(`{"signature":"abc","n":12345678901234567890}`)},
			{Type: cairn.PartProvider, Model: "anthropic:big", Provider: []byte(`{"type":"redacted_thinking","data":"\u00e9<&>"}`)},
			{Type: cairn.PartText, Text: "so", Sources: []cairn.Source{{URL: "https://example.com/", Title: "<T>", Quote: "q"}}},
			{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call", Tool: "lookup", Input: []byte(`{"order":42,"note":"<&>"}`)}}}},
		{ID: "m4", Role: cairn.RoleTool, RunID: "run", CreatedAt: at, Parts: []cairn.Part{
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call", Tool: "lookup", Output: []byte(`[1,2.5,null]`)}},
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "x", Tool: "y", Output: []byte(`"bad"`), IsError: true, Code: cairn.CodeTool, Private: true}},
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "z", Tool: "spawn", Output: []byte(`{}`), Background: "child",
				Child: cairn.ChildEnd{SessionID: "child", Agent: "helper", Status: cairn.RunInterrupted}}}}},
	}
	h.commit("session", &store.Commit{Messages: given[:1]})
	h.commit("session", &store.Commit{Messages: given[1:]})
	same(h.T, "messages", h.messages("session"), given)
}

func messageTime(h *harness) {
	h.create("session")
	set := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	s := h.commit("session", &store.Commit{Messages: []cairn.Message{
		{Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("set")}, CreatedAt: set},
		cairn.User(cairn.TextPart("not set"))}})
	list := h.messages("session")
	if !list[0].CreatedAt.Equal(set) {
		h.Errorf("created at %v, want the caller's %v", list[0].CreatedAt, set)
	}
	if !list[1].CreatedAt.Equal(s.UpdatedAt) {
		h.Errorf("created at %v, want the commit's time %v", list[1].CreatedAt, s.UpdatedAt)
	}
}

// numbered commits n messages that say their index, in one commit.
func (h *harness) numbered(id string, n int) {
	h.Helper()
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprint(i))
	}
	h.commit(id, &store.Commit{Messages: says(texts...)})
}

func messageRange(h *harness) {
	h.create("session")
	h.numbered("session", 10)
	for from := range 13 {
		for limit := 1; limit <= 11; limit++ {
			list, err := store.Messages(h.Context(), h.st, "session", from, limit)
			h.must(err)
			want := []string{}
			for i := from; i < min(from+limit, 10); i++ {
				want = append(want, fmt.Sprint(i))
			}
			same(h.T, fmt.Sprintf("at most %d messages from %d on", limit, from), textsOf(list), want)
		}
	}
}

func messageDefaultLimit(h *harness) {
	h.create("session")
	h.numbered("session", 1500)
	list, err := store.Messages(h.Context(), h.st, "session", 3, 0)
	h.must(err)
	if len(list) != 100 || list[0].Text() != "3" || list[99].Text() != "102" {
		h.Fatalf("limit 0 gave %d messages, want 100", len(list))
	}
	if all := h.texts("session"); len(all) != 1500 || all[1499] != "1499" {
		h.Fatalf("AllMessages gave %d messages, want 1500", len(all))
	}
}

func messageRangeWhileWriting(h *harness) {
	h.create("session")
	var got []string
	for n := range 10 {
		h.commit("session", &store.Commit{Messages: says(fmt.Sprint(2*n), fmt.Sprint(2*n+1))})
		list, err := store.Messages(h.Context(), h.st, "session", len(got), 1)
		h.must(err)
		got = append(got, textsOf(list)...)
	}
	same(h.T, "one message after each commit", got, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"})
}

func snapshot(h *harness) {
	s := h.running("session")
	want := h.content("session")
	for from := range len(want.Messages) + 3 {
		snap, err := h.st.Read(h.Context(), "session", store.ToDrive(from))
		h.must(err)
		same(h.T, "row", snap.Session, s)
		same(h.T, "state", snap.State, want.State)
		same(h.T, fmt.Sprint("messages from ", from), snap.Messages, want.Messages[min(from, len(want.Messages)):])
		same(h.T, "staged", snap.Staged, want.Staged)
	}
	h.create("long")
	h.numbered("long", 1500)
	snap, err := h.st.Read(h.Context(), "long", store.ToDrive(0))
	h.must(err)
	if len(snap.Messages) != 1500 {
		h.Fatalf("the snapshot has %d of 1500 messages", len(snap.Messages))
	}
	_, err = h.st.Read(h.Context(), "nobody", store.ToDrive(0))
	h.wantError(err, cairn.ErrNotFound, "snapshot of no session")
}

func messagesOfNobody(h *harness) {
	_, err := store.Messages(h.Context(), h.st, "nobody", 0, 0)
	h.wantError(err, cairn.ErrNotFound, "messages of no session")
	h.create("session")
	if list := h.messages("session"); len(list) > 0 {
		h.Fatalf("a new session has messages: %v", list)
	}
}
