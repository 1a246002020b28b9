package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// callee is a server with agents that others consult. It can be replaced, as by a restart, at the same address.
type callee struct {
	t       *testing.T
	st      *memstore.Store
	eng     *engine.Engine
	handler atomic.Pointer[http.Handler]
	srv     *httptest.Server
	now     atomic.Int64 // offset of its clock in nanoseconds
	url     string
	user    string // owner of the caller's sessions
	runs    int    // how many turns that user may have under way
	client  *client.Client

	mu     sync.Mutex
	counts map[string]int // requests by path
}

const calleeToken = "the-callers-token"

func newCallee(t *testing.T, agents ...*cairn.Agent) *callee {
	c := &callee{t: t, user: "caller", counts: map[string]int{}}
	c.st = memstore.New(&memstore.Options{Now: c.clock})
	c.serve(agents...)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.counts[r.URL.Path]++
		c.mu.Unlock()
		(*c.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c.srv, c.url = srv, srv.URL
	var err error
	if c.client, err = client.New(srv.URL, &client.Options{Token: calleeToken, Patience: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *callee) clock() time.Time { return time.Now().Add(time.Duration(c.now.Load())) }

// serve replaces the process of the server.
func (c *callee) serve(agents ...*cairn.Agent) {
	c.accept(calleeToken, agents...)
}

// accept starts a process of the server that admits callers with a token.
func (c *callee) accept(token string, agents ...*cairn.Agent) { c.with(nil, token, agents...) }

// with is accept with options of the engine.
func (c *callee) with(opts *engine.Options, token string, agents ...*cairn.Agent) {
	eng, err := engine.New(c.st, agents, opts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { eng.Close(context.Background()) })
	h, err := server.New(eng, &server.Options{RequestsPerMinute: -1, RunsPerUser: c.runs, KeepAlive: 50 * time.Millisecond,
		Authenticate: server.Tokens(map[string]*server.Principal{token: {User: c.user, Roles: []server.Role{server.RoleUser}}})})
	if err != nil {
		c.t.Fatal(err)
	}
	var handler http.Handler = h
	c.eng = eng
	c.handler.Store(&handler)
}

func (c *callee) requests(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[path]
}

// only returns the server's only session of an agent.
func (c *callee) only(agent string) *cairn.Session {
	c.t.Helper()
	page, err := c.eng.Sessions(c.t.Context(), store.SessionQuery{Agent: agent, RootsOnly: true})
	if err != nil || len(page.Items) != 1 {
		c.t.Fatalf("%d sessions of agent %s, want 1: %v", len(page.Items), agent, err)
	}
	return &page.Items[0]
}

// remote returns the local agent that stands for it.
func (c *callee) remote(name string) *cairn.Agent {
	return client.RemoteAgent(c.client, client.RemoteOptions{Name: name, Description: "Knows."})
}

// asks is an agent that consults another one and repeats its answer.
func asks(other *cairn.Agent) *cairn.Agent {
	return &cairn.Agent{Name: "boss", Tools: []cairn.Tool{cairn.SubAgent(other)}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if r := req.Messages[len(req.Messages)-1].ToolResults(); len(r) > 0 {
			return scripted.Text("It says " + string(r[0].Output))
		}
		return scripted.Call(other.Name, map[string]string{"input": "find out"})
	})}
}

func caller(t *testing.T, st store.Store, agents ...*cairn.Agent) *engine.Engine {
	t.Helper()
	eng, err := engine.New(st, agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	return eng
}

func ask(t *testing.T, eng *engine.Engine) *engine.Run {
	t.Helper()
	run, err := eng.Execute(t.Context(), "s", "boss", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func came(t *testing.T, run *engine.Run, status cairn.RunStatus) *cairn.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := run.Wait(ctx)
	if res.Status != status {
		t.Fatalf("%s, want %s: %v; %+v", res.Status, status, err, res)
	}
	return res
}

// shown returns what a reader of the caller's log sees of an agent, without discarded words.
func shownOf(t *testing.T, eng *engine.Engine, agent string) string {
	t.Helper()
	list, err := eng.History(t.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var text, attempt string
	for _, ev := range list {
		if ev.Agent != agent {
			continue
		}
		switch ev.Type {
		case cairn.EventTextDelta:
			attempt += ev.Text
		case cairn.EventStepDiscarded:
			attempt = ""
		case cairn.EventStepCommitted:
			text, attempt = text+attempt, ""
		}
	}
	return text + attempt
}

// A remote agent is consulted like any other: its steps are streamed, with its reasoning and its token usage.
func TestRemoteAgentStreamsThrough(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "42", nil })
	c := newCallee(t, &cairn.Agent{Name: "sage", Tools: []cairn.Tool{look}, Model: scripted.New(
		scripted.Reply(scripted.Thinking("hm"), scripted.Text("Let me look."), scripted.Call("look", nil)).Usage(10, 5),
		scripted.Reply(scripted.Text("It is "), scripted.Gate(gate), scripted.Text("42.")).Usage(20, 7))})
	eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
	run := ask(t, eng)
	var saw []string
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Agent != "sage" {
			if ev.Type == cairn.EventSubagentStart || ev.Type == cairn.EventSubagentEnd {
				saw = append(saw, string(ev.Type))
			}
			continue
		}
		switch ev.Type {
		case cairn.EventThinking, cairn.EventTextDelta:
			saw = append(saw, ev.Text)
			if strings.Contains(strings.Join(saw, ""), "It") { // before the agent has ended
				open()
			}
		}
	}
	if got, want := strings.Join(saw, ""), "subagent_starthmLet me look.\n\nIt is 42.subagent_end"; got != want {
		t.Errorf("saw %q, want %q", got, want)
	}
	if res := came(t, run, cairn.RunCompleted); res.Text != `It says "Let me look.\n\nIt is 42."` {
		t.Errorf("came to %q", res.Text)
	}
	page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d children: %v", len(page.Items), err)
	}
	if u := page.Items[0].Usage; u.InputTokens != 30 || u.OutputTokens != 12 || u.ModelCalls != 2 {
		t.Errorf("usage %+v", u)
	}
	if n := c.requests("/start"); n != 1 {
		t.Errorf("started %d times", n)
	}
}

// asking is an agent that is suspended on an approval, a client tool and a question, all at once.
func asking() *cairn.Agent {
	type pay struct {
		Amount int `json:"amount"`
	}
	return &cairn.Agent{Name: "sage", Tools: []cairn.Tool{
		cairn.Func("pay", "Pays.", func(_ context.Context, _ *cairn.Call, in pay) (string, error) {
			return fmt.Sprint("paid ", in.Amount), nil
		},
			cairn.RequireApprovalIf(func(context.Context, *cairn.Call, pay) (*cairn.Prompt, error) {
				return &cairn.Prompt{Text: "May I pay?"}, nil
			})),
		cairn.Func("refund", "Refunds.", func(_ context.Context, _ *cairn.Call, in pay) (string, error) { return "refunded", nil }, cairn.RequireApproval()),
		cairn.ClientTool[struct{}, string]("locate", "Locates."),
		cairn.Func("choose", "Chooses.", func(ctx context.Context, call *cairn.Call, _ struct{}) (string, error) {
			var answer string
			err := call.Ask(ctx, "Which?", []string{"a", "b"}, &answer)
			return answer, err
		}),
	}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if r := req.Messages[len(req.Messages)-1].ToolResults(); len(r) > 0 {
			var said []string
			for _, m := range req.Messages {
				for _, r := range m.ToolResults() {
					said = append(said, r.Tool+" "+string(r.Output))
				}
			}
			return scripted.Text("Got " + strings.Join(said, ", "))
		}
		return scripted.Reply(scripted.Text("One moment."), scripted.Call("pay", pay{10}), scripted.Call("refund", pay{3}), scripted.Call("locate", nil), scripted.Call("choose", nil))
	})}
}

// The pending calls of a remote agent are answered at the caller's root, by changing processes, and each answer is
// passed on once.
func TestRemoteAgentIsAnsweredAtTheRoot(t *testing.T) {
	t.Parallel()
	for _, nested := range []bool{false, true} {
		t.Run(fmt.Sprint("nested=", nested), func(t *testing.T) {
			t.Parallel()
			far := newCallee(t, asking())
			c, other := far, far.remote("sage")
			if nested { // the remote agent consults a remote agent
				between := asks(far.remote("sage"))
				between.Name = "between"
				c = newCallee(t, between)
				other = c.remote("between")
			}
			st := memstore.New(nil)
			first := caller(t, st, asks(other))
			res := came(t, ask(t, first), cairn.RunSuspended)
			calls := map[string]cairn.CallRef{}
			for _, call := range res.Suspended.Calls {
				if call.RootID != "s" {
					t.Errorf("call of %s belongs to %s", call.Tool, call.RootID)
				}
				calls[call.Tool] = call
			}
			if len(calls) != 4 || calls["pay"].Kind != cairn.CallApproval || calls["pay"].Prompt != "May I pay?" || string(calls["pay"].Input) != `{"amount":10}` ||
				calls["locate"].Kind != cairn.CallClientTool || calls["choose"].Kind != cairn.CallQuestion || calls["choose"].Prompt != "Which?" {
				t.Fatalf("waits for %+v", calls)
			}
			first.Close(t.Context())
			second := caller(t, st, asks(other))
			if r, err := second.Submit(t.Context(), "s", cairn.Answer(calls["locate"], 7)); err == nil && r.Outcome != cairn.OutcomeInvalid {
				t.Errorf("an answer that the schema there forbids: %s", r.Outcome)
			}
			for _, s := range []cairn.Submission{cairn.Approve(calls["pay"]).WithInput(map[string]int{"amount": 5}), cairn.Deny(calls["refund"], "no"),
				cairn.Answer(calls["locate"], "Rome"), cairn.Answer(calls["choose"], "b")} {
				r, err := second.Submit(t.Context(), "s", s)
				if err != nil || r.Outcome != cairn.OutcomeAccepted {
					t.Fatalf("%s: %v", r.Outcome, err)
				}
			}
			second.Close(t.Context())
			third := caller(t, st, asks(other))
			run, err := third.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			res = came(t, run, cairn.RunCompleted)
			for _, want := range []string{"paid 5", "not approved by the user: no", "Rome", "choose"} {
				if !strings.Contains(res.Text, want) {
					t.Errorf("came to %q, without %q", res.Text, want)
				}
			}
			if n := strings.Count(shownOf(t, third, other.Name), "One moment."); n != 1 && !nested {
				t.Errorf("the beginning is shown %d times: %q", n, shownOf(t, third, other.Name))
			}
			if far.requests("/submit-tool-result") != 4 || far.requests("/start") != 1 {
				t.Errorf("%d answers and %d starts", far.requests("/submit-tool-result"), far.requests("/start"))
			}
		})
	}
}

// A stream that is silent until the run there has ended does not count as ended.
func TestRemoteAgentIsHeardToItsEnd(t *testing.T) {
	t.Parallel()
	c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Text("All."))})
	real := *c.handler.Load()
	var slow http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/status" && c.requests("/start") > 0: // the run has ended by the time of the request
			_ = testclock.Poll(r.Context(), func() bool { return c.only("sage").Status == cairn.SessionCompleted })
		case r.URL.Path == "/sse" && c.requests("/sse") == 1:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": keep-alive\n\n: keep-alive\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		real.ServeHTTP(w, r)
	})
	c.handler.Store(&slow)
	if res := came(t, ask(t, caller(t, memstore.New(nil), asks(c.remote("sage")))), cairn.RunCompleted); res.Text != `It says "All."` {
		t.Errorf("came to %q", res.Text)
	}
}

// Sources that a remote agent cites are cited locally, except those of a discarded attempt.
func TestRemoteAgentCites(t *testing.T) {
	t.Parallel()
	cites := func(text, url string) scripted.Step {
		return scripted.Reply(scripted.Text(text), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd, Sources: []cairn.Source{{URL: url}}}))
	}
	c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(
		scripted.Reply(cites("Grass is", "https://a.example/dead"), scripted.Break()),
		scripted.Reply(cites("Grass is green", "https://a.example/1"), cites(" and high.", "https://a.example/2")))})
	eng := caller(t, memstore.New(nil), c.remote("sage"))
	run, err := eng.Execute(t.Context(), "s", "sage", cairn.Text("What about grass?"))
	if err != nil {
		t.Fatal(err)
	}
	came(t, run, cairn.RunCompleted)
	snap, err := eng.Snapshot(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var urls []string
	for _, p := range snap.Messages[len(snap.Messages)-1].Parts {
		text += p.Text
		for _, s := range p.Sources {
			urls = append(urls, s.URL)
		}
	}
	if text != "Grass is green and high." || !slices.Equal(urls, []string{"https://a.example/1", "https://a.example/2"}) {
		t.Errorf("the reply is %q and cites %q", text, urls)
	}
}

// A server that goes down in the middle of a reply and restarts on the same store resumes the reply, and each word
// is shown once.
func TestRemoteServerIsRestarted(t *testing.T) {
	t.Parallel()
	agent := func(gate chan struct{}) *cairn.Agent {
		return &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Reply(scripted.Text("Once upon a time. "), scripted.Gate(gate), scripted.Text("The end.")))}
	}
	c := newCallee(t, agent(make(chan struct{})))
	eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
	run := ask(t, eng)
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == cairn.EventTextDelta && ev.Agent == "sage" {
			break
		}
	}
	old := c.eng
	refused := make(chan struct{})
	refuse := sync.OnceFunc(func() { close(refused) })
	var gone http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { refuse(); panic(http.ErrAbortHandler) })
	c.handler.Store(&gone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	old.Close(ctx) // abandons its run in the middle
	<-refused      // the caller has found the server gone
	open := make(chan struct{})
	close(open)
	c.serve(agent(open))
	came(t, run, cairn.RunCompleted)
	if got := shownOf(t, eng, "sage"); got != "Once upon a time. The end." {
		t.Errorf("shown: %q", got)
	}
	if c.only("sage").Turn != 1 {
		t.Errorf("it took %d runs", c.only("sage").Turn)
	}
}

// A companion on another server remembers, and its typed output is available locally.
func TestRemoteAgentRemembers(t *testing.T) {
	t.Parallel()
	type answer struct {
		N int `json:"n"`
	}
	c := newCallee(t, &cairn.Agent{Name: "sage", Output: cairn.OutputOf[answer](), Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		n := 0
		for _, m := range req.Messages {
			if m.Role == cairn.RoleUser && !m.Hidden {
				n++
			}
		}
		return scripted.Call(cairn.FinishTool, answer{n})
	})})
	sage := c.remote("sage")
	sage.Output = cairn.OutputOf[answer]()
	eng := caller(t, memstore.New(nil), sage)
	for n := 1; n <= 3; n++ {
		run, err := eng.Execute(t.Context(), "s", "sage", cairn.Text("and?"))
		if err != nil {
			t.Fatal(err)
		}
		if res := came(t, run, cairn.RunCompleted); string(res.Output) != fmt.Sprintf(`{"n":%d}`, n) {
			t.Errorf("turn %d: %s", n, res.Output)
		}
	}
	if row := c.only("sage"); row.Turn != 3 {
		t.Errorf("%d turns there", row.Turn)
	}
	branched, err := eng.Branch(t.Context(), "s", "b")
	if err != nil {
		t.Fatal(err)
	}
	run, err := eng.Execute(t.Context(), branched.ID, "sage", cairn.Text("and?"))
	if err != nil {
		t.Fatal(err)
	}
	if res := came(t, run, cairn.RunFailed); !errors.Is(res.Error, &cairn.Error{Code: cairn.ErrModelRequest}) {
		t.Errorf("a branch: %v", res.Error)
	}
}

// A picture of a remote agent is a local file: of every step, once, although the other server was down when the
// file was requested.
func TestRemoteAgentDraws(t *testing.T) {
	t.Parallel()
	draws := func(name string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{Name: name, MediaType: "image/png", Data: []byte(name)}})
	}
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "a tree", nil })
	painter := &cairn.Agent{Name: "painter", Tools: []cairn.Tool{look}, Model: scripted.New(
		scripted.Reply(scripted.Text("Let me see."), draws("sketch.png"), scripted.Call("look", struct{}{})),
		scripted.Reply(draws("void.png"), scripted.Break()),
		scripted.Reply(scripted.Text("Here."), draws("a.png"), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{MediaType: "image/png", URL: "https://a.example/b.png"}})))}
	painter.Retry = &cairn.RetryPolicy{First: time.Millisecond}
	c := newCallee(t, painter)
	there := *c.handler.Load()
	var asked sync.Map
	var away http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := asked.LoadOrStore(r.URL.Path, true); strings.Contains(r.URL.Path, "/files/") && !again {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		there.ServeHTTP(w, r)
	})
	c.handler.Store(&away)
	eng := caller(t, memstore.New(nil), c.remote("painter"))
	run, err := eng.Execute(t.Context(), "s", "painter", cairn.Text("Draw a tree."))
	if err != nil {
		t.Fatal(err)
	}
	came(t, run, cairn.RunCompleted)
	list, err := eng.Messages(t.Context(), "s", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, p := range list[len(list)-1].Parts {
		switch {
		case p.File != nil:
			shown = append(shown, p.File.MediaType+" "+p.File.Name+" "+string(p.File.Data)+p.File.URL)
		case p.Text != "":
			shown = append(shown, p.Text)
		}
	}
	want := []string{"Let me see.", "\n\nHere.", "image/png sketch.png sketch.png", "image/png a.png a.png", "image/png  https://a.example/b.png"}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}
}
