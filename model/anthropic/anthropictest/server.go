// Package anthropictest is a local server that speaks Anthropic's Messages API with scripted replies, for tests of what
// asks such a server.
//
// It is strict where the real one is: a request that Anthropic would refuse, a tool use without a result or thinking with
// a signature that does not match what stands before it for example, is refused with the same kind of error.
package anthropictest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// Server is a running server. It is safe for concurrent use.
type Server struct {
	// BaseURL is the address to configure a client with.
	BaseURL string

	http   *httptest.Server
	key    string
	decide func(*Request) Reply
	closed chan struct{}

	mu       sync.Mutex
	replies  []Reply
	calls    int
	requests []*Request
	given    map[string]bool // items that cannot be checked otherwise: redacted thinking
}

// NewServer starts a server that gives one reply per request. A request beyond the script is refused with status 400.
// Close it when done.
func NewServer(replies ...Reply) *Server {
	return start(&Server{replies: slices.Clone(replies)})
}

// NewFunc starts a server that asks decide for each reply; decide may be called concurrently. Close it when done.
func NewFunc(decide func(*Request) Reply) *Server {
	return start(&Server{decide: decide})
}

func start(s *Server) *Server {
	s.closed, s.given = make(chan struct{}), map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", s.serve)
	s.http = httptest.NewServer(mux)
	s.BaseURL = s.http.URL
	return s
}

// Close ends open replies and stops the server.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.http.Close()
}

// RequireKey makes the server refuse requests without this key.
func (s *Server) RequireKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Add appends replies to the script.
func (s *Server) Add(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// Requests returns the requests that got a reply of the script, oldest first. They must not be modified.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	req, refusal := s.accept(r)
	if refusal != nil {
		refusal.write(w)
		return
	}
	reply, n := s.next(req)
	s.play(w, r, req, &reply, n)
}

// accept reads a request and refuses what Anthropic would refuse.
func (s *Server) accept(r *http.Request) (*Request, *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != "" && r.Header.Get("X-Api-Key") != s.key {
		refusal := Fail(http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
		return nil, &refusal
	}
	req := &Request{Header: r.Header.Clone()}
	var err error
	switch req.Body, err = io.ReadAll(r.Body); {
	case err != nil:
	case r.Header.Get("Anthropic-Version") == "":
		err = fmt.Errorf("anthropic-version: header is required")
	default:
		if err = json.Unmarshal(req.Body, req); err == nil {
			err = req.check(s.given)
		}
	}
	if err != nil {
		refusal := Fail(http.StatusBadRequest, "invalid_request_error", err.Error())
		return nil, &refusal
	}
	return req, nil
}

// next records the request and finds its reply and its number, from 1.
func (s *Server) next(req *Request) (Reply, int) {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.requests = append(s.requests, req)
	decide := s.decide
	var reply Reply
	if decide == nil {
		if n <= len(s.replies) {
			reply = s.replies[n-1]
		} else {
			reply = Fail(http.StatusBadRequest, "invalid_request_error",
				fmt.Sprintf("request %d is beyond the script, which has %d replies", n, len(s.replies)))
		}
	}
	s.mu.Unlock()
	if decide != nil {
		reply = decide(req)
	}
	return reply, n
}
