// Package testserver is the common part of the scripted model servers: scripts, recorded requests, and faults of
// the transport.
package testserver

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// Protocol is the provider-specific part of a server. Q is a request, R a reply of the script.
type Protocol[Q, R any] struct {
	// Route is the pattern of [http.ServeMux] for requests, and Base the end of a client's base URL.
	Route string
	Base  string
	// Key returns the key of a request, and Denied is the response to a wrong one.
	Key    func(http.Header) string
	Denied Wire
	// Read decodes a request, and reports what the provider would reject.
	Read func(r *http.Request, body []byte) (Q, error)
	// Count responds to a request that only counts tokens, with CountTokens as their number; ok is false for any
	// other request. CountRoute is the route of such requests, if it is not Route.
	Count      func(r *http.Request, body []byte) (answer any, ok bool, err error)
	CountRoute string
	// Compact responds to a request that compacts a conversation, at CompactRoute, if the provider supports that.
	Compact      func(r *http.Request, body []byte) (answer any, err error)
	CompactRoute string
	// Wire returns how a reply is sent.
	Wire func(*R) *Wire
	// Events returns reply n as the pieces of a stream. Whole, if set, returns it in one piece if the request asks
	// for that.
	Events func(req Q, reply *R, n int) []string
	Whole  func(req Q, reply *R, n int) (body string, ok bool)
	// Failure returns the body of an error response.
	Failure func(*Wire) any
}

// Server is a running server. It is safe for concurrent use.
type Server[Q, R any] struct {
	// BaseURL is the address to configure a client with.
	BaseURL string

	protocol Protocol[Q, R]
	http     *httptest.Server
	key      string
	decide   func(Q) R
	closed   chan struct{}

	mu       sync.Mutex
	replies  []R
	calls    int
	counts   int
	compacts int
	requests []Q
}

// New starts a server that gives one reply per request, or asks decide, which may be called concurrently. A request
// beyond the script is rejected with status 400. Close it when done.
func New[Q, R any](p Protocol[Q, R], decide func(Q) R, replies []R) *Server[Q, R] {
	s := &Server[Q, R]{protocol: p, decide: decide, replies: slices.Clone(replies), closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc(p.Route, s.serve)
	if p.CompactRoute != "" {
		mux.HandleFunc(p.CompactRoute, s.compact)
	}
	if p.CountRoute != "" {
		mux.HandleFunc(p.CountRoute, s.serve)
	}
	s.http = httptest.NewServer(mux)
	s.BaseURL = s.http.URL + p.Base
	return s
}

// Close ends open replies and stops the server.
func (s *Server[Q, R]) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.http.Close()
}

// RequireKey makes the server reject requests without this key.
func (s *Server[Q, R]) RequireKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Add appends replies to the script.
func (s *Server[Q, R]) Add(replies ...R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// Requests returns the requests that received a reply of the script, oldest first. They must not be modified.
func (s *Server[Q, R]) Requests() []Q {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// allowed reports whether a request has the required key, and rejects it if not.
func (s *Server[Q, R]) allowed(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	if key != "" && s.protocol.Key(r.Header) != key {
		s.fail(w, &s.protocol.Denied, 0)
		return false
	}
	return true
}

// compact responds to a request that compacts a conversation.
func (s *Server[Q, R]) compact(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	var answer any
	if err == nil {
		answer, err = s.protocol.Compact(r, body)
	}
	s.answered(w, &s.compacts, answer, err)
}

func (s *Server[Q, R]) serve(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	var req Q
	if err == nil && s.protocol.Count != nil {
		answer, ok, err := s.protocol.Count(r, body)
		if ok {
			s.answered(w, &s.counts, answer, err)
			return
		}
	}
	if err == nil {
		req, err = s.protocol.Read(r, body)
	}
	if err != nil {
		s.fail(w, &Wire{Status: http.StatusBadRequest, Message: err.Error()}, 0)
		return
	}
	reply, n, ok := s.next(req)
	if !ok {
		s.fail(w, &Wire{Status: http.StatusBadRequest, Message: fmt.Sprintf("request %d is beyond the script", n)}, n)
		return
	}
	wire := s.protocol.Wire(&reply)
	if wire.Status != 0 && wire.Status != http.StatusOK {
		s.fail(w, wire, n)
		return
	}
	if s.protocol.Whole != nil && wire.Raw == "" {
		if whole, ok := s.protocol.Whole(req, &reply, n); ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(whole)) // the client may be gone
			return
		}
	}
	wire.stream(w, r, s.protocol.Events(req, &reply, n), s.closed)
}

// answered responds to a request that asks for no reply, and counts it.
func (s *Server[Q, R]) answered(w http.ResponseWriter, count *int, answer any, err error) {
	if err != nil {
		s.fail(w, &Wire{Status: http.StatusBadRequest, Message: err.Error()}, 0)
		return
	}
	s.mu.Lock()
	*count++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(Encode(answer))) // the client may be gone
}

// Counts returns the number of requests that counted tokens.
func (s *Server[Q, R]) Counts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Compactions returns the number of requests that compacted a conversation.
func (s *Server[Q, R]) Compactions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compacts
}

// CountTokens returns the number of tokens that a server counts in a request.
func CountTokens(body []byte) int { return (len(body) + 3) / 4 }

// Extra returns an error for the first field of a request that an API does not accept.
func Extra(body []byte, known ...string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: extra inputs are not permitted", name)
		}
	}
	return nil
}

// next records the request and returns its reply and its number, from 1; ok is false beyond the script.
func (s *Server[Q, R]) next(req Q) (reply R, n int, ok bool) {
	s.mu.Lock()
	s.calls++
	n = s.calls
	s.requests = append(s.requests, req)
	decide := s.decide
	if decide == nil && n <= len(s.replies) {
		reply, ok = s.replies[n-1], true
	}
	s.mu.Unlock()
	if decide != nil {
		reply, ok = decide(req), true
	}
	return reply, n, ok
}

// fail responds with an error.
func (s *Server[Q, R]) fail(w http.ResponseWriter, wire *Wire, n int) {
	for name, values := range wire.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", fmt.Sprintf("req_%d", n))
	w.WriteHeader(wire.Status)
	body := wire.Raw
	if body == "" {
		body = Encode(s.protocol.Failure(wire))
	}
	_, _ = w.Write([]byte(body)) // the client may be gone
}
