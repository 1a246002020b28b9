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
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// callee is a server with agents that others consult. It can be replaced, as by a restart, while its address stays.
type callee struct {
	t       *testing.T
	st      *memstore.Store
	eng     *engine.Engine
	handler atomic.Pointer[http.Handler]
	srv     *httptest.Server
	now     atomic.Int64 // what its clock is ahead, in nanoseconds
	url     string
	user    string // whose sessions the caller's are
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

// serve makes a process of the server.
func (c *callee) serve(agents ...*cairn.Agent) {
	c.accept(calleeToken, agents...)
}

// accept makes a process of the server that lets in who has a token.
func (c *callee) accept(token string, agents ...*cairn.Agent) {
	eng, err := engine.New(c.st, agents, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { eng.Close(context.Background()) })
	h, err := server.New(eng, &server.Options{RequestsPerMinute: -1, KeepAlive: 50 * time.Millisecond,
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

// only returns the one session that the server has, of an agent.
func (c *callee) only(agent string) *cairn.Session {
	c.t.Helper()
	page, err := c.eng.Sessions(c.t.Context(), store.SessionQuery{Agent: agent, RootsOnly: true})
	if err != nil || len(page.Items) != 1 {
		c.t.Fatalf("%d sessions of agent %s, want 1: %v", len(page.Items), agent, err)
	}
	return &page.Items[0]
}

// remote is the agent here.
func (c *callee) remote(name string) *cairn.Agent {
	return client.RemoteAgent(c.client, client.RemoteOptions{Name: name, Description: "Knows."})
}

// asks is an agent that consults another one, and says what that answered.
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

// shown returns what a reader of the caller's log is shown of an agent, each word that stands.
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

// A remote agent is consulted like any other: its steps are streamed through, with its thoughts and its tokens.
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

// asking is an agent that waits for an approval, a client and the answer to a question, all at once.
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

// What a remote agent waits for is answered at the caller's root, by processes that come and go, and each answer is passed on
// once.
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
			res := came(t, ask(t, first), cairn.SuspendedChildren)
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

// A stop of the caller stops the agent on the other server, at work or waiting, and a new turn does the same.
func TestRemoteAgentIsStopped(t *testing.T) {
	t.Parallel()
	stopped := func(c *callee) {
		for row := c.only("sage"); row.Status != cairn.SessionInterrupted; row = c.only("sage") {
			if t.Context().Err() != nil {
				t.Fatalf("it is %s", row.Status)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	t.Run("at work", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))})
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		run := ask(t, eng)
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == cairn.EventTextDelta {
				break
			}
		}
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		came(t, run, cairn.RunInterrupted)
		stopped(c)
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		came(t, ask(t, eng), cairn.SuspendedChildren)
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		stopped(c)
	})
	t.Run("another turn", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		came(t, ask(t, eng), cairn.SuspendedChildren)
		if _, err := eng.Execute(t.Context(), "s", "boss", cairn.Text("again"), engine.WithOnWaiting(engine.WaitingWithdraw)); err != nil {
			t.Fatal(err)
		}
		for { // there are two sessions there by then
			page, err := c.eng.Sessions(t.Context(), store.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionInterrupted}})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) == 1 {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// spoken returns once a run's remote agent has said something.
func spoken(t *testing.T, run *engine.Run) {
	t.Helper()
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == cairn.EventTextDelta && ev.Agent == "sage" {
			return
		}
	}
}

// approved approves what the session waits for and resumes it.
func approved(t *testing.T, eng *engine.Engine, res *cairn.Result) *engine.Run {
	t.Helper()
	for _, call := range res.Suspended.Calls {
		if _, err := eng.Submit(t.Context(), "s", cairn.Approve(call)); err != nil {
			t.Fatal(err)
		}
	}
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// speaking is an agent that speaks without end.
func speaking() *cairn.Agent {
	return &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))}
}

// A stop that the other server does not take in, since it is away, is delivered by whichever process of the caller works when
// it is there again; with refused credentials it stays owed as well. The run there is stopped, and nothing of it is stored.
func TestRemoteAgentIsStoppedLater(t *testing.T) {
	t.Parallel()
	states := []struct {
		name  string
		agent func() *cairn.Agent
		until func(t *testing.T, run *engine.Run)
	}{
		{"at work", speaking, spoken},
		{"waiting", asking, func(t *testing.T, run *engine.Run) { came(t, run, cairn.SuspendedChildren) }},
	}
	for _, state := range states {
		for _, away := range []int{0, 401, 404, 502} { // 404 of a proxy
			t.Run(fmt.Sprint(state.name, "/", away), func(t *testing.T) {
				t.Parallel()
				c, st := newCallee(t, state.agent()), memstore.New(nil)
				other := c.remote("sage")
				first, err := engine.New(st, []*cairn.Agent{asks(other)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close(context.Background())
				run := ask(t, first)
				state.until(t, run)
				real := *c.handler.Load()
				var gone http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if away == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(away)
				})
				c.handler.Store(&gone)
				if err := first.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				if err := first.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				owed := func() int {
					page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: store.StopRecords})
					if err != nil {
						t.Fatal(err)
					}
					for _, rec := range page.Items {
						if strings.Contains(string(rec.Value), calleeToken) {
							t.Errorf("the token is in %s", rec.Value)
						}
					}
					return len(page.Items)
				}
				if n := owed(); n != 1 {
					t.Fatalf("%d stops are recorded", n)
				}
				if row := c.only("sage"); row.Status == cairn.SessionInterrupted {
					t.Fatal("it is stopped already")
				}
				second := caller(t, st, asks(other))
				ctx, cancel := context.WithCancel(t.Context())
				worked := make(chan error, 1)
				go func() { worked <- second.Work(ctx) }()
				c.handler.Store(&real)
				for owed() > 0 {
					if t.Context().Err() != nil {
						t.Fatal("the stop is still owed")
					}
					time.Sleep(5 * time.Millisecond)
				}
				if row := c.only("sage"); row.Status != cairn.SessionInterrupted {
					t.Errorf("it is %s", row.Status)
				}
				cancel()
				if err := <-worked; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// standing returns the events of a session's log that stand: without those of steps that were discarded.
func standing(t *testing.T, eng *engine.Engine) (list []cairn.Event) {
	t.Helper()
	all, err := eng.History(t.Context(), "s", cairn.Cursor{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range all {
		if ev.Type == cairn.EventStepDiscarded {
			list = slices.DeleteFunc(list, func(before cairn.Event) bool {
				return before.SessionID == ev.SessionID && before.RunID == ev.RunID && before.Step == ev.Step
			})
		}
		list = append(list, ev.Public())
	}
	return list
}

// innerOf says in a line each what the events of other servers say that stand on a log, with the words of the agent here.
func innerOf(t *testing.T, eng *engine.Engine) (lines []string) {
	t.Helper()
	run, step := "", 0
	for _, ev := range standing(t, eng) {
		switch {
		case ev.Type == cairn.EventStepStart && ev.Agent == "sage":
			run, step = ev.RunID, ev.Step
		case ev.Type == cairn.EventTextDelta && ev.Agent == "sage":
			lines = append(lines, "says "+strings.TrimSpace(ev.Text))
		case ev.Origin != "" && (ev.RunID != run || ev.Step != step || ev.SessionID == ev.Origin):
			lines = append(lines, fmt.Sprintf("%s is in session %s, run %s, step %d, not in the step under way", ev.Type, ev.SessionID, ev.RunID, ev.Step))
		case ev.Origin != "":
			lines = append(lines, strings.TrimSpace(fmt.Sprint(ev.Agent, " ", ev.Type, " ", ev.Tool, ev.Name, " ", string(ev.Data))))
		}
	}
	return lines
}

// busy is an agent that works: with a tool that shows how far it is, one that fails, and an agent of its own. Both may be made
// to wait.
func busy(wait func(agent string)) *cairn.Agent {
	look := cairn.Func("look", "Looks.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		if err := call.Emit("progress", "half"); err != nil {
			return "", err
		}
		if call.Agent == "clerk" {
			wait("clerk")
		}
		return "42", nil
	})
	fall := cairn.Func("fall", "Fails.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		return "", errors.New("password hunter2")
	})
	rest := cairn.Func("rest", "Rests.", func(context.Context, *cairn.Call, struct{}) (string, error) { wait("sage"); return "rested", nil })
	answered := func(req *cairn.Request) int { return len(req.Messages) / 2 }
	clerk := &cairn.Agent{Name: "clerk", Tools: []cairn.Tool{look}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if answered(req) == 0 {
			return scripted.Call("look", nil)
		}
		return scripted.Text("The clerk's own words.")
	})}
	return &cairn.Agent{Name: "sage", Tools: []cairn.Tool{look, fall, rest, cairn.SubAgent(clerk)}, Durability: cairn.PerTool,
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			switch answered(req) {
			case 0:
				return scripted.Reply(scripted.Text("First."), scripted.Call("look", nil))
			case 1:
				return scripted.Call("fall", nil)
			case 2:
				return scripted.Call("clerk", map[string]string{"input": "look"})
			case 3:
				return scripted.Call("rest", nil)
			}
			return scripted.Text("Done.")
		})}
}

var busyLines = []string{
	"says First.", "sage tool_start look {}", `sage custom progress "half"`, `sage tool_end look "42"`,
	"sage tool_start fall {}", `sage tool_end fall "the tool failed"`,
	`sage tool_start clerk {"input":"look"}`, `sage subagent_start clerkclerk {"input":"look"}`,
	"clerk tool_start look {}", `clerk custom progress "half"`, `clerk tool_end look "42"`,
	"sage subagent_end clerkclerk", `sage tool_end clerk "The clerk's own words."`,
	"sage tool_start rest {}", `sage tool_end rest "rested"`, "says Done.",
}

// What the tools and agents of a remote agent do is on the caller's log, each once, whatever becomes of the processes that do it
// and of the one that follows it.
func TestRemoteAgentShowsItsWork(t *testing.T) {
	t.Parallel()
	begun := func(t *testing.T, run *engine.Run, agent string) {
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == cairn.EventToolStart && ev.Tool == "rest" || ev.Type == cairn.EventCustom && ev.Agent == "clerk" && agent == "clerk" {
				return
			}
		}
		t.Fatal("the agent's tool is not seen to begin")
	}
	type scene struct {
		t       *testing.T
		c       *callee
		st      *memstore.Store
		eng     *engine.Engine
		run     *engine.Run
		release func()
	}
	breaks := func(s *scene) { s.c.srv.CloseClientConnections(); s.release() }
	dies := func(s *scene) { s.c.leaves(); s.release(); s.c.serve(busy(func(string) {})) }
	followed := func(s *scene) {
		ctx, cancel := context.WithCancel(s.t.Context())
		cancel()
		s.eng.Close(ctx)
		s.eng = caller(s.t, s.st, asks(s.c.remote("sage")))
		var err error
		if s.run, err = s.eng.Resume(s.t.Context(), "s"); err != nil {
			s.t.Fatal(err)
		}
		s.release()
	}
	for _, c := range []struct {
		name    string
		waits   string // who is at work when it happens
		disturb func(*scene)
	}{
		{"undisturbed", "", func(*scene) {}},
		{"the connection breaks", "sage", breaks},
		{"the other server dies", "sage", dies},
		{"the other server dies while its agent's agent works", "clerk", dies},
		{"the caller dies", "sage", followed},
		{"the caller dies while its agent's agent works", "clerk", followed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			far := newCallee(t, busy(func(agent string) {
				if agent == c.waits {
					<-gate
				}
			}))
			s := &scene{t: t, c: far, st: memstore.New(nil), release: sync.OnceFunc(func() { close(gate) })}
			defer s.release()
			s.eng = caller(t, s.st, asks(far.remote("sage")))
			s.run = ask(t, s.eng)
			if c.waits != "" {
				begun(t, s.run, c.waits)
			}
			c.disturb(s)
			if res := came(t, s.run, cairn.RunCompleted); !strings.Contains(res.Text, "Done.") {
				t.Errorf("came to %q", res.Text)
			}
			if got := innerOf(t, s.eng); !slices.Equal(got, busyLines) {
				t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(busyLines, "\n"))
			}
		})
	}
}

// What a remote agent cites is cited here, but for an attempt that was discarded there.
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

// A server that goes away in the middle of an answer and comes back on the same store continues it, and each word is shown
// once.
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
	var gone http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c.handler.Store(&gone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	old.Close(ctx) // gives up its run in the middle
	time.Sleep(20 * time.Millisecond)
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

// A session that is gone on the other server, a failure there, and a server that refuses fail the call with the cause.
func TestRemoteAgentIsLost(t *testing.T) {
	t.Parallel()
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		res := came(t, ask(t, eng), cairn.SuspendedChildren)
		if err := c.client.Delete(t.Context(), c.only("sage").ID); err != nil {
			t.Fatal(err)
		}
		for _, call := range res.Suspended.Calls {
			s := cairn.AnswerError(call, "no")
			if call.Kind == cairn.CallApproval {
				s = cairn.Deny(call, "no")
			}
			if _, err := eng.Submit(t.Context(), "s", s); err != nil {
				t.Fatal(err)
			}
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res := came(t, run, cairn.RunCompleted); !strings.Contains(res.Text, "agent sage failed") || !strings.Contains(res.Text, "deleted") {
			t.Errorf("came to %q", res.Text)
		}
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Fail(cairn.Errorf(cairn.CodeFiltered, "secret words")))})
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		if res := came(t, ask(t, eng), cairn.RunCompleted); !strings.Contains(res.Text, "content filtered") || strings.Contains(res.Text, "secret") {
			t.Errorf("came to %q", res.Text)
		}
	})
	for _, status := range []int{401, 403, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Text("At last."))})
			real := *c.handler.Load()
			var refuses http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if status == 429 && c.requests("/status") > 1 {
					real.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(status)
			})
			c.handler.Store(&refuses)
			eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
			begun := time.Now()
			res := came(t, ask(t, eng), cairn.RunCompleted)
			if strings.Contains(res.Text, calleeToken) {
				t.Errorf("the token is in %q", res.Text)
			}
			switch {
			case status == 429 && (res.Text != `It says "At last."` || time.Since(begun) < time.Second):
				t.Errorf("came to %q after %s", res.Text, time.Since(begun))
			case status != 429 && !strings.Contains(res.Text, "agent sage failed"):
				t.Errorf("came to %q", res.Text)
			}
		})
	}
}

// leaves ends the process of the server in the middle of what it does; its address answers nothing then.
func (c *callee) leaves() {
	var gone http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c.handler.Store(&gone)
	c.srv.CloseClientConnections()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.eng.Close(ctx)
}

// refuses has the server answer each request with a status and a body, which a proxy leaves empty.
func (c *callee) refuses(status int, body string) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	c.handler.Store(&handler)
}

// asksThenSpeaks is an agent that waits for an approval, and speaks without end once it has it.
func asksThenSpeaks() *cairn.Agent {
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil }, cairn.RequireApproval())
	return &cairn.Agent{Name: "sage", Tools: []cairn.Tool{pay}, Model: scripted.New(scripted.Call("pay", nil),
		scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))}
}

// lossStates are where the call of a remote agent may be when that is lost. They return how the caller gets on.
var lossStates = []struct {
	name  string
	agent func() *cairn.Agent
	// until brings the caller to the state, and answers then has what waits answered, when the agent is lost, by a process that
	// has come since; nil if nothing waits.
	until   func(t *testing.T, eng *engine.Engine) *engine.Run
	answers bool
}{
	{"at work", speaking, func(t *testing.T, eng *engine.Engine) *engine.Run {
		run := ask(t, eng)
		spoken(t, run)
		return run
	}, false},
	{"while it waits", asksThenSpeaks, func(t *testing.T, eng *engine.Engine) *engine.Run {
		run := ask(t, eng)
		came(t, run, cairn.SuspendedChildren)
		return run
	}, true},
	{"once its answer was passed on", asksThenSpeaks, func(t *testing.T, eng *engine.Engine) *engine.Run {
		run := approved(t, eng, came(t, ask(t, eng), cairn.SuspendedChildren))
		spoken(t, run)
		return run
	}, false},
}

// lossKinds are the ways in which a remote agent is lost, with what the calling model and the user read of it.
var lossKinds = []struct {
	name  string
	lose  func(c *callee, agent *cairn.Agent)
	cause string
}{
	{"its store was emptied", func(c *callee, agent *cairn.Agent) {
		c.st = memstore.New(nil)
		c.serve(agent)
	}, "is not on the other server any more"},
	{"its session was deleted", func(c *callee, agent *cairn.Agent) {
		id := c.only("sage").ID
		c.serve(agent)
		c.eng.Interrupt(context.Background(), id, "it is to be deleted") // it may wait
		if err := c.eng.Delete(context.Background(), id); err != nil {
			c.t.Error(err)
		}
	}, "is not on the other server any more"},
	{"its session has expired", func(c *callee, agent *cairn.Agent) {
		c.now.Store(int64(8 * 24 * time.Hour))
		c.serve(agent)
		if _, err := c.eng.Sweep(context.Background()); err != nil {
			c.t.Error(err)
		}
	}, "is not on the other server any more"},
	{"its session has expired and was purged", func(c *callee, agent *cairn.Agent) {
		c.now.Store(int64(8 * 24 * time.Hour))
		c.serve(agent)
		_, err := c.eng.Sweep(context.Background())
		c.now.Store(int64(80 * 24 * time.Hour))
		if _, also := c.eng.Sweep(context.Background()); err != nil || also != nil {
			c.t.Error(err, also)
		}
	}, "is not on the other server any more"},
	{"the token is not accepted", func(c *callee, agent *cairn.Agent) { c.accept("another", agent) }, "refuses the caller's credentials"},
	{"the caller is forbidden", func(c *callee, _ *cairn.Agent) { c.refuses(http.StatusForbidden, "") }, "refuses the caller's credentials"},
	{"the session is another user's", func(c *callee, agent *cairn.Agent) {
		c.user = "another"
		c.serve(agent)
	}, "is not on the other server any more"},
	{"the server says that it was deleted", func(c *callee, _ *cairn.Agent) {
		c.refuses(http.StatusGone, `{"code":"deleted","detail":"session \"remote_1\" was deleted"}`)
	}, "was deleted on the other server"},
	{"the server says that it has expired", func(c *callee, _ *cairn.Agent) {
		c.refuses(http.StatusGone, `{"code":"expired","detail":"session \"remote_1\" has expired"}`)
	}, "has expired on the other server"},
	{"the agent is not there", func(c *callee, agent *cairn.Agent) {
		other := *agent
		other.Name = "other"
		c.serve(&other)
	}, "does not have the agent sage"},
	{"the server is not there", func(c *callee, _ *cairn.Agent) { c.refuses(http.StatusNotFound, "") }, "no server of sessions"},
}

// An agent that is lost on the other server fails the call that consults it, in whatever state that is, with the cause. Nothing
// stays in the inbox, and what the server said of addresses and ids nobody reads.
func TestRemoteAgentIsLostInEachState(t *testing.T) {
	t.Parallel()
	for _, state := range lossStates {
		for _, loss := range lossKinds {
			t.Run(state.name+"/"+loss.name, func(t *testing.T) {
				t.Parallel()
				c, st := newCallee(t, state.agent()), memstore.New(nil)
				other := c.remote("sage")
				eng := caller(t, st, asks(other))
				run := state.until(t, eng)
				c.leaves()
				loss.lose(c, state.agent())
				if state.answers {
					eng.Close(t.Context())
					eng = caller(t, st, asks(other))
					list, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
					if err != nil || len(list.Items) != 1 {
						t.Fatalf("%d calls in the inbox: %v", len(list.Items), err)
					}
					run = approved(t, eng, &cairn.Result{Suspended: &cairn.Suspension{Calls: []cairn.CallRef{list.Items[0].CallRef}}})
				}
				res := came(t, run, cairn.RunCompleted)
				if !strings.Contains(res.Text, "agent sage failed") || !strings.Contains(res.Text, loss.cause) {
					t.Errorf("the model reads %q, want %q", res.Text, loss.cause)
				}
				if at := strings.TrimPrefix(c.url, "http://"); strings.Contains(res.Text, at) || strings.Contains(res.Text, "remote_") || strings.Contains(res.Text, calleeToken) {
					t.Errorf("the model reads of internals: %q", res.Text)
				}
				wantLost(t, eng, loss.cause)
			})
		}
	}
}

// wantLost reports what a user is not shown of a loss, and what waits.
func wantLost(t *testing.T, eng *engine.Engine, cause string) {
	t.Helper()
	list, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d calls in the inbox: %v", len(list.Items), err)
	}
	events, err := eng.History(t.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var ended, failed string
	for _, ev := range events {
		switch ev = ev.Public(); {
		case ev.Type == cairn.EventToolEnd && ev.Tool == "sage" && ev.IsError:
			ended += string(ev.Data)
		case ev.Type == cairn.EventRunEnd && ev.Agent == "sage" && ev.Error != nil:
			failed += ev.Error.Message
		}
	}
	if !strings.Contains(ended, cause) || !strings.Contains(failed, cause) {
		t.Errorf("the user reads %q and %q, want %q", ended, failed, cause)
	}
}

// A companion whose conversation is lost on the other server does not begin another one there as if nothing had been said.
func TestRemoteConversationIsLost(t *testing.T) {
	t.Parallel()
	sage := func() *cairn.Agent {
		return &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Text("Yes."))}
	}
	c := newCallee(t, sage())
	eng := caller(t, memstore.New(nil), c.remote("sage"))
	turn := func() *engine.Run {
		run, err := eng.Execute(t.Context(), "s", "sage", cairn.Text("And?"))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	came(t, turn(), cairn.RunCompleted)
	c.leaves()
	c.st = memstore.New(nil)
	c.serve(sage())
	if res := came(t, turn(), cairn.RunFailed); !errors.Is(res.Error, &cairn.Error{Code: cairn.CodeLost}) {
		t.Errorf("the second turn: %v", res.Error)
	}
	if n := c.requests("/start"); n != 1 {
		t.Errorf("%d turns were begun there", n)
	}
}

// A server that is only away for a while loses nothing, in no state.
func TestRemoteServerIsAway(t *testing.T) {
	t.Parallel()
	for _, state := range lossStates {
		for _, status := range []int{0, http.StatusBadGateway, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(state.name, "/", status), func(t *testing.T) {
				t.Parallel()
				c, st := newCallee(t, state.agent()), memstore.New(nil)
				eng := caller(t, st, asks(c.remote("sage")))
				run := state.until(t, eng)
				c.leaves()
				if status > 0 {
					c.refuses(status, "")
				}
				before := c.requests("/status")
				if state.answers {
					list, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
					if err != nil || len(list.Items) != 1 {
						t.Fatalf("%d calls in the inbox: %v", len(list.Items), err)
					}
					run = approved(t, eng, &cairn.Result{Suspended: &cairn.Suspension{Calls: []cairn.CallRef{list.Items[0].CallRef}}})
				}
				for c.requests("/status")+c.requests("/sse") < before+3 { // it is tried
					if t.Context().Err() != nil {
						t.Fatal("it is not tried again")
					}
					time.Sleep(5 * time.Millisecond)
				}
				whole := state.agent()
				whole.Model = scripted.New(scripted.Text("All."))
				c.serve(whole)
				if res := came(t, run, cairn.RunCompleted); !strings.Contains(res.Text, "All.") {
					t.Errorf("came to %q", res.Text)
				}
			})
		}
	}
}

// A server that cannot be reached within the agent's patience, and one whose session comes to nothing, fail the call.
func TestRemoteAgentIsGivenUp(t *testing.T) {
	t.Parallel()
	const idle = `{"session":{"id":"a","agent":"sage","status":"idle"},"resumable":{"resume":false},"calls":[],"session_id":"a","run_id":"b"}`
	for _, c := range []struct {
		name   string
		status int
		body   string
		cause  string
	}{
		{"away", http.StatusBadGateway, "", "the server of agent sage cannot be reached"},
		{"it comes to nothing", http.StatusOK, idle, "neither continues nor ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			far := newCallee(t, speaking())
			far.refuses(c.status, c.body)
			other := client.RemoteAgent(far.client, client.RemoteOptions{Name: "sage", Patience: 300 * time.Millisecond})
			other.Retry = &cairn.RetryPolicy{Max: -1}
			res := came(t, ask(t, caller(t, memstore.New(nil), asks(other))), cairn.RunCompleted)
			if !strings.Contains(res.Text, c.cause) || strings.Contains(res.Text, strings.TrimPrefix(far.url, "http://")) {
				t.Errorf("the model reads %q, want %q", res.Text, c.cause)
			}
		})
	}
}

// A companion on another server remembers, and its typed output is one here.
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
	if res := came(t, run, cairn.RunFailed); !errors.Is(res.Error, &cairn.Error{Code: cairn.CodeModelRequest}) {
		t.Errorf("a branch: %v", res.Error)
	}
}

// What a remote agent draws is a file here: of every step, once, though the other server was away when it was asked for.
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
