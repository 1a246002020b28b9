package server

import (
	"net/http"
	"time"
)

// Observer is notified of a handler's requests and streams, for metrics. Its methods are called concurrently and should
// return quickly. A route is a method and path of the list of routes, such as "GET /sessions/{id}", or "other" for
// requests that match none. The set of routes is therefore bounded, and none names a session or a user.
type Observer interface {
	// Request is called at the end of each request with the status of its response, or 499 if the client did not
	// wait for one, and the time until the response began. For a stream this does not depend on how long its client
	// stays.
	Request(route string, status int, took time.Duration)
	// StreamOpened and StreamClosed are called for each stream; cut reports that it ended before it was complete.
	StreamOpened(route string)
	StreamClosed(route string, cut bool)
	// StreamEvent is called for each event sent to a stream; the replay of the events that a chat has missed counts as
	// one.
	StreamEvent(route string)
	// Drained is called when the handler is drained.
	Drained()
}

// otherRoute is the route of requests that match none.
const otherRoute = "other"

// unobserved is the Observer of a handler without one.
type unobserved struct{}

func (unobserved) Request(string, int, time.Duration) {}
func (unobserved) StreamOpened(string)                {}
func (unobserved) StreamClosed(string, bool)          {}
func (unobserved) StreamEvent(string)                 {}
func (unobserved) Drained()                           {}

// observe returns a writer that records the response, and a function that notifies the observer at the end of the
// request.
func observe(by Observer, w http.ResponseWriter, route string) (http.ResponseWriter, func()) {
	if route == "" {
		route = otherRoute
	}
	out := &observed{ResponseWriter: w, asked: time.Now()}
	return out, func() {
		if out.status == 0 {
			out.begin(499)
		}
		by.Request(route, out.status, out.took)
	}
}

// observed keeps the status of a response, and the time until it began.
type observed struct {
	http.ResponseWriter
	asked  time.Time
	status int
	took   time.Duration
}

func (o *observed) begin(status int) {
	if o.status == 0 {
		o.status, o.took = status, time.Since(o.asked)
	}
}

// WriteHeader keeps the status.
func (o *observed) WriteHeader(status int) {
	o.begin(status)
	o.ResponseWriter.WriteHeader(status)
}

// Write writes part of the body.
func (o *observed) Write(b []byte) (int, error) {
	o.begin(http.StatusOK)
	return o.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }
