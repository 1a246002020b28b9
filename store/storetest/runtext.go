package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// A store may keep the text of a run as a reference to the message that has it: these tests read it after all that
// happens to such a message.
var runTextTests = []storeTest{
	{name: "OfTheReply", run: textOfTheReply},
	{name: "OutlastsItsMessage", run: textOutlastsItsMessage},
	{name: "OutlastsARunsRewind", run: textOutlastsARunsRewind},
	{name: "OfARunThatIsNoLongerCurrent", run: textOfAnEarlierRun},
	{name: "ThatIsWrittenAgain", run: textWrittenAgain},
}

// answers begins a run and commits its only step together with its end. The run's text is that of the reply's parts
// of type text.
func (h *harness) answers(id, runID string, parts ...cairn.Part) *cairn.Session {
	h.Helper()
	s := h.begin(id, runID)
	c, end := h.stepCommit(s, ""), endCommit(s)
	c.Messages[0].Parts, c.Messages[0].ID = parts, runID+"/1/reply"
	c.EndRun, c.Status, c.Lease = end.EndRun, end.Status, end.Lease
	c.EndRun.Text = c.Messages[0].Text()
	return h.commit(id, c)
}

// wantTexts checks the texts of a session's runs, each one read in a list in both orders, and by its id.
func (h *harness) wantTexts(id string, want ...string) {
	h.Helper()
	newest, err := h.st.Runs(h.Context(), id, driver.PageQuery{Newest: true, Limit: len(want) + 1})
	h.must(err)
	oldest := h.runs(id)
	if len(newest.Items) != len(want) || len(oldest) != len(want) {
		h.Fatalf("the lists have %d and %d runs, want %d", len(oldest), len(newest.Items), len(want))
	}
	for i, text := range want {
		one, err := driver.FindRun(h.Context(), h.st, id, oldest[i].ID)
		h.must(err)
		for place, run := range map[string]*cairn.Run{"": one, " in the list": &oldest[i], " in the list from the end": &newest.Items[len(want)-1-i]} {
			if run.Text != text {
				h.Fatalf("the text of run %q%s is %q, want %q", run.ID, place, run.Text, text)
			}
		}
	}
}

func textOfTheReply(h *harness) {
	h.create("session")
	reasoning := cairn.Part{Type: cairn.PartReasoning, Text: "Let me think.", Provider: []byte(`{"signature":"\"text\":"}`)}
	long := cairn.Part{Type: cairn.PartReasoning, Text: strings.Repeat("Let me think. ", 100)}
	for _, parts := range [][]cairn.Part{
		{cairn.TextPart("\"quoted\"\n</b> ✓ \u2028")},
		{reasoning, cairn.TextPart("one, "), cairn.TextPart("two")},
		{long, cairn.TextPart("short")},
		{cairn.TextPart("one"), {Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "c", Tool: "t", Input: []byte(`{"text":"input"}`)}}},
		{reasoning},
	} {
		h.answers("session", h.newID("run"), parts...)
	}
	s := h.begin("session", "failed")
	failed := endCommit(s)
	failed.Messages = []cairn.Message{{RunID: s.RunID, Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("the last reply")}}}
	failed.EndRun.Status, failed.EndRun.Reason, failed.EndRun.Text = cairn.RunFailed, cairn.ReasonError, "the last"
	h.commit("session", failed)
	h.wantTexts("session", "\"quoted\"\n</b> ✓ \u2028", "one, two", "short", "one", "", "the last")
}

// textOutlastsItsMessage rewinds a session step by step, and appends other messages in the place of those that are
// removed.
func textOutlastsItsMessage(h *harness) {
	h.create("session")
	var texts, points []string
	for i := range 5 {
		texts = append(texts, fmt.Sprint("answer ", i))
		points = append(points, h.answers("session", fmt.Sprint("run-", i), cairn.TextPart(texts[i])).CheckpointID)
	}
	for i := 3; i >= 1; i-- {
		h.commit("session", &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: points[i]})
		h.wantTexts("session", texts...)
		text := fmt.Sprint("another answer after ", i)
		texts = append(texts, text)
		h.answers("session", h.newID("run"), cairn.TextPart(text))
		h.commit("session", &driver.Commit{Messages: says("in the place of an answer", "and another one")})
		h.wantTexts("session", texts...)
	}
	h.commit("session", &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: points[0]})
	h.commit("session", &driver.Commit{Messages: says("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")})
	h.wantTexts("session", texts...)
}

// textOutlastsARunsRewind rewinds runs in the write that begins the next one, which is also the first that the session
// has.
func textOutlastsARunsRewind(h *harness) {
	h.create("session")
	h.answers("session", "run-1", cairn.TextPart("one"))
	for i, last := range []string{"run-1", "run-2"} {
		next := beginCommit(fmt.Sprint("run-", i+2), "worker", 1<<40)
		next.RewindRun = last
		s := h.commit("session", next)
		c, end := h.stepCommit(s, fmt.Sprint("answer ", i+2)), endCommit(s)
		c.EndRun, c.Status, c.Lease = end.EndRun, end.Status, end.Lease
		c.EndRun.Text = c.Messages[0].Text()
		h.commit("session", c)
	}
	h.wantTexts("session", "one", "answer 2", "answer 3")
}

// textOfAnEarlierRun ends a run after a later one has ended, with a message of its own.
func textOfAnEarlierRun(h *harness) {
	h.create("session")
	first := h.answers("session", "run-1", cairn.TextPart("one"))
	h.answers("session", "run-2", cairn.TextPart("two"))
	late := cairn.Message{RunID: "run-1", Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("late")}}
	h.commit("session", &driver.Commit{Messages: []cairn.Message{late}, EndRun: &cairn.Run{ID: "run-1", Status: cairn.RunCompleted, Text: "late"}})
	h.answers("session", "run-3", cairn.TextPart("three"))
	h.wantTexts("session", "late", "two", "three")
	h.commit("session", &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: first.CheckpointID})
	h.wantTexts("session", "late", "two", "three")
}

// textWrittenAgain updates a run whose text was that of a message.
func textWrittenAgain(h *harness) {
	h.create("session")
	s := h.answers("session", "run-1", cairn.TextPart("one"))
	again := endCommit(s).EndRun
	again.Text = "another one"
	h.commit("session", &driver.Commit{EndRun: again})
	h.wantTexts("session", "another one")
	again.Text = "one"
	h.commit("session", &driver.Commit{EndRun: again})
	h.wantTexts("session", "one")
}

// benchRuns reads a page of runs whose texts are those of their replies.
func benchRuns(outer *testing.B, open OpenStore) {
	b := newBench(outer, open)
	_, err := driver.Create(b.ctx, b.st, &cairn.Session{ID: "session", Agent: agentName}, nil)
	b.must(err)
	text := strings.Repeat(typicalText+"\n", 4)
	for n := range 100 {
		s, err := b.st.Commit(b.ctx, "session", beginCommit(fmt.Sprint("run-", n), "worker", time.Hour))
		b.must(err)
		c := endCommit(s)
		c.Messages = []cairn.Message{{ID: s.RunID + "/1/reply", RunID: s.RunID, Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(text)}}}
		c.EndRun.Text = text
		_, err = b.st.Commit(b.ctx, "session", c)
		b.must(err)
	}
	for b.Loop() {
		page, err := b.st.Runs(b.ctx, "session", driver.PageQuery{Limit: 100})
		b.must(err)
		if len(page.Items) != 100 || page.Items[99].Text != text {
			b.Fatalf("%d runs", len(page.Items))
		}
	}
}
