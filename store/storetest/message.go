package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var messageTests = []storeTest{
	{name: "EveryPartRoundTrips", run: everyPart},
	{name: "CreationTime", run: messageTime},
	{name: "Range", run: messageRange},
	{name: "DefaultLimit", run: messageDefaultLimit},
	{name: "RangeWhileWriting", run: messageRangeWhileWriting},
	{name: "Snapshot", run: snapshot},
	{name: "SinceSummary", run: messagesSinceSummary},
	{name: "TaintOnTheRow", run: taintOnTheRow},
	{name: "NoSession", run: messagesOfNobody},
}

func everyPart(h *harness) {
	h.create("session")
	at := time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC)
	given := []cairn.Message{
		{ID: "m1", Role: cairn.RoleUser, Metadata: []byte(`{"from":"<page>"}`), CreatedAt: at, Parts: []cairn.Part{
			cairn.DataPart(cairn.Data{Name: "choice", ID: "c", Value: []byte(`{"color":"red"}`)}),
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
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call", Tool: "lookup", Output: []byte(`[1,2.5,null]`),
				Data: []cairn.Data{{Name: "note", Value: []byte(`"<&>"`)}, {Name: "progress", ID: "p", Value: []byte(`{"done":2}`)}}}},
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "x", Tool: "y", Output: []byte(`"bad"`), IsError: true, Code: cairn.ErrTool, Private: true}},
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "z", Tool: "spawn", Output: []byte(`{}`), Background: "child",
				Child: cairn.ChildEnd{SessionID: "child", Agent: "helper", Status: cairn.RunInterrupted}}}}},
	}
	h.commit("session", &driver.Commit{Messages: given[:1]})
	h.commit("session", &driver.Commit{Messages: given[1:]})
	same(h.T, "messages", h.messages("session"), given)
}

func messageTime(h *harness) {
	h.create("session")
	set := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	s := h.commit("session", &driver.Commit{Messages: []cairn.Message{
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

// numbered commits n messages that contain their index, in one commit.
func (h *harness) numbered(id string, n int) {
	h.Helper()
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprint(i))
	}
	h.commit(id, &driver.Commit{Messages: says(texts...)})
}

func messageRange(h *harness) {
	h.create("session")
	h.numbered("session", 10)
	for from := range 13 {
		for limit := 1; limit <= 11; limit++ {
			list, err := driver.Messages(h.Context(), h.st, "session", from, limit)
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
	list, err := driver.Messages(h.Context(), h.st, "session", 3, 0)
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
		h.commit("session", &driver.Commit{Messages: says(fmt.Sprint(2*n), fmt.Sprint(2*n+1))})
		list, err := driver.Messages(h.Context(), h.st, "session", len(got), 1)
		h.must(err)
		got = append(got, textsOf(list)...)
	}
	same(h.T, "one message after each commit", got, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"})
}

// messagesSinceSummary reads a session from its latest summary on, as long as the summary exists.
func messagesSinceSummary(h *harness) {
	summary := func(from int) cairn.Message {
		m := cairn.Context(fmt.Sprint("the first ", from))
		m.Summary = &cairn.Summary{From: from}
		return m
	}
	recent := func(id string, from, limit int) []string {
		snap, err := h.st.Read(h.Context(), id, driver.Want{Messages: true, From: from, Limit: limit, Recent: true})
		h.must(err)
		return textsOf(snap.Messages)
	}
	s := h.running("session")
	first := h.stepCommit(s, "a")
	s = h.commit("session", first)
	n := s.MessageCount
	same(h.T, "messages without a summary", recent("session", 0, 0), h.texts("session"))

	c := h.stepCommit(s, "b")
	c.Messages = append([]cairn.Message{summary(n)}, c.Messages...)
	second := h.commit("session", c)
	if want := (cairn.SummaryPlace{At: n, From: n}); second.Summary != want || h.load("session").Summary != want {
		h.Fatalf("the row has a summary at %+v, want %+v", second.Summary, want)
	}
	third := h.commit("session", h.stepCommit(second, "c"))
	all := h.texts("session")
	same(h.T, "messages since the summary", recent("session", 0, 0), all[n:])
	same(h.T, "messages behind the summary", recent("session", n+2, 0), all[n+2:])
	same(h.T, "one message since the summary", recent("session", 0, 1), all[n:n+1])
	same(h.T, "none behind the last", recent("session", len(all)+5, 0), nil)

	later := third.MessageCount
	fourth := h.commit("session", &driver.Commit{Messages: []cairn.Message{cairn.Context("kept"), summary(later)}})
	if want := (cairn.SummaryPlace{At: later + 1, From: later}); fourth.Summary != want {
		h.Fatalf("the row has a summary at %+v, want %+v", fourth.Summary, want)
	}
	same(h.T, "messages since the later summary", recent("session", 0, 0), []string{"kept", fmt.Sprint("the first ", later)})
	_, err := h.st.Commit(h.Context(), "session", &driver.Commit{Messages: []cairn.Message{summary(later + 100)}})
	wantError(h.T, err, cairn.ErrInvalid, "a summary of more messages than there are")

	h.branch("session", driver.BranchPoint{}, "whole")
	same(h.T, "messages of the branch", recent("whole", 0, 0), recent("session", 0, 0))
	before := n
	h.branch("session", driver.BranchPoint{Messages: &before}, "before")
	if row := h.load("before"); row.Summary != (cairn.SummaryPlace{}) {
		h.Fatalf("a branch from before the summary has it at %+v", row.Summary)
	}
	same(h.T, "messages of the branch from before", recent("before", 0, 0), all[:n])
	back := h.commit("session", &driver.Commit{Rewind: first.Checkpoint.ID})
	if back.Summary != (cairn.SummaryPlace{}) {
		h.Fatalf("after a rewind the summary is at %+v", back.Summary)
	}
	same(h.T, "messages after the rewind", recent("session", 0, 0), all[:n])
}

// taintOnTheRow taints a session and clears it, also in one commit and by summaries. Rewinds and branches have the taint of
// their last message.
func taintOnTheRow(h *harness) {
	marked := func(trust cairn.Trust, summary bool) cairn.Message {
		m := cairn.Context("about " + string(trust))
		m.Trust = trust
		if summary {
			m.Summary = &cairn.Summary{From: 1}
		}
		return m
	}
	taints, clears, neutral := marked(cairn.TrustTainted, false), marked(cairn.TrustCleared, false), cairn.Context("neither")
	s := h.running("session")
	var tainted []bool // after each message
	for range s.MessageCount {
		tainted = append(tainted, false)
	}
	want := func(what string, row *cairn.Session, messages int) {
		h.Helper()
		var places []int
		for i, now := range tainted[:messages] {
			if i > 0 && now != tainted[i-1] {
				places = append(places, i)
			}
		}
		read := h.load(row.ID)
		for _, r := range []*cairn.Session{row, read} {
			if last := tainted[messages-1]; r.Tainted != last || !slices.Equal(r.TrustAt, places) {
				h.Errorf("%s: tainted %t at %v, want %t at %v", what, r.Tainted, r.TrustAt, last, places)
			}
		}
	}
	var commits []*driver.Commit
	for i, add := range []struct {
		messages []cairn.Message
		tainted  []bool
	}{
		{[]cairn.Message{neutral}, []bool{false}},
		{[]cairn.Message{neutral, taints, neutral}, []bool{false, true, true}},
		{[]cairn.Message{taints}, []bool{true}},
		{[]cairn.Message{clears, taints, clears}, []bool{false, true, false}},
		{[]cairn.Message{marked(cairn.TrustTainted, true)}, []bool{true}},
		{[]cairn.Message{marked("", true)}, []bool{false}},
		{[]cairn.Message{taints}, []bool{true}},
	} {
		c := h.stepCommit(s, fmt.Sprint("reply ", i))
		before := tainted[len(tainted)-1]
		for range c.Messages {
			tainted = append(tainted, before)
		}
		c.Messages, tainted = append(c.Messages, add.messages...), append(tainted, add.tainted...)
		s, commits = h.commit("session", c), append(commits, c)
		want(fmt.Sprint("commit ", i), s, s.MessageCount)
	}
	for n := 1; n <= len(tainted); n++ {
		want(fmt.Sprintf("a branch with %d messages", n), h.branch("session", driver.BranchPoint{Messages: &n}, fmt.Sprint("branch-", n)), n)
	}
	for i := len(commits) - 2; i >= 0; i-- {
		back := h.commit("session", &driver.Commit{Rewind: commits[i].Checkpoint.ID})
		want(fmt.Sprint("a rewind to commit ", i), back, back.MessageCount)
	}
	back := h.commit("session", &driver.Commit{Messages: []cairn.Message{taints}})
	tainted = append(tainted[:back.MessageCount-1], true)
	want("a taint after rewinds", back, back.MessageCount)
}

func snapshot(h *harness) {
	s := h.running("session")
	want := h.content("session")
	for from := range len(want.Messages) + 3 {
		snap, err := h.st.Read(h.Context(), "session", driver.ToDrive(from))
		h.must(err)
		same(h.T, "row", snap.Session, s)
		same(h.T, "state", snap.State, want.State)
		same(h.T, fmt.Sprint("messages from ", from), snap.Messages, want.Messages[min(from, len(want.Messages)):])
		same(h.T, "staged", snap.Staged, want.Staged)
	}
	h.create("long")
	h.numbered("long", 1500)
	snap, err := h.st.Read(h.Context(), "long", driver.ToDrive(0))
	h.must(err)
	if len(snap.Messages) != 1500 {
		h.Fatalf("the snapshot has %d of 1500 messages", len(snap.Messages))
	}
	_, err = h.st.Read(h.Context(), "nobody", driver.ToDrive(0))
	h.wantError(err, cairn.ErrNotFound, "snapshot of no session")
}

func messagesOfNobody(h *harness) {
	_, err := driver.Messages(h.Context(), h.st, "nobody", 0, 0)
	h.wantError(err, cairn.ErrNotFound, "messages of no session")
	h.create("session")
	if list := h.messages("session"); len(list) > 0 {
		h.Fatalf("a new session has messages: %v", list)
	}
}
