package transcript_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// said makes a transcript from words: "u" is a user's message, "r" a reply, "r:a,b" a reply that calls a and b, and
// "t:a,b" the message with their results.
func said(words ...string) []cairn.Message {
	var list []cairn.Message
	for i, word := range words {
		kind, ids, _ := strings.Cut(word, ":")
		m := cairn.Message{ID: fmt.Sprint("m", i), RunID: "run", Parts: []cairn.Part{cairn.TextPart(word)}}
		for _, id := range strings.FieldsFunc(ids, func(r rune) bool { return r == ',' }) {
			if kind == "r" {
				m.Parts = append(m.Parts, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "tool-" + id}})
			} else {
				m.Parts = append(m.Parts, cairn.Part{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: id, Output: []byte(`"done"`)}})
			}
		}
		m.Role = map[string]cairn.Role{"u": cairn.RoleUser, "r": cairn.RoleAssistant, "t": cairn.RoleTool}[kind]
		list = append(list, m)
	}
	return list
}

// spelt is the inverse of said. A minus precedes a result that says that its call was not executed.
func spelt(messages []cairn.Message) string {
	var words []string
	for _, m := range messages {
		word := map[cairn.Role]string{cairn.RoleUser: "u", cairn.RoleAssistant: "r", cairn.RoleTool: "t"}[m.Role]
		var ids []string
		for _, use := range m.ToolUses() {
			ids = append(ids, use.CallID)
		}
		for _, r := range m.ToolResults() {
			if r.Code == cairn.ErrNotExecuted {
				ids = append(ids, "-"+r.CallID)
			} else {
				ids = append(ids, r.CallID)
			}
		}
		if len(ids) > 0 {
			word += ":" + strings.Join(ids, ",")
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestPairing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words    string
		balanced bool
		healed   string
		open     string // of the last reply
	}{
		"empty":                         {"", true, "", ""},
		"only words":                    {"u r u r", true, "u r u r", ""},
		"answered":                      {"u r:a,b t:a,b r", true, "u r:a,b t:a,b r", ""},
		"open at the end":               {"u r:a", false, "u r:a t:-a", "a"},
		"one of two answered":           {"u r:a,b t:b", false, "u r:a,b t:-a,b", "a"},
		"answered in two messages":      {"u r:a,b t:b t:a", false, "u r:a,b t:a,b", ""},
		"answered behind a user":        {"u r:a u t:a", false, "u r:a t:a u", ""},
		"open in the middle":            {"u r:a u r", false, "u r:a t:-a u r", ""},
		"a result that nobody asked of": {"u t:x r", true, "u r", ""},
		"answered twice":                {"r:a t:a t:a", true, "r:a t:a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := said(strings.Fields(c.words)...)
			if got := transcript.Balanced(list); got != c.balanced {
				t.Errorf("balanced: %t", got)
			}
			healed := transcript.Heal(list)
			if got := spelt(healed); got != c.healed {
				t.Errorf("healed: %q, want %q", got, c.healed)
			}
			if !transcript.Balanced(healed) {
				t.Error("what was healed is not balanced")
			}
			if got := spelt(list); got != c.words {
				t.Errorf("healing changed the transcript to %q", got)
			}
			var open []string
			_, uses := transcript.Unanswered(list)
			for _, use := range uses {
				open = append(open, use.CallID)
			}
			if got := strings.Join(open, ","); got != c.open {
				t.Errorf("open: %q, want %q", got, c.open)
			}
			closing := transcript.Closing(list)
			if (closing != nil) != (c.open != "") {
				t.Fatalf("closing: %v", closing)
			}
			if closing != nil && spelt([]cairn.Message{*closing}) != "t:-"+strings.ReplaceAll(c.open, ",", ",-") {
				t.Errorf("closing: %q", spelt([]cairn.Message{*closing}))
			}
		})
	}
}

func TestUseOfAResult(t *testing.T) {
	t.Parallel()
	list := said("r:a", "t:a", "r:b", "t:b")
	if use := transcript.Use(list, &cairn.ToolResult{CallID: "a"}); use != list[0].Parts[1].ToolUse {
		t.Errorf("found %+v", use)
	}
	if use := transcript.Use(list, &cairn.ToolResult{CallID: "c", Tool: "gone"}); use.CallID != "c" || use.Tool != "gone" {
		t.Errorf("made %+v", use)
	}
}

func TestMustFinishLastsAsLongAsItsRun(t *testing.T) {
	t.Parallel()
	mark := cairn.Context("come to an end")
	mark.Origin, mark.RunID = cairn.OriginMustFinish, "run"
	list := append(said("u", "r"), mark)
	list = append(list, said("r", "u")...)
	if !transcript.MustFinish(list, "run") {
		t.Error("the run that was told need not finish")
	}
	if transcript.MustFinish(list, "next") || transcript.MustFinish(said("u", "r"), "run") {
		t.Error("a run that was not told must finish")
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	hidden := func(tools map[string]bool) cairn.Message {
		m := cairn.Context("switched")
		m.Tools = tools
		return m
	}
	left := cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{
		{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "a", Background: "ann"}},
		{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "b", Background: "bob"}}}}
	report := cairn.Context("bob is done")
	report.Origin, report.ChildID = cairn.OriginCompanion, "bob"
	list := append(said("u", "r:a,b"), left, hidden(map[string]bool{"x": false, "y": false, cairn.FinishTool: false}), report, hidden(map[string]bool{"y": true}))
	forged := cairn.User(cairn.TextPart("not hidden"))
	forged.Tools = map[string]bool{"z": false}
	list = append(list, forged)

	var x transcript.Index
	empty := x.Clone()
	for range 2 { // repeating it changes nothing
		for i := range list {
			x.Add(&list[i])
		}
		if !x.Taken("a") || !x.Taken("b") || x.Taken("c") {
			t.Error("call ids")
		}
		if !x.Off("x") || x.Off("y") || x.Off("z") || x.Off(cairn.FinishTool) {
			t.Error("switched tools")
		}
		if got := slices.Sorted(maps.Keys(x.Away())); !slices.Equal(got, []string{"ann"}) {
			t.Errorf("away: %v", got)
		}
	}
	copied := x.Clone()
	copied.Add(&said("r:c")[0])
	if x.Taken("c") || !copied.Taken("a") || empty.Taken("a") {
		t.Error("a copy shares with its original")
	}
}

// The files of a result are on the side of the result.
func TestCutsKeepFilesWithTheirResult(t *testing.T) {
	t.Parallel()
	list := said("u", "r:a", "t:a", "u", "u", "r")
	if got := transcript.Cuts(list); !slices.Equal(got, []int{1, 3, 4, 5}) {
		t.Fatalf("the cuts are %v", got)
	}
	list[3].CallID = "a"
	if got := transcript.Cuts(list); !slices.Equal(got, []int{1, 4, 5}) {
		t.Errorf("the cuts are %v", got)
	}
}
