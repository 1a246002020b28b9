package plan_test

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// A run's text may be that of one of the commit's messages: the last one that the run wrote, and that has little else.
func TestTextOfAMessage(t *testing.T) {
	t.Parallel()
	message := func(run string, parts ...cairn.Part) cairn.Message { return cairn.Message{RunID: run, Parts: parts} }
	reasoning := func(bytes int) cairn.Part {
		return cairn.Part{Type: cairn.PartReasoning, Text: strings.Repeat("r", bytes-4), Provider: []byte("null")}
	}
	text := cairn.TextPart
	current, count := session().RunID, session().MessageCount
	for name, test := range map[string]struct {
		run, text string
		messages  []cairn.Message
		want      int // from the first message of the commit, 1; 0 for none
	}{
		"reply":                         {current, "abc", []cairn.Message{message(current, text("abc"))}, 1},
		"several parts":                 {current, "abc", []cairn.Message{message(current, text("a"), text("bc"))}, 1},
		"the last of two":               {current, "abc", []cairn.Message{message(current, text("abc")), message(current, text("abc")), message(current, text("b"))}, 2},
		"a part is missing":             {current, "abc", []cairn.Message{message(current, text("a"), text("b"))}, 0},
		"a part too many":               {current, "abc", []cairn.Message{message(current, text("abc"), text("d"))}, 0},
		"no text":                       {current, "", []cairn.Message{message(current, reasoning(5))}, 0},
		"of another run":                {current, "abc", []cairn.Message{message("other", text("abc"))}, 0},
		"of a run that is not current":  {"other", "abc", []cairn.Message{message("other", text("abc"))}, 0},
		"with as much else":             {current, "abc", []cairn.Message{message(current, reasoning(9), text("abc"))}, 1},
		"with more else than is worth":  {current, "abc", []cairn.Message{message(current, reasoning(10), text("abc"))}, 0},
		"with a large call":             {current, "abc", []cairn.Message{message(current, text("abc"), cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{Input: []byte("1234567890")}})}, 0},
		"a reasoning of the same words": {current, "abc", []cairn.Message{message(current, cairn.Part{Type: cairn.PartReasoning, Text: "abc"})}, 0},
	} {
		c := &driver.Commit{EndRun: &cairn.Run{ID: test.run, Status: cairn.RunCompleted, Text: test.text}, Messages: test.messages}
		seen := &plan.Seen{ID: "s", Row: session()}
		d := work(t, c, seen, func(plan.Needs) error { seen.Runs = map[string]*cairn.Run{"other": {ID: "other"}}; return nil })
		want := test.want
		if want > 0 {
			want += count
		}
		if d.TextAt != want || d.EndRun.Text != test.text {
			t.Errorf("%s: the text %q is at %d, want %d", name, d.EndRun.Text, d.TextAt, want)
		}
	}
	run := &cairn.Run{ID: "r", Text: "abc"}
	if kept := plan.WithoutText(run, 7); kept.Text != "" || kept.ID != "r" || plan.WithoutText(run, 0).Text != "abc" || run.Text != "abc" {
		t.Errorf("without its text the run is %+v", kept)
	}
}

// A session that is written at once has the same numbers, as long as they increase.
func TestTextsOfASession(t *testing.T) {
	t.Parallel()
	var texts plan.Texts
	for _, m := range []cairn.Message{
		{Parts: []cairn.Part{cairn.TextPart("one")}},
		{RunID: "r1", Parts: []cairn.Part{cairn.TextPart("half")}},
		{RunID: "r1", Parts: []cairn.Part{cairn.TextPart("o"), cairn.TextPart("ne")}},
		{RunID: "r1", Parts: []cairn.Part{{Type: cairn.PartToolResult, Result: &cairn.ToolResult{}}}},
		{RunID: "r3", Parts: []cairn.Part{cairn.TextPart("three")}},
		{RunID: "r2", Parts: []cairn.Part{cairn.TextPart("two")}},
		{RunID: "r4", Parts: []cairn.Part{cairn.TextPart("four")}},
	} {
		texts.Add(&m)
	}
	for _, test := range []struct {
		run, text string
		want      int
	}{{"r1", "one", 3}, {"r2", "two", 6}, {"r3", "three", 0}, {"r4", "others", 0}, {"r5", "five", 0}} {
		if at := texts.At(&cairn.Run{ID: test.run, Text: test.text}); at != test.want {
			t.Errorf("the text of %s is at %d, want %d", test.run, at, test.want)
		}
	}
	if at := new(plan.Texts).At(&cairn.Run{ID: "", Text: ""}); at != 0 {
		t.Errorf("without messages the text is at %d", at)
	}
}
