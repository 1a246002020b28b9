package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A lost session or a failure on the other server fails the call with the cause.
func TestRemoteAgentIsLost(t *testing.T) {
	t.Parallel()
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		res := came(t, ask(t, eng), cairn.RunSuspended)
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
		c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "secret words")))})
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		if res := came(t, ask(t, eng), cairn.RunCompleted); !strings.Contains(res.Text, "content filtered") || strings.Contains(res.Text, "secret") {
			t.Errorf("came to %q", res.Text)
		}
	})
}

// A server that rejects the caller fails the call. A busy server is retried when it says.
func TestRemoteServerRefuses(t *testing.T) {
	t.Parallel()
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

// hangsUp makes the server break off without a response.
func (c *callee) hangsUp() {
	var gone http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c.handler.Store(&gone)
}

// away makes the server break off without a response, or a proxy respond with a status in its place.
func (c *callee) away(status int) {
	if status == 0 {
		c.hangsUp()
		return
	}
	c.refuses(status, "")
}

// leaves ends the process of the server in the middle of its work. Its address then sends no responses.
func (c *callee) leaves() {
	c.hangsUp()
	c.srv.CloseClientConnections()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.eng.Close(ctx)
}

// refuses makes the server respond to each request with a status and a body. A proxy leaves the body empty.
func (c *callee) refuses(status int, body string) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	c.handler.Store(&handler)
}

// asksThenSpeaks is an agent that asks for an approval, and speaks without end once it has it.
func asksThenSpeaks() *cairn.Agent {
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil }, cairn.RequireApproval())
	return &cairn.Agent{Name: "sage", Tools: []cairn.Tool{pay}, Model: scripted.New(scripted.Call("pay", nil),
		scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))}
}

// lossStates are the states in which the call of a remote agent can be when the agent is lost.
var lossStates = []struct {
	name  string
	agent func() *cairn.Agent
	// until brings the caller to the state and returns its run. answers means that a pending call is then answered,
	// after the loss, by a new process.
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
		came(t, run, cairn.RunSuspended)
		return run
	}, true},
	{"once its answer was passed on", asksThenSpeaks, func(t *testing.T, eng *engine.Engine) *engine.Run {
		run := approved(t, eng, came(t, ask(t, eng), cairn.RunSuspended))
		spoken(t, run)
		return run
	}, false},
}

// lossKinds are the ways in which a remote agent is lost, with the resulting texts for the calling model and for
// the user.
var lossKinds = []struct {
	name  string
	lose  func(c *callee, agent *cairn.Agent)
	cause string
}{
	{"its store was emptied", func(c *callee, agent *cairn.Agent) {
		c.st = memstore.New(nil)
		c.serve(agent)
	}, "was not found on the remote server"},
	{"its session was deleted", func(c *callee, agent *cairn.Agent) {
		id := c.only("sage").ID
		c.serve(agent)
		c.eng.Interrupt(context.Background(), id, "it is to be deleted") // it may be suspended
		if err := c.eng.Delete(context.Background(), id); err != nil {
			c.t.Error(err)
		}
	}, "was not found on the remote server"},
	{"its session has expired", func(c *callee, agent *cairn.Agent) {
		c.now.Store(int64(8 * 24 * time.Hour))
		c.serve(agent)
		if _, err := c.eng.Sweep(context.Background()); err != nil {
			c.t.Error(err)
		}
	}, "has expired on the remote server"},
	{"its session has expired and was purged", func(c *callee, agent *cairn.Agent) {
		c.now.Store(int64(8 * 24 * time.Hour))
		c.serve(agent)
		_, err := c.eng.Sweep(context.Background())
		c.now.Store(int64(80 * 24 * time.Hour))
		_, jumped := c.eng.Sweep(context.Background()) // removes nothing
		if _, also := c.eng.Sweep(context.Background()); err != nil || jumped == nil || also != nil {
			c.t.Error(err, jumped, also)
		}
	}, "was not found on the remote server"},
	{"the token is not accepted", func(c *callee, agent *cairn.Agent) { c.accept("another", agent) }, "refuses the caller's credentials"},
	{"the caller is forbidden", func(c *callee, _ *cairn.Agent) { c.refuses(http.StatusForbidden, "") }, "refuses the caller's credentials"},
	{"the session is another user's", func(c *callee, agent *cairn.Agent) {
		c.user = "another"
		c.serve(agent)
	}, "was not found on the remote server"},
	{"the server says that it was deleted", func(c *callee, _ *cairn.Agent) {
		c.refuses(http.StatusGone, `{"code":"deleted","detail":"session \"remote_1\" was deleted"}`)
	}, "was deleted on the remote server"},
	{"the server says that it has expired", func(c *callee, _ *cairn.Agent) {
		c.refuses(http.StatusGone, `{"code":"expired","detail":"session \"remote_1\" has expired"}`)
	}, "has expired on the remote server"},
	{"the agent is not there", func(c *callee, agent *cairn.Agent) {
		other := *agent
		other.Name = "other"
		c.serve(&other)
	}, "agent sage not found"},
	{"the server is not there", func(c *callee, _ *cairn.Agent) { c.refuses(http.StatusNotFound, "") }, "no Cairn server found"},
}

// An agent that is lost on the other server fails the call that consults it, in whatever state it is, with the
// cause. Nothing stays in the inbox, and the server's addresses and ids are shown to no reader.
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

// wantLost checks that the user is not shown details of a loss, and that no call is pending.
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

// A companion whose conversation is lost on the other server does not begin another one there as if nothing had
// been said.
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
	if res := came(t, turn(), cairn.RunFailed); !errors.Is(res.Error, &cairn.Error{Code: cairn.ErrLost}) {
		t.Errorf("the second turn: %v", res.Error)
	}
	if n := c.requests("/start"); n != 1 {
		t.Errorf("%d turns were begun there", n)
	}
}

// A temporary outage of the server loses nothing, in any state.
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
				c.away(status)
				before := c.requests("/status")
				if state.answers {
					list, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
					if err != nil || len(list.Items) != 1 {
						t.Fatalf("%d calls in the inbox: %v", len(list.Items), err)
					}
					run = approved(t, eng, &cairn.Result{Suspended: &cairn.Suspension{Calls: []cairn.CallRef{list.Items[0].CallRef}}})
				}
				testclock.Await(t, "it to be tried again", func() bool { return c.requests("/status")+c.requests("/sse") >= before+3 })
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

// A server that cannot be reached within the agent's patience, and one whose session makes no progress, fail the
// call.
func TestRemoteAgentIsAbandoned(t *testing.T) {
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
