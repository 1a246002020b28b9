package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/store"
)

// page is the final content of a page with the real client.
type htmlPage struct {
	Status   string         `json:"status"`
	Messages []shownMessage `json:"messages"`
	Errors   []string       `json:"errors"`
	Posts    int            `json:"posts"`
	ToolRuns int            `json:"toolRuns"`
	Ends     []string       `json:"ends"`
}

// shownMessage is a message with its complete metadata. Clients send only a part of it back.
type shownMessage struct {
	aisdk.Message
	All map[string]any `json:"metadata"`
}

// metadata lists the metadata of the page's messages.
func (p *htmlPage) metadata() (list []map[string]any) {
	for i := range p.Messages {
		list = append(list, p.Messages[i].All)
	}
	return list
}

// ended reports whether the last metadata says how a turn ended, and what it used.
func ended(list []map[string]any) bool {
	last := list[len(list)-1]
	return last["run_id"] != nil && last["status"] != nil && last["usage"] != nil
}

// String formats the page, with a line for each message.
func (p *htmlPage) String() string {
	var b strings.Builder
	for _, m := range p.Messages {
		b.WriteString(m.Role + ":")
		for _, part := range m.Parts {
			switch {
			case part.Type == "text":
				fmt.Fprintf(&b, " %q", part.Text)
			case part.Type == "reasoning":
				fmt.Fprintf(&b, " (%s)", part.Text)
			case part.CallID != "":
				fmt.Fprintf(&b, " %s(%s) %s", strings.TrimPrefix(part.Type, "tool-"), part.Input, part.State)
				if len(part.Output) > 0 {
					fmt.Fprintf(&b, " %s", part.Output)
				}
				if part.ErrorText != "" {
					fmt.Fprintf(&b, " %q", part.ErrorText)
				}
			case part.Type == "data-question":
				var q struct {
					Prompt  string
					Settled bool
				}
				if err := json.Unmarshal(part.Data, &q); err != nil {
					panic(err)
				}
				if !q.Settled {
					fmt.Fprintf(&b, " %s", q.Prompt)
				}
			case part.Type == "steering-message":
				fmt.Fprintf(&b, " [%s]", part.Parts[0].Text)
			case part.Type == "data-steering":
				var m aisdk.Part
				if err := json.Unmarshal(part.Data, &m); err != nil {
					panic(err)
				}
				fmt.Fprintf(&b, " [%s]", m.Parts[0].Text)
			case part.Type == "file":
				path, _, _ := strings.Cut(part.URL, "?")
				b.WriteString(" " + part.MediaType + " at " + path)
			case part.Type != "step-start":
				b.WriteString(" " + part.Type)
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s, %d posts", p.Status, p.Posts)
	if len(p.Errors) > 0 {
		fmt.Fprintf(&b, ", errors %v", p.Errors)
	}
	return b.String()
}

// files lists the addresses of the files that the page shows.
func (p *htmlPage) files() (list []string) {
	for i := range p.Messages {
		for _, part := range p.Messages[i].Parts {
			if part.Type == "file" {
				list = append(list, part.URL)
			}
		}
	}
	return list
}

// visit is a sequence of actions on a page.
type visit struct {
	Chat string   `json:"chat"`
	Todo []string `json:"todo"`
}

// browse performs visits, one after the other, with pages of a major version of the client.
func (w *world) browse(major int, visits []visit) []htmlPage {
	w.t.Helper()
	return browse(w.t, major, w.url, visits)
}

// browse performs visits of the server at an address.
func browse(t *testing.T, major int, url string, visits []visit) []htmlPage {
	t.Helper()
	list, err := json.Marshal(visits)
	if err != nil {
		t.Fatal(err)
	}
	out := testenv.Node(t, "testdata/client.mjs", fmt.Sprint(major), url, "a", string(list))
	var pages []htmlPage
	if err := json.Unmarshal(out, &pages); err != nil || len(pages) != len(visits) {
		t.Fatalf("%v: %s", err, out)
	}
	return pages
}

// gates are where models pause, by name. All open when the test ends.
type gates struct {
	t    *testing.T
	mu   sync.Mutex
	list map[string]gate
}

// gate is open once its context is done.
type gate struct {
	closed context.Context
	open   context.CancelFunc
}

func newGates(t *testing.T) *gates { return &gates{t: t, list: map[string]gate{}} }

func (g *gates) named(name string) gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.list[name]
	if !ok {
		one.closed, one.open = context.WithCancel(g.t.Context())
		g.list[name] = one
	}
	return one
}

func (g *gates) of(name string) <-chan struct{} { return g.named(name).closed.Done() }

// release opens the gate that a request names.
func (g *gates) release(_ http.ResponseWriter, r *http.Request) { g.named(r.FormValue("what")).open() }

// chatWorld is a server whose agent has a tool of the browser's, one that needs an approval, and one of its own. If
// the agent is to speak slowly, it pauses until its client gets /release.
func chatWorld(t *testing.T) *world {
	t.Helper()
	type none struct{}
	tools := []cairn.Tool{
		cairn.ClientTool[none, map[string]string]("locate", "Where the user is."),
		cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, none) (string, error) { return "a tree", nil }),
		cairn.Func("pay", "Pays.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
			return fmt.Sprintf("paid %d", in.Cents), nil
		}, cairn.RequireApproval()),
		cairn.Func("book", "Books.", func(ctx context.Context, call *cairn.Call, _ none) (string, error) {
			var day string
			if err := call.Ask(ctx, "Which day?", nil, &day); err != nil {
				return "", err
			}
			return "booked for " + day, nil
		}),
	}
	gates := newGates(t)
	gate := gates.of
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		switch said := last.Text(); {
		case last.Role == cairn.RoleTool:
			return scripted.Text("That is that.")
		case strings.Contains(said, "where"):
			return scripted.Call("locate", none{})
		case strings.Contains(said, "draw"):
			picture := scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{MediaType: "image/png", Data: []byte("a tree")}})
			return scripted.Reply(scripted.Text("Here it is."), picture)
		case strings.Contains(said, "book"):
			return scripted.Call("book", none{})
		case strings.Contains(said, "slowly look"):
			return scripted.Reply(scripted.Text("Let me see."), scripted.Gate(gate(said)), scripted.Call("look", none{}))
		case strings.Contains(said, "look"):
			return scripted.Call("look", none{})
		case strings.Contains(said, "pay"):
			return scripted.Reply(scripted.Text("Let me pay. "), scripted.Call("pay", payment{100}))
		case strings.Contains(said, "slowly"):
			return scripted.Reply(scripted.Thinking("Hm."), scripted.Text("Once upon a time."), scripted.Gate(gate(said)), scripted.Text(" The end."))
		}
		return scripted.Text("Hello.")
	})
	w := newWorldOf(t, &Options{RequestsPerMinute: -1}, &cairn.Agent{Name: "bot", Model: model, Tools: tools})
	w.aside.HandleFunc("GET /release", gates.release)
	w.aside.HandleFunc("GET /trim", func(_ http.ResponseWriter, r *http.Request) { w.trim(r.FormValue("id"), r.FormValue("runs")) })
	return w
}

// trim removes the events of a session's runs from the log: of all, or of all but the last.
func (w *world) trim(session, runs string) {
	ctx := context.Background()
	row, err := w.eng.Session(ctx, session)
	if err != nil {
		w.t.Error(err)
		return
	}
	before := row.LogSequence + 1
	if runs == "former" {
		last, err := w.eng.Runs(ctx, session, store.PageQuery{Newest: true, Limit: 1})
		if err != nil {
			w.t.Error(err)
			return
		}
		before = last.Items[0].StartSequence + 1
	}
	if err := w.st.EventLog().Trim(ctx, row.Log(), before); err != nil {
		w.t.Error(err)
	}
}

// Pages of each major version of the real client show what turns say and do, and send no more than they should. A
// page that is loaded later shows the same.
func TestRealClients(t *testing.T) {
	tests := []struct {
		name  string
		since int // first version that supports it
		todo  []string
		want  string
	}{
		{"text", 5, []string{"say=hi", "say=hi"}, `
user: "hi"
assistant: "Hello."
user: "hi"
assistant: "Hello."
ready, 2 posts`},
		{"tool", 5, []string{"say=look"}, `
user: "look"
assistant: look({}) output-available "a tree" "That is that."
ready, 1 posts`},
		{"tool of the page's", 5, []string{"say=where"}, `
user: "where"
assistant: locate({}) output-available {"city":"Oslo"} "That is that."
ready, 2 posts`},
		{"approval", 6, []string{"say=pay", "approve"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-available "paid 100" "That is that."
ready, 2 posts`},
		{"approval after a reload", 6, []string{"say=pay", "reload", "idle", "approve"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-available "paid 100" "That is that."
ready, 2 posts`},
		{"denial", 6, []string{"say=pay", "deny=no"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-denied "That is that."
ready, 2 posts`},
		{"no decision", 6, []string{"say=pay"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) approval-requested
ready, 1 posts`},
		{"question", 5, []string{"say=book"}, `
user: "book"
assistant: book({}) input-available Which day?
ready, 1 posts`},
		{"answer", 5, []string{"say=book", "answer=monday"}, `
user: "book"
assistant: book({}) output-available "booked for monday" "That is that."
ready, 2 posts`},
		{"answer that a worker was faster with", 5, []string{"say=book", "worker", "answer=monday"}, `
user: "book"
assistant: book({}) output-available "booked for monday" "That is that."
ready, 2 posts`},
		{"answer after a reload", 5, []string{"say=book", "reload", "idle", "answer=monday"}, `
user: "book"
assistant: book({}) output-available "booked for monday" "That is that."
ready, 2 posts`},
		{"another answer", 5, []string{"say=hi", "say=look", "regenerate"}, `
user: "hi"
assistant: "Hello."
user: "look"
assistant: look({}) output-available "a tree" "That is that."
ready, 3 posts`},
		{"an edited message", 5, []string{"say=hi", "say=look", "edit=look again"}, `
user: "look again"
assistant: look({}) output-available "a tree" "That is that."
ready, 3 posts`},
		{"an edited message after a reload", 6, []string{"say=pay", "reload", "idle", "edit=hi"}, `
user: "hi"
assistant: "Hello."
ready, 2 posts`},
		{"stop in the middle", 5, []string{"ask=slowly", "until=Once", "interrupt", "idle", "say=hi"}, `
user: "slowly"
assistant: (Hm.) "Once upon a time."
user: "hi"
assistant: "Hello."
ready, 2 posts`},
		{"a stopped turn, trimmed, posted again", 5, []string{"ask=slowly", "until=Once", "interrupt", "idle", "trim=all", "again"}, `
user: "slowly"
assistant: (Hm.) "Once upon a time."
ready, 2 posts`},
		{"steering", 5, []string{"ask=slowly look, steered", "until=Let", "steer=faster", "release=slowly look, steered", "idle"}, `
user: "slowly look, steered"
assistant: "Let me see." look({}) output-available "a tree" [faster] "Hello."
ready, 1 posts`},
		{"steering of a page that is reloaded", 5, []string{"ask=slowly look, reloaded", "until=Let", "steer=faster", "reload", "until=Let", "release=slowly look, reloaded", "idle"}, `
user: "slowly look, reloaded"
assistant: "Let me see." look({}) output-available "a tree" [faster] "Hello."
ready, 1 posts`},
		{"a steered turn, trimmed, posted again", 5, []string{"ask=slowly look, trimmed", "until=Let", "steer=faster", "release=slowly look, trimmed", "idle", "trim=all", "again"}, `
user: "slowly look, trimmed"
assistant: "Let me see." look({}) output-available "a tree" [faster] "Hello."
ready, 2 posts`},
		{"reload in the middle", 5, []string{"ask=slowly", "until=Once", "reload", "until=Once", "release=slowly"}, `
user: "slowly"
assistant: (Hm.) "Once upon a time. The end."
ready, 1 posts`},
		{"picture", 5, []string{"say=draw"}, `
user: "draw"
assistant: "Here it is." image/png at /sessions/picture/messages/1/files/0
ready, 1 posts`},
		{"drawing", 5, []string{"say=draw", "trim=all", "again"}, `
user: "draw"
assistant: "Here it is." image/png at /sessions/drawing/messages/1/files/0
ready, 2 posts`},
		{"text, posted again", 5, []string{"say=hi", "again"}, `
user: "hi"
assistant: "Hello."
ready, 2 posts`},
		{"text, trimmed, posted again", 5, []string{"say=hi", "trim=all", "again"}, `
user: "hi"
assistant: "Hello."
ready, 2 posts`},
		{"tool, trimmed, posted again", 5, []string{"say=look", "trim=all", "again"}, `
user: "look"
assistant: look({}) output-available "a tree" "That is that."
ready, 2 posts`},
		{"approval, trimmed, posted again", 6, []string{"say=pay", "approve", "trim=all", "again"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-available "paid 100" "That is that."
ready, 3 posts`},
		{"approval, half of it trimmed, posted again", 6, []string{"say=pay", "approve", "trim=former", "again"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-available "paid 100" "That is that."
ready, 3 posts`},
		{"denial, trimmed, posted again", 6, []string{"say=pay", "deny=no", "trim=all", "again"}, `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-denied "That is that."
ready, 3 posts`},
		{"tool of the page's, half of it trimmed, posted again", 5, []string{"say=where", "trim=former", "again"}, `
user: "where"
assistant: locate({}) output-available {"city":"Oslo"} "That is that."
ready, 3 posts`},
	}
	for _, major := range []int{5, 6, 7} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			var visits []visit
			for _, test := range tests {
				if major >= test.since {
					visits = append(visits, visit{test.name, test.todo}, visit{test.name, []string{"reload"}})
				}
			}
			w := chatWorld(t)
			pages := w.browse(major, visits)
			for _, test := range tests {
				if major < test.since {
					continue
				}
				first, again := &pages[0], &pages[1]
				pages = pages[2:]
				if got, want := first.String(), strings.TrimPrefix(test.want, "\n"); got != want {
					t.Errorf("%s: the page shows\n%s\nwant\n%s", test.name, got, want)
				}
				if runs := first.ToolRuns + again.ToolRuns; runs > 1 {
					t.Errorf("%s: the page's tool ran %d times", test.name, runs)
				}
				for _, file := range append(first.files(), again.files()...) { // an image of the page has no credentials
					if res, data := w.do("", "GET", file, nil); res.StatusCode != 200 || string(data) != "a tree" {
						t.Errorf("%s: %s: status %d: %s", test.name, file, res.StatusCode, data)
					}
				}
				if first.Posts, again.Posts = 0, 0; again.String() != first.String() {
					t.Errorf("%s: a page that is loaded later shows\n%s\nnot\n%s", test.name, again, first)
				}
				if live, later := first.metadata(), again.metadata(); !reflect.DeepEqual(live, later) || !ended(live) {
					t.Errorf("%s: the messages have the metadata %v, after a reload %v", test.name, live, later)
				}
			}
		})
	}
}

// A post resumes only a turn that waits and has its answers. Pages post by themselves after a stop, and a tab that was
// left open posts decisions about calls that are closed.
func TestPostsDoNotRestartStoppedTurns(t *testing.T) {
	post := func(w *world, session string, m any) string {
		res, data := w.do("a", "POST", "/chat", map[string]any{"id": session, "trigger": "submit-message", "messages": []any{m}})
		if res.StatusCode != 200 {
			t.Errorf("status %d: %s", res.StatusCode, data)
		}
		return string(data)
	}
	shown := func(w *world, session string) *chatBody {
		chat := want[chatBody](w, 200, "a", "GET", "/chat/"+session, nil)
		return &chat
	}
	for name, test := range map[string]struct {
		said string
		stop func(w *world, m *aisdk.Message)
	}{
		"an approval of a turn that was stopped": {"pay", func(w *world, m *aisdk.Message) {
			want[cairn.Session](w, 200, "a", "POST", "/chat/s/interrupt", none{})
			approve(m)
		}},
		"a stopped turn without anything to decide": {"pay", func(w *world, m *aisdk.Message) {
			want[cairn.Session](w, 200, "a", "POST", "/chat/s/interrupt", none{})
			*m = shown(w, "s").Messages[1]
		}},
		"an approval of a turn that was aborted": {"pay", func(w *world, m *aisdk.Message) {
			want[cairn.Session](w, 200, "a", "POST", "/chat/s/abort", none{})
			approve(m)
		}},
		"an approval of an earlier turn": {"pay", func(w *world, m *aisdk.Message) {
			want[cairn.Session](w, 200, "a", "POST", "/chat/s/interrupt", none{})
			want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}})
			w.settled("s")
			call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
			if _, err := w.eng.Submit(t.Context(), "s", cairn.Deny(call.CallRef, "")); err != nil {
				t.Fatal(err)
			}
			approve(m)
		}},
		"a session that was rewound": {"look", func(w *world, m *aisdk.Message) {
			list := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/s/checkpoints", nil)
			want[cairn.Session](w, 200, "a", "POST", "/sessions/s/rewind", rewindIn{Rewind: wire.Rewind{CheckpointID: list.Items[0].ID}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := chatWorld(t)
			want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: test.said}}})
			w.settled("s")
			m := shown(w, "s").Messages[1]
			test.stop(w, &m)
			before, err := w.eng.Session(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			if got := post(w, "s", m); !strings.HasSuffix(got, "data: [DONE]\n\n") || strings.Contains(got, "That is that.") {
				t.Errorf("the response is %s", got)
			}
			if after, err := w.eng.Session(t.Context(), "s"); err != nil || after.Status != before.Status || after.Turn != before.Turn {
				t.Errorf("the session is %s at turn %d, %v; it was %s at turn %d", after.Status, after.Turn, err, before.Status, before.Turn)
			}
		})
	}
}

// approve adds the approval of its calls to a message, as a page does.
func approve(m *aisdk.Message) {
	for i := range m.Parts {
		if by := m.Parts[i].Approval; by != nil {
			yes := true
			m.Parts[i].State, by.Approved = "approval-responded", &yes
		}
	}
}

// A page's message is queued while another turn runs, or seems to because its process has died a moment ago. A message
// that is posted twice is queued once.
func TestQueuedOnce(t *testing.T) {
	w := chatWorld(t)
	post := func(id, text string) {
		w.t.Helper()
		body := map[string]any{"id": "s", "messages": []aisdk.Message{{ID: id, Role: "user", Parts: []aisdk.Part{{Type: "text", Text: text}}}}}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/chat", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		t.Cleanup(func() { res.Body.Close() })
	}
	post("m1", "slowly")
	post("m1", "slowly")
	post("m2", "hi")
	post("m2", "hi")
	refused, _ := w.do("a", "POST", "/start", `{"session_id":"s","input":{"text":"hi"}}`)
	if after := refused.Header.Get("Retry-After"); refused.StatusCode != 409 || after == "" {
		t.Errorf("POST /start: %d, to be retried after %q", refused.StatusCode, after)
	}
	if turns, err := w.eng.Queue(t.Context(), "s"); err != nil || len(turns) != 1 {
		t.Errorf("queued are %+v, %v", turns, err)
	}
	w.do("a", "GET", "/release?what=slowly", nil)
	testclock.Await(t, "the second turn to complete", func() bool {
		row := w.settled("s")
		return row.Turn == 2 && row.Status == cairn.SessionCompleted
	})
	list, err := w.eng.Messages(t.Context(), "s", 0, 0)
	if err != nil || len(list) != 4 {
		t.Errorf("the session has %d messages, %v", len(list), err)
	}
}
