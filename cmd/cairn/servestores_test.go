//go:build !demo

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/mcp"
)

// A server on PostgreSQL or Redis is killed, with an approved call under way in one session and an approval pending
// in another. The next server completes both turns.
func TestServeKilledOnServers(t *testing.T) {
	t.Parallel()
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.env["CAIRN_DB"], b.env[withLease] = place, testenv.Choose("5s", "")
			wantServedAfterKill(t, b, "")
		})
	}
}

// The next server also completes both turns if Temporal or DBOS drives the runs.
func TestServeKilledOnHosts(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]func(b *bench) string{
		"temporal": func(*bench) string {
			return fmt.Sprintf("temporal://%s?queue=serve%d", testenv.Temporal(t), queueNumber.Add(1))
		},
		"dbos": func(b *bench) string {
			return fmt.Sprintf("dbos:sqlite:%s?queue=serve%d", filepath.Join(b.dir, "dbos.db"), queueNumber.Add(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if name == "dbos" { // Temporal's own retries need more than 11 seconds
				b.env[withLease] = testenv.Choose("5s", "")
			}
			wantServedAfterKill(t, b, "host: "+host(b))
		})
	}
}

// A server that DBOS knows by name resumes its turns at once, long before their leases lapse.
func TestServeKilledUnderAName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env[withLease] = "1h"
	wantServedAfterKill(t, b, fmt.Sprintf("host: dbos:sqlite:%s\nexecutor: worker-1", filepath.Join(b.dir, "dbos.db")))
}

// wantServedAfterKill kills a server halfway through two turns and wants the next one to complete both. more is
// added to the store, the tokens and the assistant in its file.
func wantServedAfterKill(t *testing.T, b *bench, more string) {
	till, paid := newTill(t)
	assistant := fmt.Sprintf("  - {name: guide, model: 'scripted:0s', tools: [{mcp: {url: %q}, approve: [payment]}]}", till.URL)
	file := b.file(t, "cairn.yaml", assistant+"\n"+more)
	s := b.serve(t, file)
	s.offers("payment")
	approveOne := s.pays("one")
	approveTwo := s.pays("two")
	s.ask("POST", "/submit-tool-result", approveOne, http.StatusOK, nil)
	first := <-paid
	s.signal(syscall.SIGKILL)
	s.end()

	again := b.serve(t, file)
	again.ask("POST", "/submit-tool-result", approveTwo, http.StatusOK, nil)
	calls := map[string]int{first: 1}
	for _, session := range []string{"one", "two"} {
		if run := again.completed(session); !strings.Contains(run.Text, "payment returned") {
			t.Errorf("%s came to %+v", session, run)
		}
		calls[<-paid]++
	}
	if len(calls) != 2 || calls[first] != 2 {
		t.Errorf("the tool was called as %v, want the call under way once more under its key, and the other once", calls)
	}
	again.signal(syscall.SIGTERM)
	if _, stderr, code := again.end(); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// pays starts a turn that waits for an approval, and returns the body of the request that gives it.
func (s *servingProcess) pays(session string) string {
	s.t.Helper()
	run := s.say(session, "payment")
	if run.Suspended == nil || len(run.Suspended.Calls) != 1 {
		s.t.Fatalf("the run does not wait: %+v", run)
	}
	call := run.Suspended.Calls[0]
	return fmt.Sprintf(`{"session_id": %q, "type": "approval-response", "call_id": %q, "approval_id": %q, "approved": true}`, session, call.ID, call.ApprovalID)
}

// completed waits until the second run of a session, which the server's worker begins, has completed.
func (s *servingProcess) completed(session string) (last cairn.Run) {
	s.t.Helper()
	testclock.Await(s.t, "the second run of "+session+" to complete", func() bool {
		runs := s.runs(session)
		last = runs[len(runs)-1]
		if len(runs) == 2 && last.Status == cairn.RunCompleted {
			return true
		}
		_ = testclock.Pause(s.t.Context(), 250*time.Millisecond) // the requests of a user are limited
		return false
	})
	return last
}

// newTill starts an MCP server with one tool, payment, and returns the idempotency keys of its calls as they
// arrive. The first call is never answered.
func newTill(t *testing.T) (*httptest.Server, <-chan string) {
	t.Helper()
	paid := make(chan string, 10)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Meta            map[string]any `json:"_meta"`
			}
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.ID == nil {
			w.WriteHeader(http.StatusAccepted) // a notification
			return
		}
		var result any
		switch req.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": req.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "till", "version": "1"}}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{"name": "payment", "inputSchema": map[string]any{"type": "object"}}}}
		case "tools/call":
			key, _ := req.Params.Meta[mcp.MetaIdempotencyKey].(string)
			paid <- key
			select {
			case <-first:
				<-r.Context().Done()
				return
			default:
			}
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "a receipt"}}}
		default:
			result = map[string]any{}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": req.ID, "result": result}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv, paid
}
