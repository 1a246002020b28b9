package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/store/driver"
)

// recorded stores a session with messages that no run of this process has written.
func (w *world) recorded(id string, messages []cairn.Message) {
	w.t.Helper()
	_, err := w.st.Commit(w.t.Context(), id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: "bot", UserID: "alice"},
		InitialState: json.RawMessage(`{}`), Messages: messages, Status: cairn.SessionCompleted})
	if err != nil {
		w.t.Fatal(err)
	}
}

// calling returns a turn of a number of calls, as messages with ids that begin with its run: the question, each call with its
// result, a hidden message behind each, and the answer.
func calling(run string, calls int) (list []cairn.Message) {
	add := func(m cairn.Message) {
		m.ID, m.RunID = fmt.Sprintf("%s-%d", run, len(list)), run
		list = append(list, m)
	}
	add(cairn.Message{Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("Find " + run)}})
	for n := range calls {
		call := fmt.Sprintf("%s-call-%d", run, n)
		add(cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: call, Tool: "look", Input: json.RawMessage(`{"in":"the Box"}`)}}}})
		add(cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: call, Tool: "look", Output: json.RawMessage(`"a secret of ours"`), IsError: true, Code: cairn.ErrTool, Private: true}}}})
		add(cairn.Message{Role: cairn.RoleUser, Hidden: true, Parts: []cairn.Part{cairn.TextPart("a hidden note")}})
	}
	add(cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("It is in the box.")}})
	return list
}

// outlineOf reads all outlines of a session.
func (w *world) outlineOf(id, query string) (items []turnPart) {
	w.t.Helper()
	for next, more := 0, true; more; {
		page := want[turnsBody](w, 200, "a", "GET", fmt.Sprintf("/sessions/%s/turns?from=%d%s", id, next, query), nil)
		items, next, more = append(items, page.Items...), page.Next, page.HasMore
	}
	return items
}

// The outline of a long transcript names every turn once, divides long ones between calls, and counts what a chat shows.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	var messages []cairn.Message
	for n := range 700 {
		messages = append(messages, calling(fmt.Sprint("run-", n), 1)...)
	}
	messages = append(messages, calling("long", 100)...)
	w.recorded("s", messages)

	items := w.outlineOf("s", "")
	turns := slices.DeleteFunc(slices.Clone(items), func(p turnPart) bool { return p.Continues })
	if len(turns) != 701 {
		t.Fatalf("%d turns", len(turns))
	}
	for i, p := range items {
		m := &messages[p.Index]
		if m.ID != p.MessageID || m.RunID != p.RunID || m.Hidden || m.Role == cairn.RoleTool {
			t.Errorf("item %d is %+v, of the message %+v", i, p, m)
		}
		if i+1 < len(items) && items[i+1].Index-p.Index > partSize+3 {
			t.Errorf("item %d ends at %d and begins at %d", i, items[i+1].Index, p.Index)
		}
	}
	if cut := w.outlineOf("s", "&to=10"); len(cut) != 2 || cut[1] != items[1] {
		t.Errorf("up to message 10 there are %+v", cut)
	}
	if rest := want[turnsBody](w, 200, "a", "GET", "/sessions/s/turns?from=6", nil).Items[0]; !rest.Continues || rest.RunID != "run-1" {
		t.Errorf("the outline from within a turn begins with %+v", rest)
	}
	for query, places := range map[string]int{"&search=THE+BOX": 2*700 + 101, "&search=find+run-69": 11, "&search=hidden": 0, "&search=secret": 0, "&message_id=long-301": 1, "&message_id=none": 0} {
		n := 0
		for _, p := range w.outlineOf("s", query) {
			n += p.Places
		}
		if n != places {
			t.Errorf("%s has %d places, want %d", query, n, places)
		}
	}
	for query, field := range map[string]string{"from=-1": "from", "to=-1": "to", "search=a&message_id=b": "message_id", "search=" + strings.Repeat("x", maxSearch+1): "search"} {
		if _, data := w.do("a", "GET", "/sessions/s/turns?"+query, nil); !strings.Contains(string(data), `"field":"`+field+`"`) {
			t.Errorf("%.30s: %s", query, data)
		}
	}
	want[problemBody](w, 404, "e", "GET", "/sessions/s/turns", nil)
}

// A resumed turn is one turn.
func TestTurnsOfResumedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	w.post(200, "a", "s", nil, text("user", "m0", "pay"))
	call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
	want[cairn.Receipt](w, 200, "a", "POST", "/submit-tool-result", map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
	want[client.Started](w, 202, "a", "POST", "/resume?session_id=s", nil)
	w.settled("s")
	w.post(200, "a", "s", nil, text("user", "m1", "hi"))
	if items := w.outlineOf("s", ""); len(items) != 2 || items[0].MessageID != "m0" || items[1].MessageID != "m1" {
		t.Errorf("the turns are %+v", items)
	}
}

// A snapshot of the end begins with a call rather than with its result.
func TestSnapshotOfEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	messages := calling("run", 20) // 62 messages
	w.recorded("s", messages)
	for last, offset := range map[int]int{0: 0, 1: 61, 2: 60, 3: 58, 4: 58, 5: 57, 100: 0} {
		got := want[client.SessionSnapshot](w, 200, "a", "GET", fmt.Sprint("/sessions/s/snapshot?last=", last), nil)
		if got.Offset != offset || got.Messages[len(got.Messages)-1].ID != "run-61" || got.Session.MessageCount != 62 {
			t.Errorf("last %d: from %d on, %d messages", last, got.Offset, len(got.Messages))
		}
	}
	want[problemBody](w, 400, "a", "GET", "/sessions/s/snapshot?last=-1", nil)
}
