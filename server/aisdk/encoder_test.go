package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
)

const turn = `
run_start r1
step_start 1
thinking Let_me
thinking _see.
thinking_end
text_delta One_moment.
tool_arg_start c1 look
tool_arg_delta c1 {"a":
tool_arg_delta c1 1}
tool_arg_start c2 locate
tool_arg_end c1 look {"a":1}
tool_arg_end c2 locate {}
tool_start c1 look {"a":1}
tool_start c2 locate {}
child text_delta never_shown
tool_end c1 look "a_tree"
custom my.progress/1 {"done":1}
usage
step_committed
tool_call_pending c2 locate {}
run_end suspended_step_partial
run_resumed r2 r1
step_start 1
tool_end c2 locate {"city":"Oslo"}
step_committed
step_start 2
text_delta Wrong
tool_arg_start c3 pay
tool_arg_end c3 pay {}
step_discarded
step_start 2
text_delta Right.
tool_arg_start c3 pay
tool_arg_end c3 pay {}
step_committed
tool_approval_request c3 pay {}
run_end suspended_client_tool
run_resumed r3 r2
step_start 1
tool_start c3 pay {}
tool_end c3 pay "no_money" error
step_committed
step_start 2
tool_arg_start c4 __finish__
tool_arg_delta c4 {}
tool_arg_end c4 __finish__ {}
step_committed
output
run_end completed`

const shown = `reasoning:Let me see.
text:One moment.
look#c1 output "a_tree"
locate#c2 output {"city":"Oslo"}
data-my.progress-1 {"done":1}
text:Right.
pay#c3 error no_money
data-output null`

// Wherever a client joins, it shows the same in the end. A client that cannot forget a discarded step is cut.
func TestJoinAnywhere(t *testing.T) {
	events := logOf(t, turn)
	for n := range len(events) + 1 {
		for _, v := range []Version{V5, V6, V7} {
			c := reducer(t)
			e := New(v, "s", TurnID("r1"))
			c.take(e.Replay(events[:n]))
			cut := false
			for i := n; i < len(events); i++ {
				if e.Taken(&events[i]) {
					if cut = true; v == V7 {
						t.Errorf("a client of version 7 that joins after %d is cut", n)
					}
					break
				}
				if frames := e.Event(&events[i]); len(frames) > 0 {
					if c.end == "[DONE]" {
						c.end = "" // the page posted, or the run was resumed
					}
					c.take(frames)
				}
			}
			got := c.String()
			if v == V5 {
				got = strings.ReplaceAll(got, "\ndata-approval {\"approvalId\":\"a-c3\",\"callId\":\"c3\",\"settled\":true,\"toolCallId\":\"c3\",\"toolName\":\"pay\"}", "")
			}
			if !cut && (got != shown || c.end != "[DONE]" || c.run != "r3") {
				t.Errorf("a client of version %d that joins after %d shows\n%s\n%s, run %s", v, n, got, c.end, c.run)
			}
		}
	}
}

// A page that has the beginning of a turn shows what follows in the same message.
func TestContinue(t *testing.T) {
	events := logOf(t, turn)
	for n := range events {
		if events[n].Type != cairn.EventRunResumed {
			continue
		}
		e := New(V6, "s", TurnID("r1"))
		e.Skip(events[:n])
		frames := e.Replay(events[n:])
		first, _, _ := strings.Cut(string(frames), "\n\n")
		if !strings.Contains(first, `"messageId":"turn_r1"`) {
			t.Errorf("it begins with %s", first)
		}
		if strings.Contains(string(frames), "One moment") {
			t.Errorf("it repeats what the page has: %s", frames)
		}
		// The call that it settles was shown before.
		if !strings.Contains(string(frames), `"toolCallId":"c3"`) || strings.Contains(string(frames), `"input":null`) {
			t.Errorf("got %s", frames)
		}
	}
}

func TestEnds(t *testing.T) {
	for end, want := range map[string]string{
		"completed":             `"finish","finishReason":"stop"`,
		"failed":                `"error","errorText":"the turn failed: max steps"`,
		"suspended_client_tool": `"finish","finishReason":"tool-calls"`,
		"interrupted":           `"abort"`,
	} {
		e := New(V6, "s", "turn_r1")
		got := string(e.Replay(logOf(t, "run_start r1\nstep_start 1\ntext_delta Hi\nrun_end "+end)))
		if !strings.Contains(got, want) || !strings.HasSuffix(got, "data: [DONE]\n\n") || strings.Contains(got, "secret") || !e.Done() {
			t.Errorf("%s: %s", end, got)
		}
	}
	e := New(V7, "s", "turn_r1")
	if got := string(e.Replay(logOf(t, "run_start r1\nstep_start 1\ntext_delta Hi\nrun_end interrupted"))); !strings.Contains(got, `"finishReason":"interrupted"`) {
		t.Errorf("got %s", got)
	}
	e = New(V6, "s", "turn_r1")
	cut := logOf(t, "run_start r1\nstep_start 1\ntext_delta Hi\nrun_end completed")
	cut[3].Reason = cairn.ReasonLength
	if got := string(e.Replay(cut)); !strings.Contains(got, `"finishReason":"length"`) {
		t.Errorf("got %s", got)
	}
	if got := string(Nothing(false)); got != "data: {\"type\":\"start\"}\n\ndata: {\"type\":\"start-step\"}\n\ndata: {\"type\":\"finish-step\"}\n\ndata: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n" {
		t.Errorf("got %s", got)
	}
}

// A turn whose last calls were answered by the server ends with an empty step, without which a client posts
// forever. A turn that is suspended on its client does not.
func TestEmptyStepAtTheEnd(t *testing.T) {
	const calls = "run_start r1\nstep_start 1\ntool_arg_start c1 look\ntool_start c1 look {}\ntool_end c1 look 1\nstep_committed\n"
	e := New(V6, "s", "turn_r1")
	if got := string(e.Replay(logOf(t, calls+"run_end completed"))); strings.Count(got, "start-step") != 2 {
		t.Errorf("got %s", got)
	}
	e = New(V6, "s", "turn_r1")
	if got := string(e.Replay(logOf(t, calls+"run_end suspended_step_partial"))); strings.Count(got, "start-step") != 1 {
		t.Errorf("got %s", got)
	}
	for _, v := range []Version{V5, V6} { // an abort alone does not keep a client from posting
		if got := string(New(v, "s", "turn_r1").Replay(logOf(t, calls+"run_end interrupted"))); strings.Count(got, "start-step") != 2 {
			t.Errorf("version %d, stopped: %s", v, got)
		}
	}
}

// A sub-agent's pending call for the user is shown. Its other activity is not.
func TestCallOfSubAgent(t *testing.T) {
	e := New(V6, "s", "turn_r1")
	c := reducer(t)
	c.take(e.Replay(logOf(t, `run_start r1
step_start 1
tool_arg_start c1 helper
tool_start c1 helper {}
child tool_start x1 look {}
child tool_approval_request x2 pay {"cents":1}
run_end suspended_awaiting_children`)))
	if got, want := c.String(), "helper#c1 input {}\npay#x2 asks a-x2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// reducer returns a client that has seen nothing.
func reducer(t *testing.T) *client {
	return &client{t: t, open: map[string]int{}, calls: map[string]int{}, asked: map[string]string{}, inputs: map[string]string{}}
}

// The words of a model call that fails its run remain, live and in a replay. Those of an attempt that is repeated do
// not, nor do those of a run that is retried.
func TestWordsOfAFailedCallRemain(t *testing.T) {
	const failed = `run_start r1
step_start 1
text_delta Once_upon
step_discarded
error
run_end failed`
	const retried = `
run_resumed r2 r1
step_start 1
text_delta Right.
step_committed
run_end completed`
	for _, v := range []Version{V5, V6, V7} {
		live, late := reducer(t), reducer(t)
		events := logOf(t, failed)
		e := New(v, "s", "turn_r1")
		for i := range events {
			if e.Taken(&events[i]) {
				t.Errorf("version %d: the connection is cut", v)
			}
			live.take(e.Event(&events[i]))
		}
		late.take(New(v, "s", "turn_r1").Replay(events))
		for _, c := range []*client{live, late} {
			if got := c.String(); got != "text:Once upon" || c.end != "[DONE]" {
				t.Errorf("version %d shows %q, %s", v, got, c.end)
			}
		}
		again := reducer(t)
		again.take(New(v, "s", "turn_r1").Replay(logOf(t, failed+retried)))
		if got := again.String(); got != "text:Right." {
			t.Errorf("version %d, retried: %q", v, got)
		}
	}
}

// A repeated attempt takes back the words of the one before it: a client of version 7 is notified when the next attempt
// begins, an older one is cut then.
func TestRepeatedAttempt(t *testing.T) {
	events := logOf(t, "run_start r1\nstep_start 1\ntext_delta Wrong\nstep_discarded\nstep_start 1\ntext_delta Right.\nstep_committed\nrun_end completed")
	for _, v := range []Version{V5, V6, V7} {
		e, c, cut := New(v, "s", "turn_r1"), reducer(t), 0
		for i := range events {
			if e.Taken(&events[i]) {
				cut = i
				break
			}
			c.take(e.Event(&events[i]))
		}
		if v == V7 && (cut != 0 || c.String() != "text:Right.") || v < V7 && cut != 4 {
			t.Errorf("version %d is cut at %d and shows %q", v, cut, c)
		}
	}
}

const decided = `run_start r1
step_start 1
tool_arg_start c1 pay
tool_arg_end c1 pay {"cents":100}
tool_arg_start c2 pay
tool_arg_end c2 pay {"cents":1}
step_committed
tool_approval_request c1 pay {"cents":100}
tool_approval_request c2 pay {"cents":1}
run_end suspended_client_tool
run_resumed r2 r1
step_start 1
tool_start c1 pay {"cents":50} edited
tool_end c1 pay "paid"
tool_end c2 pay "no" denied
step_committed
step_start 2
text_delta Done.
step_committed
run_end completed`

// Wherever a client joins, a denied call is shown as denied, and an approved one with the input that its tool ran with.
func TestDecisions(t *testing.T) {
	events := logOf(t, decided)
	for _, v := range []Version{V6, V7} {
		for n := range len(events) + 1 {
			e, c := New(v, "s", "turn_r1"), reducer(t)
			c.take(e.Replay(events[:n]))
			if n > 13 && n < 16 && strings.Contains(c.String(), "c1 asks") {
				t.Errorf("version %d, joined after %d: the running call is shown as undecided", v, n)
			}
			for i := n; i < len(events); i++ {
				if frames := e.Event(&events[i]); len(frames) > 0 {
					c.end = ""
					c.take(frames)
				}
			}
			if got, want := c.String(), "pay#c1 output \"paid\"\npay#c2 denied\ntext:Done."; got != want {
				t.Errorf("version %d, joined after %d:\n%s", v, n, got)
			}
			if got := c.inputs["c1"]; got != `{"cents":50}` {
				t.Errorf("version %d, joined after %d: the input is %s", v, n, got)
			}
		}
	}
	e := New(V6, "s", "turn_r1")
	e.Skip(events[:10])
	got := string(e.Replay(events[10:]))
	if strings.Count(got, "start-step") != 1 {
		t.Errorf("the results of a suspended step are in another step: %s", got)
	}
}

const questions = `run_start r1
step_start 1
tool_arg_start c1 book
tool_start c1 book {}
step_committed
question q1 c1 book Which_day?
run_end suspended_client_tool
run_resumed r2 r1
step_start 1
question q2 c1 book Which_room?
run_end suspended_client_tool
run_resumed r3 r2
step_start 1
tool_end c1 book "booked"
step_committed
run_end completed`

// A tool's question is a data part. It is settled when the tool asks the next one or ends. Activity of an agent on
// another server is in no message, even if one of its calls has the id of a local one.
func TestWorkOnAnotherServer(t *testing.T) {
	t.Parallel()
	far := func(kind cairn.EventType) cairn.Event {
		return cairn.Event{Type: kind, SessionID: "s", RunID: "r", Step: 1, CallID: "c", Tool: "look", Name: "n", Data: json.RawMessage(`"far"`), Origin: "far"}
	}
	own := []cairn.Event{
		{Type: cairn.EventRunStart, SessionID: "s", RunID: "r"},
		{Type: cairn.EventStepStart, SessionID: "s", RunID: "r", Step: 1},
		{Type: cairn.EventToolArgStart, SessionID: "s", RunID: "r", Step: 1, CallID: "c", Tool: "pay"},
		{Type: cairn.EventToolApproval, SessionID: "s", RunID: "r", Step: 1, CallID: "c", Tool: "pay", ApprovalID: "a", Data: json.RawMessage(`{}`)},
	}
	with := append(slices.Clone(own), far(cairn.EventToolStart), far(cairn.EventCustom), far(cairn.EventToolEnd))
	for _, v := range []Version{V5, V6, V7} {
		want, got := New(v, "s", "t").Replay(own), New(v, "s", "t").Replay(with)
		if string(got) != string(want) {
			t.Errorf("version %v shows\n%s\nwant\n%s", v, got, want)
		}
	}
}

func TestQuestions(t *testing.T) {
	events := logOf(t, questions)
	const want = `book#c1 output "booked"
data-question {"callId":"q1","prompt":"Which day?","settled":true,"toolCallId":"c1","toolName":"book"}
data-question {"callId":"q2","prompt":"Which room?","settled":true,"toolCallId":"c1","toolName":"book"}`
	for n := range len(events) + 1 {
		c := reducer(t)
		e := New(V6, "s", "turn_r1")
		c.take(e.Replay(events[:n]))
		for i := n; i < len(events); i++ {
			if frames := e.Event(&events[i]); len(frames) > 0 {
				c.end = ""
				c.take(frames)
			}
		}
		if got := c.String(); got != want {
			t.Errorf("a client that joins after %d shows\n%s", n, got)
		}
	}
}

// Sources are shown behind the text that cites them, without interrupting it. They have the same ids in the stream,
// in that of a trimmed turn, and in the history.
func TestSources(t *testing.T) {
	const cited = `text:Grass is green and high.
source-url source-1 https://a.example/1 A page
source-url source-2 https://a.example/2 A page
source-document source-3  A page`
	events := logOf(t, `run_start r1
step_start 1
text_delta Grass_is
sources https://a.example/dead
step_discarded
step_start 1
text_delta Grass_is_green
sources https://a.example/1 https://a.example/2
text_delta _and_high.
sources javascript:alert(1)
step_committed
run_end completed`)
	for _, v := range []Version{V6, V7} {
		c := reducer(t)
		e := New(v, "s", "turn_r1")
		live := 0
		if v >= V7 {
			live = len(events)
		}
		c.take(e.Replay(events[:len(events)-live]))
		for i := len(events) - live; i < len(events); i++ {
			c.take(e.Event(&events[i]))
		}
		if got := c.String(); got != cited {
			t.Errorf("version %d: got\n%s\nwant\n%s", v, got, cited)
		}
	}
	page := func(url string) cairn.Source { return cairn.Source{URL: url, Title: "A page", Quote: "it is so"} }
	reply := cairn.Message{ID: "r1/1/reply", RunID: "r1", Role: cairn.RoleAssistant, Parts: []cairn.Part{
		{Type: cairn.PartText, Text: "Grass is green", Sources: []cairn.Source{page("https://a.example/1"), page("https://a.example/2")}},
		{Type: cairn.PartText, Text: " and high."}, {Type: cairn.PartProvider, Sources: []cairn.Source{page("javascript:alert(1)")}}}}
	runs := []cairn.Run{{ID: "r1", Status: cairn.RunCompleted}}
	trimmed := reducer(t)
	trimmed.take(New(V6, "s", "turn_r1").Replay(Events("s", runs, 0, []cairn.Message{reply}, nil)))
	if got := trimmed.String(); got != cited {
		t.Errorf("of the transcript: got\n%s\nwant\n%s", got, cited)
	}
	var lines []string
	for _, p := range Messages(V6, &cairn.Session{ID: "s", RunID: "r1"}, []cairn.Message{reply}, "", nil, nil, runs, nil)[0].Parts {
		switch {
		case p.Type == "text":
			lines = append(lines, "text:"+p.Text)
		case p.SourceID != "":
			lines = append(lines, p.Type+" "+p.SourceID+" "+p.URL+" "+p.Title)
			if string(p.ProviderMetadata) != `{"cairn":{"quote":"it is so"}}` {
				t.Errorf("the quote is in %s", p.ProviderMetadata)
			}
		}
	}
	if got := strings.Join(lines, "\n"); got != cited {
		t.Errorf("the history: got\n%s\nwant\n%s", got, cited)
	}
}

// The files of a reply are shown once they can be read, at the same addresses in the stream, in that of a trimmed
// turn, and in the history. An address that a model made up is a link only if it is a web address.
func TestFiles(t *testing.T) {
	const wanted = `text:Here they are.
file /s/1/m/0 image/png
file https://a.example/b.png image/png
file about:blank image/png
file /s/1/m/3 image/png`
	events := logOf(t, `run_start r1
step_start 1
text_delta Here_they_are.
files 1 a https://a.example/b.png javascript:alert(1) d
step_committed
run_end completed`)
	address := func(session string, index int, id string, n int) string {
		return fmt.Sprintf("/%s/%d/%s/%d", session, index, id, n)
	}
	replayed := func(events []cairn.Event) string {
		c := reducer(t)
		e := New(V6, "s", "turn_r1")
		e.Address = address
		c.take(e.Replay(events))
		return c.String()
	}
	if got := replayed(events); got != wanted {
		t.Errorf("got\n%s\nwant\n%s", got, wanted)
	}
	picture := func(f cairn.File) cairn.Part {
		f.MediaType = "image/png"
		return cairn.FilePart(f)
	}
	hidden := cairn.Message{ID: "h", RunID: "r1", Role: cairn.RoleUser, Hidden: true, Parts: []cairn.Part{picture(cairn.File{Data: []byte("no")})}}
	reply := cairn.Message{ID: "m", RunID: "r1", Role: cairn.RoleAssistant, Parts: []cairn.Part{
		{Type: cairn.PartProvider, Provider: json.RawMessage("{}")}, cairn.TextPart("Here they are."), picture(cairn.File{Data: []byte("a")}),
		picture(cairn.File{URL: "https://a.example/b.png"}), picture(cairn.File{URL: "javascript:alert(1)"}), picture(cairn.File{Data: []byte("d")})}}
	list, runs := []cairn.Message{hidden, reply}, []cairn.Run{{ID: "r1", Status: cairn.RunCompleted}}
	if got := replayed(Events("s", runs, 0, list, nil)); got != wanted {
		t.Errorf("of the transcript: got\n%s\nwant\n%s", got, wanted)
	}
	shown := func(address Address) (lines []string) {
		for _, p := range Messages(V6, &cairn.Session{ID: "s", RunID: "r1"}, list, "", nil, nil, runs, address)[0].Parts {
			switch p.Type {
			case "text":
				lines = append(lines, "text:"+p.Text)
			case "file":
				lines = append(lines, p.Type+" "+p.URL+" "+p.MediaType)
			}
		}
		return lines
	}
	if got := strings.Join(shown(address), "\n"); got != wanted {
		t.Errorf("the history: got\n%s\nwant\n%s", got, wanted)
	}
	if got := shown(nil)[1]; got != "file data:image/png;base64,YQ== image/png" {
		t.Errorf("without addresses: %s", got)
	}
}

// hostile returns a log that no engine would write, with an event for each byte.
func hostile(text []byte) []cairn.Event {
	types := []cairn.EventType{cairn.EventRunStart, cairn.EventStepStart, cairn.EventTextDelta, cairn.EventThinking, cairn.EventThinkingEnd,
		cairn.EventToolArgStart, cairn.EventToolArgDelta, cairn.EventToolArgEnd, cairn.EventToolStart, cairn.EventToolEnd,
		cairn.EventToolApproval, cairn.EventToolPending, cairn.EventStepDiscarded, cairn.EventStepCommitted, cairn.EventCustom,
		cairn.EventRunResumed, cairn.EventRunEnd, cairn.EventUserMessage, cairn.EventOutput, cairn.EventError, cairn.EventUsage, cairn.EventSources, cairn.EventFiles}
	ends := []cairn.RunStatus{cairn.RunCompleted, cairn.RunFailed, cairn.RunInterrupted, cairn.RunSuspended, "later"}
	var events []cairn.Event
	for i, b := range text {
		ev := cairn.Event{Type: types[int(b)%len(types)], SessionID: "s", RunID: "r", Step: int(b) / 64, Text: string(text[i:min(len(text), i+3)]),
			CallID: fmt.Sprint("c", b%3), Tool: "look", Name: string(text[max(0, i-8):i]), Status: ends[int(b)%len(ends)]}
		switch {
		case b%5 == 0:
			ev.Data = json.RawMessage(`{"a":"b"}`)
		case b%7 == 0:
			ev.Files = []cairn.FileRef{{Name: "f", MediaType: "image/png", URL: "https://example.com/f.png"}, {MediaType: "text/plain"}}
		case b%13 == 0:
			ev.Sources = []cairn.Source{{URL: "https://example.com/a", Title: "A", Quote: "so"}, {URL: "javascript:x"}, {Title: "B"}, {}}
		case b%11 == 0:
			ev.ToolCallID, ev.Prompt, ev.Payload = "c0", "Which?", json.RawMessage("null")
		}
		if b == 200 {
			ev.SessionID = "child"
		}
		events = append(events, ev)
	}
	return events
}

// A hostile log is encoded as well-formed chunks, or none.
func FuzzEncoder(f *testing.F) {
	f.Add([]byte(turn), 3)
	f.Fuzz(func(t *testing.T, text []byte, v int) {
		events := hostile(text[:min(len(text), 300)])
		c := reducer(t)
		e := New(Version(5+((v%3)+3)%3), "s", "turn_r")
		c.take(e.Replay(events[:len(events)/2]))
		for i := len(events) / 2; i < len(events); i++ {
			if e.Taken(&events[i]) {
				return
			}
			if c.end == "[DONE]" {
				c.end = ""
			}
			c.take(e.Event(&events[i]))
		}
	})
}

// Each chunk is valid for the client of its version, by that client's own schema.
func TestChunksAreValid(t *testing.T) {
	logs := [][]cairn.Event{logOf(t, turn), logOf(t, questions)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		text := make([]byte, 40)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		logs = append(logs, hostile(text))
	}
	for _, v := range []Version{V5, V6, V7} {
		t.Run(fmt.Sprint(int(v)), func(t *testing.T) {
			t.Parallel()
			var chunks bytes.Buffer
			chunk := func(frames []byte) {
				for line := range strings.Lines(string(frames)) {
					if body, ok := strings.CutPrefix(line, "data: {"); ok {
						chunks.WriteString("{" + body)
					}
				}
			}
			chunk(Nothing(true))
			chunk(Nothing(false))
			for _, events := range logs {
				half := len(events) / 2
				e := New(v, "s", "turn_r")
				chunk(e.Replay(events[:half]))
				for i := half; i < len(events); i++ {
					chunk(e.Event(&events[i]))
				}
			}
			file := filepath.Join(t.TempDir(), "chunks")
			if err := os.WriteFile(file, chunks.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if refused := testenv.Node(t, "testdata/validate.mjs", fmt.Sprint(int(v)), file); len(refused) > 0 {
				t.Errorf("refused are\n%.2000s", refused)
			}
		})
	}
}

// However a turn ends, its message has its status and its usage.
func TestEndsSayWhatWasUsed(t *testing.T) {
	for _, v := range []Version{V5, V6, V7} {
		for _, status := range []cairn.RunStatus{cairn.RunCompleted, cairn.RunFailed, cairn.RunInterrupted, cairn.RunSuspended} {
			out := string(New(v, "s", "t").Replay([]cairn.Event{
				{Type: cairn.EventRunStart, SessionID: "s", RunID: "r"},
				{Type: cairn.EventRunEnd, SessionID: "s", RunID: "r", Status: status, Usage: &cairn.Usage{InputTokens: 7, CostNanos: 9}},
			}))
			if want := `"messageMetadata":{"status":"` + string(status) + `","usage":{"input_tokens":7,`; !strings.Contains(out, want) || !strings.Contains(out, `"cost_nanos":9`) {
				t.Errorf("version %d, %s: %s", v, status, out)
			}
		}
	}
}
