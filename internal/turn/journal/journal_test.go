package journal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// staged is a step with a reply of every kind of part, a call that has ended and a call under way.
func staged() *step.Step {
	st := step.New("run", 2, nil, nil)
	use := func(id string) *cairn.ToolUse {
		return &cairn.ToolUse{CallID: id, Tool: "look", Input: []byte(`{"at":1}`)}
	}
	st.Add(&step.Reply{Message: &cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{
		{Type: cairn.PartReasoning, Text: "hm"}, {Type: cairn.PartFile, File: &cairn.File{}}, cairn.TextPart("so"),
		{Type: cairn.PartToolUse, ToolUse: use("a")}, {Type: cairn.PartToolUse, ToolUse: use("b")}}}})
	st.Add(&step.Result{Result: &cairn.ToolResult{CallID: "a", Tool: "look", Output: []byte(`"secret"`), IsError: true, Private: true}, Began: true, Hit: true})
	return st
}

func types(events []cairn.Event) string {
	var list []string
	for _, ev := range events {
		word := string(ev.Type)
		if ev.CallID != "" {
			word += " " + ev.CallID
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

// An event has as much of a part's sources as fits: up to 64 sources, the beginnings of long quotes, and no address
// that is too long.
func TestSourcesOfAPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1000)
	list := append([]cairn.Source{{URL: "https://a.example/" + long}, {URL: "https://a.example/1", Quote: long}}, slices.Repeat([]cairn.Source{{Title: "A page"}}, 100)...)
	ev, ok := journal.PartEnded(1, &cairn.Part{Type: cairn.PartText, Text: "hi", Sources: list})
	if !ok || ev.Type != cairn.EventSources || len(ev.Sources) != 64 || !ev.Truncated {
		t.Fatalf("%t, %s with %d sources, truncated: %t", ok, ev.Type, len(ev.Sources), ev.Truncated)
	}
	if s := ev.Sources[0]; s.URL != "https://a.example/1" || s.Quote != long[:cairn.MaxEventText] {
		t.Errorf("the first is %+v", s)
	}
	for _, none := range []cairn.Part{{Type: cairn.PartText, Text: "hi"}, {Type: cairn.PartProvider}, {Type: cairn.PartText, Sources: list[:1]}} {
		if ev, ok := journal.PartEnded(1, &none); ok {
			t.Errorf("%+v says %+v", none, ev)
		}
	}
}

// An event of a reply lists the reply's files, up to the limit of an event. A reply without files has no such event.
func TestFilesOfAReply(t *testing.T) {
	t.Parallel()
	file := cairn.FilePart(cairn.File{Name: "a", MediaType: "image/png", Data: []byte("abc")})
	reply := func(parts ...cairn.Part) cairn.Message {
		return cairn.Message{ID: "m", Role: cairn.RoleAssistant, Parts: parts}
	}
	list := journal.Added(7, []cairn.Message{reply(cairn.TextPart("hi")), reply(cairn.TextPart("hi"), file), {Role: cairn.RoleTool, Parts: []cairn.Part{file}}})
	if len(list) != 1 {
		t.Fatalf("got %+v", list)
	}
	ev := list[0]
	if ev.Type != cairn.EventFiles || ev.Index != 8 || ev.MessageID != "m" || ev.Text != "" || len(ev.Files) != 1 || ev.Truncated {
		t.Errorf("got %+v", ev)
	}
	if f := ev.Files[0]; f != (cairn.FileRef{Part: 1, Name: "a", MediaType: "image/png", Size: 3}) {
		t.Errorf("the file is %+v", f)
	}
	if ev := journal.Added(0, []cairn.Message{reply(slices.Repeat([]cairn.Part{file}, 17)...)})[0]; len(ev.Files) != 16 || !ev.Truncated {
		t.Errorf("of 17 files it has %d, truncated: %t", len(ev.Files), ev.Truncated)
	}
}

func TestStepIsPublishedWhole(t *testing.T) {
	t.Parallel()
	var list []cairn.Event
	say := func(ev cairn.Event) {
		if ev.Step != 2 {
			t.Errorf("%s is of step %d", ev.Type, ev.Step)
		}
		list = append(list, ev)
	}
	journal.Step(say, staged())
	want := "step_start, thinking, thinking_complete, text_delta, tool_arg_start a, tool_arg_delta a, tool_arg_end a, " +
		"tool_arg_start b, tool_arg_delta b, tool_arg_end b, tool_start a, tool_end a"
	want = strings.Replace(want, "thinking_complete", string(cairn.EventThinkingEnd), 1)
	if got := types(list); got != want {
		t.Errorf("told\n%s, want\n%s", got, want)
	}
	if end := list[len(list)-1]; string(end.Data) != define.PrivateError || !end.Cached || !end.IsError {
		t.Errorf("the end of the call is told as %+v", end)
	}
}

// The suspended run has published a continued step up to its calls.
func TestCarriedStepIsPublishedFromItsCallsOn(t *testing.T) {
	t.Parallel()
	m := staged().Message()
	st := step.New("next", 1, nil, nil)
	st.Carry(m, m.ToolUses())
	st.Add(&step.Result{Result: &cairn.ToolResult{CallID: "b"}, Consulted: &step.Consulted{Agent: "helper", ChildID: "c", Status: cairn.RunFailed}})
	var list []cairn.Event
	journal.Step(func(ev cairn.Event) { list = append(list, ev) }, st)
	if got := types(list); got != "step_start, subagent_end b, tool_end b" {
		t.Errorf("told %s", got)
	}
}

// Publishing a step as it happens and publishing the whole step later yield the same events.
func TestCallIsPublishedTheSameAtOnceAndInPieces(t *testing.T) {
	t.Parallel()
	st := staged()
	c := st.Call("b")
	var pieces, whole []cairn.Event
	say := func(ev cairn.Event) { pieces = append(pieces, ev) }
	say(journal.CallBegan(st, c))
	say(journal.Consults(st, c, "helper", "child"))
	st.Add(&step.Result{Result: &cairn.ToolResult{CallID: "b"}, Began: true, Consulted: &step.Consulted{Agent: "helper", ChildID: "child"}})
	journal.Call(say, st, c, journal.Begun)
	journal.Call(func(ev cairn.Event) { whole = append(whole, ev) }, st, c, journal.NotBegun)
	if fmt.Sprintf("%+v", pieces) != fmt.Sprintf("%+v", whole) || len(whole) != 4 {
		t.Errorf("in pieces %s, at once %s", types(pieces), types(whole))
	}
}

func TestSeenKnowsWhatIsPublishedOnce(t *testing.T) {
	t.Parallel()
	seen := journal.Seen{}
	ended := cairn.Event{Type: cairn.EventToolEnd, Step: 1, CallID: "a"}
	usage := cairn.Event{Type: cairn.EventUsage, Step: 1}
	failed := cairn.Event{Type: cairn.EventError, Step: 1}
	delta := cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: "so"}
	suspended := cairn.Event{Type: cairn.EventRunEnd, Status: cairn.RunSuspended, Reason: cairn.ReasonChildren}
	stopped := cairn.Event{Type: cairn.EventRunEnd, Status: cairn.RunInterrupted}
	for _, ev := range []cairn.Event{ended, usage, failed, delta, suspended} {
		if seen.Has(&ev) {
			t.Errorf("%s was not told", ev.Type)
		}
		if seen.Note(&ev); seen.Has(&ev) != (ev.Type != delta.Type) {
			t.Errorf("%s after it was told: %t", ev.Type, seen.Has(&ev))
		}
	}
	if seen.Has(&stopped) {
		t.Error("a run that is suspended has not come to its last end")
	}
	far := cairn.Event{Type: cairn.EventToolStart, Step: 1, CallID: "a", Origin: "far"}
	if seen.Note(&far); seen.Has(&far) || seen.Has(&cairn.Event{Type: cairn.EventToolStart, Step: 1, CallID: "a"}) {
		t.Error("a call on another server is none here, whatever its id")
	}
	other := ended
	other.CallID = "b"
	seen.Note(&cairn.Event{Type: cairn.EventStepDiscarded, Step: 1})
	if seen.Has(&ended) || seen.Has(&usage) || seen.Has(&other) || !seen.Has(&failed) {
		t.Error("what a discarded step has said is to be said again, what a run says is not")
	}
}
