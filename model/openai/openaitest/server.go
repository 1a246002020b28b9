// Package openaitest is a local server that speaks OpenAI's Chat Completions protocol with scripted replies, for tests
// of what asks such a server.
//
// It is strict where the real one is: a request that OpenAI would refuse, a tool call without a result for example, is
// refused with the same kind of error.
package openaitest

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	s.closed = make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serve)
	s.http = httptest.NewServer(mux)
	s.BaseURL = s.http.URL + "/v1"
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

// RequireKey makes the server refuse requests without this bearer token.
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
		refusal.write(w, 0)
		return
	}
	reply, n := s.next(req)
	s.play(w, r, req, &reply, n)
}

// accept reads a request and refuses what OpenAI would refuse.
func (s *Server) accept(r *http.Request) (*Request, *Reply) {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
		refusal := Fail(http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided.")
		return nil, &refusal
	}
	req := &Request{Header: r.Header.Clone()}
	err := json.NewDecoder(r.Body).Decode(&req.Body)
	if err == nil {
		err = json.Unmarshal(req.Body, req)
	}
	if err != nil {
		err = fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	} else {
		err = req.check()
	}
	if err != nil {
		refusal := Fail(http.StatusBadRequest, "", err.Error())
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
			reply = Fail(http.StatusBadRequest, "", fmt.Sprintf("request %d is beyond the script, which has %d replies", n, len(s.replies)))
		}
	}
	s.mu.Unlock()
	if decide != nil {
		reply = decide(req)
	}
	return reply, n
}

// write answers with the reply's error.
func (r *Reply) write(w http.ResponseWriter, n int) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", fmt.Sprintf("req_%d", n))
	w.WriteHeader(r.Status)
	body := r.Raw
	if body == "" {
		body = encode(map[string]any{"error": r.failure()})
	}
	_, _ = w.Write([]byte(body)) // the client may be gone
}

func (r *Reply) failure() map[string]any {
	kind := "invalid_request_error"
	switch {
	case r.Code == "insufficient_quota":
		kind = r.Code
	case r.Status == http.StatusTooManyRequests:
		kind = "requests"
	case r.Status >= 500 || r.Status == 0:
		kind = "server_error"
	}
	var code any
	if r.Code != "" {
		code = r.Code
	}
	return map[string]any{"message": cmp.Or(r.Message, http.StatusText(r.Status)), "type": kind, "param": nil, "code": code}
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package come here
	}
	return string(data)
}
