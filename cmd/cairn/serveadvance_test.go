//go:build !demo

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// The server posts a ticket for a run, again if the caller does not take it. Another process drives the run with that
// ticket, after the first one was killed and the secret was replaced.
func TestServeAdvance(t *testing.T) {
	t.Parallel()
	tickets := make(chan string, 10)
	var asked atomic.Int64
	queue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var in struct{ Ticket string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "Bearer queue" {
			t.Errorf("%v of %q", err, r.Header.Get("Authorization"))
		}
		tickets <- in.Ticket
	}))
	defer queue.Close()
	b := newBench(t)
	old, next := strings.Repeat("old-", 8), strings.Repeat("new-", 8)
	s := b.serve(t, b.settings(t, fmt.Sprintf("advance: {secret: %s, start: %q, start_token: queue}", old, queue.URL)))
	var begun client.Started
	s.ask("POST", "/start", `{"session_id": "s", "agent": "guide", "input": {"text": "hello"}}`, http.StatusAccepted, &begun)
	ticket := <-tickets
	s.signal(syscall.SIGKILL)
	s.end()

	other := b.serve(t, b.settings(t, fmt.Sprintf("advance: {secret: %s, earlier_secrets: [%s]}", next, old)))
	for range 10 {
		var out struct{ State, Ticket string }
		other.ask("POST", "/advance", fmt.Sprintf(`{"ticket": %q}`, ticket), http.StatusOK, &out)
		if out.State != "more" {
			break
		}
		ticket = out.Ticket
	}
	if run := other.runs("s")[0]; run.ID != begun.RunID || run.Status != cairn.RunCompleted {
		t.Errorf("the run is %+v", run)
	}
	other.signal(syscall.SIGTERM)
	other.ended()
	last := b.serve(t, b.settings(t, fmt.Sprintf("advance: {secret: %s}", strings.Repeat("third-", 8))))
	last.ask("POST", "/advance", fmt.Sprintf(`{"ticket": %q}`, ticket), http.StatusUnauthorized, nil)
	last.signal(syscall.SIGTERM)
	last.ended()
	without := b.serve(t, b.settings(t, ""))
	without.ask("POST", "/advance", fmt.Sprintf(`{"ticket": %q}`, ticket), http.StatusNotFound, nil)
	without.signal(syscall.SIGTERM)
	without.ended()
}
