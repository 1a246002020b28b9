// Package anthropictest is a local server for Anthropic's Messages API with scripted replies, for tests of its
// clients.
//
// It is as strict as the real one. A request that Anthropic would reject, for example a tool use without a result
// or thinking whose signature does not match the preceding content, gets the same kind of error.
package anthropictest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Server is a running server. It is safe for concurrent use.
type Server = testserver.Server[*Request, Reply]

// Wire says how a reply is sent, and which faults occur.
type Wire = testserver.Wire

// NewServer starts a server that gives one reply per request. A request beyond the script is rejected with status
// 400. Close it when done.
func NewServer(replies ...Reply) *Server { return testserver.New(protocol(), nil, replies) }

// NewFunc starts a server that asks decide for each reply. decide may be called concurrently. Close it when done.
func NewFunc(decide func(*Request) Reply) *Server { return testserver.New(protocol(), decide, nil) }

// items are values that a server gave out and cannot verify otherwise: redacted thinking.
type items struct {
	mu   sync.Mutex
	list map[string]bool
}

func (g *items) add(item string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list[item] = true
}

func (g *items) has(item string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.list[item]
}

func protocol() testserver.Protocol[*Request, Reply] {
	given := &items{list: map[string]bool{}}
	return testserver.Protocol[*Request, Reply]{
		Route:  "POST /v1/messages",
		Key:    func(h http.Header) string { return h.Get("X-Api-Key") },
		Denied: Wire{Status: http.StatusUnauthorized, Code: "authentication_error", Message: "invalid x-api-key"},
		Read: func(r *http.Request, body []byte) (*Request, error) {
			if r.Header.Get("Anthropic-Version") == "" {
				return nil, fmt.Errorf("anthropic-version: header is required")
			}
			req := &Request{Header: r.Header.Clone(), Body: body}
			if err := json.Unmarshal(body, req); err != nil {
				return nil, err
			}
			return req, req.check(given)
		},
		CountRoute: "POST /v1/messages/count_tokens",
		Count: func(r *http.Request, body []byte) (any, bool, error) {
			if !strings.HasSuffix(r.URL.Path, "/count_tokens") {
				return nil, false, nil
			}
			err := testserver.Extra(body, "cache_control", "context_management", "mcp_servers", "messages", "model", "output_config",
				"speed", "system", "thinking", "tool_choice", "tools")
			req := &Request{MaxTokens: 1, Stream: true}
			if err == nil {
				err = json.Unmarshal(body, req)
			}
			if err == nil {
				err = req.check(given)
			}
			return map[string]int{"input_tokens": testserver.CountTokens(body)}, true, err
		},
		Wire:    func(r *Reply) *Wire { return &r.Wire },
		Events:  func(req *Request, r *Reply, n int) []string { return r.events(given, req, n) },
		Failure: failure,
	}
}
