package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// bank is an MCP server with an authorisation server that rotates refresh tokens: each is valid once, and the grant ends
// when one is used again.
type bank struct {
	url string

	mu        sync.Mutex
	given     int // number of the valid tokens; 0 if there are none
	revoked   bool
	refreshes int
	reused    bool
	rejected  map[string]bool // processes with a request that was rejected since the token was revoked
	both      chan struct{}   // closed once these are two
}

func newBank(t *testing.T) *bank {
	b := &bank{rejected: map[string]bool{}, both: make(chan struct{})}
	s := sdk.NewServer(&sdk.Implementation{Name: "bank", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "balance", Description: "Returns the balance."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "42 crowns"}}}, nil, nil
	})
	tools := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	b.url = web.URL
	reply := func(value map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value)
		}
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if !b.accepts(r) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", b.url+"/meta"))
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	})
	mux.HandleFunc("/meta", reply(map[string]any{"resource": b.url + "/mcp", "authorization_servers": []string{b.url}}))
	mux.HandleFunc("/.well-known/oauth-authorization-server", reply(map[string]any{"issuer": b.url, "authorization_endpoint": b.url + "/authorize",
		"token_endpoint": b.url + "/token", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}}))
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"code"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", b.token)
	return b
}

// accepts reports whether a request has the valid access token.
func (b *bank) accepts(r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.revoked && b.given > 0 && r.Header.Get("Authorization") == fmt.Sprint("Bearer access-", b.given) {
		return true
	}
	if p := r.Header.Get("X-Process"); b.revoked && !b.rejected[p] {
		b.rejected[p] = true
		if len(b.rejected) == 2 {
			close(b.both)
		}
	}
	return false
}

// token issues tokens. It answers a refresh once requests of both processes were rejected.
func (b *bank) token(w http.ResponseWriter, r *http.Request) {
	refresh := r.FormValue("grant_type") == "refresh_token"
	b.mu.Lock()
	both := b.both
	b.mu.Unlock()
	if refresh {
		select {
		case <-both:
		case <-r.Context().Done():
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if refresh {
		b.refreshes++
		if r.FormValue("refresh_token") != fmt.Sprint("refresh-", b.given) {
			b.given, b.reused = 0, true
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
	}
	b.given++
	b.revoked = false
	fmt.Fprintf(w, `{"access_token":"access-%d","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%d"}`, b.given, b.given)
}

// revoke invalidates the access token, not the refresh token.
func (b *bank) revoke() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked, b.rejected, b.both = true, map[string]bool{}, make(chan struct{})
}

// teller returns an engine over a handle of its own of the store's file, as a process has it, and the handler with which
// users connect.
func teller(t *testing.T, file, name, app string, b *bank) (*engine.Engine, http.Handler) {
	t.Helper()
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mcp.NewConnector(st, mcp.ConnectorOptions{Key: make([]byte, 32), Address: app,
		Authenticate: func(*http.Request) (string, error) { return "ada", nil }})
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcp.URL("bank", b.url+"/mcp", &mcp.Options{Auth: connector.Server(mcp.Client{ID: "cairn"}), ListTimeout: time.Minute,
		Header: http.Header{"X-Process": {name}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
			raw, err := json.Marshal(last)
			if err != nil {
				return scripted.Fail(err)
			}
			return scripted.Text(string(raw))
		}
		tool := "bank_connect"
		for _, offer := range req.Tools {
			if offer.Name == "bank_balance" {
				tool = offer.Name
			}
		}
		return scripted.Call(tool, struct{}{})
	})
	eng, err := engine.New(st, []*cairn.Agent{{Name: "teller", Model: model, Toolsets: []cairn.Toolset{server}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	return eng, connector.Handler(eng)
}

// Two processes over one file, with several sessions of a user each, have a token that the bank rejects. One of them
// refreshes it, once, and every call gets its result.
func TestProcessesOverOneFileRefreshOnce(t *testing.T) {
	t.Parallel()
	file, b := filepath.Join(t.TempDir(), "bank.db"), newBank(t)
	var handler http.Handler
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(app.Close)
	var tellers [2]*engine.Engine
	for i := range tellers {
		tellers[i], handler = teller(t, file, fmt.Sprint(i), app.URL, b)
	}
	ask := func(i int, session string) *cairn.Result {
		run, err := tellers[i].Execute(t.Context(), session, "teller", cairn.Text("What is my balance?"), engine.WithUser("ada"))
		if err != nil {
			t.Errorf("session %s: %v", session, err)
			return &cairn.Result{}
		}
		res, err := run.Wait(t.Context())
		if err != nil {
			t.Errorf("session %s: %v", session, err)
			return &cairn.Result{}
		}
		return res
	}
	res := ask(1, "first")
	if res.Suspended == nil {
		t.Fatalf("the user is not asked to connect: %s", res.Text)
	}
	var payload struct{ URL string }
	if err := json.Unmarshal(res.Suspended.Calls[0].Payload, &payload); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(payload.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the user gets %d", resp.StatusCode)
	}
	for i := range tellers {
		if res := ask(i, fmt.Sprint("before-", i)); !strings.Contains(res.Text, "42 crowns") {
			t.Fatalf("process %d gets %s", i, res.Text)
		}
	}
	for round := 1; round <= 3; round++ {
		b.revoke()
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				if res := ask(n%2, fmt.Sprintf("round-%d-%d", round, n)); !strings.Contains(res.Text, "42 crowns") {
					t.Errorf("round %d, session %d gets %q, %+v", round, n, res.Text, res.Suspended)
				}
			})
		}
		all.Wait()
		b.mu.Lock()
		if b.refreshes != round || b.reused {
			t.Errorf("after %d rejections the token was refreshed %d times; one was used again: %t", round, b.refreshes, b.reused)
		}
		b.mu.Unlock()
	}
}
