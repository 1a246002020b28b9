package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// newDigger returns an engine with an agent that digs, with a map that another agent makes, until it is stopped or
// the directory's file "found" has a line.
func newDigger(dir string) (*engine.Engine, error) {
	mapper := &cairn.Agent{Name: "mapper", Description: "Makes maps.", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text("a secret map")
	})}
	dig := cairn.Func("dig", "Digs.", func(ctx context.Context, _ *cairn.Call, in text) (string, error) {
		note(dir, "dig", "begun")
		if in.Text == "" {
			return "", errors.New("a secret reason")
		}
		if err := testclock.Poll(ctx, func() bool { return len(notes(dir, "found")) > 0 }); err != nil {
			note(dir, "dig", "stopped")
			return "", err
		}
		return "a secret treasure", nil
	})
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch len(req.Messages) {
		case 1:
			return scripted.Reply(scripted.Text("My secret plan."), scripted.Call("mapper", map[string]string{"input": "A secret place."}))
		case 3:
			return scripted.Call("dig", text{""})
		case 5:
			return scripted.Call("dig", text{"a secret hole"})
		}
		return scripted.Text("my secret")
	})
	return engine.New(memstore.New(nil), []*cairn.Agent{{Name: "digger", Model: model, Tools: []cairn.Tool{dig, cairn.SubAgent(mapper)}}}, nil)
}

func diggers(eng *engine.Engine) (*mcp.Agents, error) {
	return mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "digger", Description: "Digs.", Message: "Dig."}}, nil)
}

func diggerOverPipes(ctx context.Context, dir string) error {
	eng, err := newDigger(dir)
	if err != nil {
		return err
	}
	defer eng.Close(ctx)
	agents, err := diggers(eng)
	if err != nil {
		return err
	}
	return agents.Stdio(ctx)
}

// site is a client of a digger.
type site struct {
	*testing.T
	dir    string
	eng    *engine.Engine // nil over pipes
	client *sdk.ClientSession

	mu    sync.Mutex
	lines []string
	bad   []string
}

// sites connects a client in each way: by revision over HTTP, and over pipes.
func sites(t *testing.T, do func(*site)) {
	t.Helper()
	for _, way := range []string{"2026-07-28", "2025-11-25", "2025-03-26", "pipes, 2026-07-28", "pipes, 2025-06-18"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			revision, pipes := strings.CutPrefix(way, "pipes, ")
			s := &site{T: t, dir: t.TempDir()}
			var transport sdk.Transport
			if pipes {
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(self)
				cmd.Env = append(os.Environ(), "MCP_TEST=digger", "MCP_TEST_DIR="+s.dir)
				transport = &sdk.CommandTransport{Command: cmd}
			} else {
				transport = &sdk.StreamableClientTransport{Endpoint: s.serve(), HTTPClient: &http.Client{Transport: bearer("ada")}}
			}
			progressed := func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { s.note(req.Params) }
			client := sdk.NewClient(&sdk.Implementation{Name: "visitor", Version: "1"}, &sdk.ClientOptions{ProgressNotificationHandler: progressed})
			session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			if got := session.InitializeResult().ProtocolVersion; got != revision {
				t.Fatalf("the revision is %s", got)
			}
			s.client = session
			do(s)
		})
	}
}

// serve serves a digger over HTTP.
func (s *site) serve() string {
	eng, err := newDigger(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	s.eng = eng
	s.Cleanup(func() { eng.Close(context.Background()) })
	agents, err := diggers(eng)
	if err != nil {
		s.Fatal(err)
	}
	handler, err := agents.Handler(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })
	if err != nil {
		s.Fatal(err)
	}
	web := httptest.NewServer(handler)
	s.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	s.Cleanup(func() { note(s.dir, "found", "it") }) // no turn stays behind
	return web.URL
}

// note records a notification.
func (s *site) note(n *sdk.ProgressNotificationParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, n.Message)
	if n.ProgressToken != "dig-1" || n.Progress != float64(len(s.lines)) || n.Total != 0 {
		s.bad = append(s.bad, fmt.Sprintf("%+v", n))
	}
}

func (s *site) seen(line string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.lines, line)
}

func (s *site) dig(ctx context.Context, token any) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: "digger", Arguments: map[string]any{}}
	if token != nil {
		params.SetProgressToken(token)
	}
	return s.client.CallTool(ctx, params)
}

// A client that gives a token learns of the steps and calls of a turn while it runs, and of nothing that they say.
func TestProgressOfATurn(t *testing.T) {
	t.Parallel()
	sites(t, func(s *site) {
		ended := make(chan error, 1)
		go func() {
			res, err := s.dig(s.Context(), "dig-1")
			if err == nil && res.IsError {
				err = errors.New("the call failed")
			}
			ended <- err
		}()
		testclock.Await(s.T, "the report of the last call", func() bool { return s.seen("digger: step 3") && len(notes(s.dir, "dig")) == 2 })
		note(s.dir, "found", "it")
		if err := <-ended; err != nil {
			s.Fatal(err)
		}
		testclock.Await(s.T, "the report of the last step", func() bool { return s.seen("digger: step 4") })
		s.mu.Lock()
		defer s.mu.Unlock()
		want := []string{"digger: step 1", "digger: mapper called", "mapper: step 1", "digger: mapper completed", "digger: step 2", "digger: dig called", "digger: dig failed", "digger: step 3",
			"digger: dig called", "digger: dig completed", "digger: step 4"}
		if !slices.Equal(s.lines, want) || len(s.bad) > 0 {
			s.Errorf("the client learns of %q, %s", s.lines, s.bad)
		}
	})
}

// A client that gives no token is sent nothing but the result.
func TestNoProgressUnasked(t *testing.T) {
	t.Parallel()
	sites(t, func(s *site) {
		note(s.dir, "found", "it")
		if res, err := s.dig(s.Context(), nil); err != nil || res.IsError {
			s.Fatalf("the call came to %+v, %v", res, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.lines) > 0 {
			s.Errorf("the client learns of %q", s.lines)
		}
	})
}

// A call that its client cancels, in the way of its transport and revision, interrupts the turn, whether or not the
// client follows the progress. In an earlier revision over HTTP a turn outlives the connection.
func TestCancelledTurn(t *testing.T) {
	t.Parallel()
	for _, token := range []any{nil, "dig-1", 7} {
		sites(t, func(s *site) {
			ctx, cancel := context.WithCancel(s.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.dig(ctx, token)
				ended <- err
			}()
			testclock.Await(s.T, "the agent to dig", func() bool { return len(notes(s.dir, "dig")) == 2 })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				s.Errorf("the call came to %v", err)
			}
			earlier := s.eng != nil && s.client.InitializeResult().ProtocolVersion < "2026-07-28"
			if earlier {
				s.client.Close()
				note(s.dir, "found", "it")
			} else {
				testclock.Await(s.T, "the agent to stop", func() bool { return slices.Contains(notes(s.dir, "dig"), "stopped") })
			}
			if s.eng == nil {
				return
			}
			want := cairn.SessionCompleted
			if !earlier {
				want = cairn.SessionInterrupted
			}
			testclock.Await(s.T, "the turn to end", func() bool {
				page, err := s.eng.Sessions(s.Context(), store.SessionQuery{})
				if err != nil {
					s.Fatal(err)
				}
				return slices.ContainsFunc(page.Items, func(row cairn.Session) bool { return row.ParentID == "" && row.Status == want })
			})
		})
	}
}

// A notification that cancels a request of an earlier revision over HTTP does not say which of the user's clients it is
// from, and request ids are a client's own: it stops no turn.
func TestCancellationOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := &site{T: t, dir: t.TempDir()}
	address := s.serve()
	post := func(body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"ada"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	answer := make(chan string, 1)
	go func() {
		raw, _ := io.ReadAll(post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"digger","arguments":{}}}`).Body)
		answer <- string(raw)
	}()
	testclock.Await(t, "the agent to dig", func() bool { return len(notes(s.dir, "dig")) == 2 })
	if resp := post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); resp.StatusCode != http.StatusAccepted {
		t.Errorf("the notification is answered with %s", resp.Status)
	}
	note(s.dir, "found", "it")
	if got := <-answer; !strings.Contains(got, "my secret") || slices.Contains(notes(s.dir, "dig"), "stopped") {
		t.Errorf("the call came to %s", got)
	}
}

// A turn with many calls does not flood its client.
func TestProgressIsBounded(t *testing.T) {
	t.Parallel()
	const calls = 100
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, none) (string, error) { return "seen", nil })
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) > 1 {
			return scripted.Text("done")
		}
		return scripted.Reply(slices.Repeat([]scripted.Step{scripted.Call("look", none{})}, calls)...)
	})
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "clerk", Model: model, Tools: []cairn.Tool{look}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	s := &site{T: t}
	progressed := func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { s.note(req.Params) }
	transport := &sdk.StreamableClientTransport{Endpoint: office(t, eng), HTTPClient: &http.Client{Transport: bearer("ada")}}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "visitor", Version: "1"}, &sdk.ClientOptions{ProgressNotificationHandler: progressed}).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	params := &sdk.CallToolParams{Name: "clerk", Arguments: map[string]any{"message": "go"}}
	params.SetProgressToken("dig-1")
	began := time.Now()
	if res, err := client.CallTool(t.Context(), params); err != nil || res.IsError {
		t.Fatalf("the call came to %+v, %v", res, err)
	}
	most := 32 + int(time.Since(began)/time.Second)
	testclock.Await(t, "the first notifications", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.lines) >= 32
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) > most || len(s.bad) > 0 {
		t.Errorf("the client is sent %d notifications, %s", len(s.lines), s.bad)
	}
}
