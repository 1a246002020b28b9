// Package openaitest is a local server for OpenAI's Responses API with scripted replies, for tests of its clients.
//
// It is as strict as the real one. A request that OpenAI would reject, for example a call without an output or
// encrypted reasoning that the server did not give out, gets the same kind of error.
package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Server is a running server. It is safe for concurrent use.
type Server = testserver.Server[*Request, Reply]

// Wire says how a reply is sent, and which faults occur.
type Wire = testserver.Wire

// NewServer starts a server that gives one reply per request. A request beyond the script is rejected with status
// 400. Close it when done.
func NewServer(replies ...Reply) *Server { return testserver.New(protocol, nil, replies) }

// NewFunc starts a server that asks decide for each reply. decide may be called concurrently. Close it when done.
func NewFunc(decide func(*Request) Reply) *Server { return testserver.New(protocol, decide, nil) }

var protocol = testserver.Protocol[*Request, Reply]{
	Route:  "POST /v1/responses",
	Base:   "/v1",
	Key:    testserver.Bearer,
	Denied: testserver.NoBearer,
	Read: func(r *http.Request, body []byte) (*Request, error) {
		req := &Request{Header: r.Header.Clone(), Body: body}
		if err := json.Unmarshal(body, req); err != nil {
			return nil, fmt.Errorf("we could not parse the JSON body of your request: %w", err)
		}
		return req, req.check()
	},
	CountRoute: "POST /v1/responses/input_tokens",
	Count: func(r *http.Request, body []byte) (any, bool, error) {
		if !strings.HasSuffix(r.URL.Path, "/input_tokens") {
			return nil, false, nil
		}
		err := testserver.Extra(body, "conversation", "input", "instructions", "model", "parallel_tool_calls", "personality",
			"previous_response_id", "reasoning", "text", "tool_choice", "tools", "truncation")
		req := &Request{Store: new(bool), Stream: true}
		if err == nil {
			err = json.Unmarshal(body, req)
		}
		if err == nil {
			err = req.check()
		}
		return map[string]any{"object": "response.input_tokens", "input_tokens": testserver.CountTokens(body)}, true, err
	},
	CompactRoute: "POST /v1/responses/compact",
	Compact:      compact,
	Wire:         func(r *Reply) *Wire { return &r.Wire },
	Events:       func(req *Request, r *Reply, n int) []string { return r.events(req, n) },
	Failure:      func(w *Wire) any { return map[string]any{"error": testserver.OpenAIFailure(w)} },
}
