// Package geminitest is a local server for the Gemini API with scripted replies, for tests of its clients.
//
// It is as strict as the real one. A request that Google would reject, for example a call without a response or a
// thought signature that does not belong to its part, gets the same kind of error.
package geminitest

import (
	"cmp"
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
	Route:  "POST /v1beta/models/{call}",
	Key:    func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
	Denied: Wire{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "API key not valid. Please pass a valid API key."},
	Read: func(r *http.Request, body []byte) (*Request, error) {
		name, verb, _ := strings.Cut(r.PathValue("call"), ":")
		if verb != "streamGenerateContent" || r.URL.Query().Get("alt") != "sse" {
			return nil, fmt.Errorf("this server only streams")
		}
		req := &Request{Header: r.Header.Clone(), Body: body, Model: name}
		if err := json.Unmarshal(body, req); err != nil {
			return nil, fmt.Errorf("invalid JSON payload received: %w", err)
		}
		return req, req.check()
	},
	Count: func(r *http.Request, body []byte) (any, bool, error) {
		name, verb, _ := strings.Cut(r.PathValue("call"), ":")
		if verb != "countTokens" {
			return nil, false, nil
		}
		var whole struct {
			Request struct {
				Model string `json:"model"`
				Request
			} `json:"generateContentRequest"`
		}
		err := testserver.Extra(body, "generateContentRequest")
		if err == nil {
			err = json.Unmarshal(body, &whole)
		}
		if req := &whole.Request; err == nil && req.Model != "models/"+name {
			err = fmt.Errorf("model: %q is not the one of the address", req.Model)
		}
		if err == nil {
			whole.Request.Request.Model = name
			err = whole.Request.check()
		}
		return map[string]any{"totalTokens": testserver.CountTokens(body)}, true, err
	},
	Wire:    func(r *Reply) *Wire { return &r.Wire },
	Events:  func(req *Request, r *Reply, n int) []string { return r.events(req, n) },
	Failure: failure,
}

func failure(w *Wire) any {
	kinds := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
	status := cmp.Or(w.Status, http.StatusServiceUnavailable)
	return map[string]any{"error": map[string]any{"code": status, "message": w.Message, "status": cmp.Or(w.Code, kinds[status], "UNKNOWN")}}
}
