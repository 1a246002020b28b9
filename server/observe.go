package server

import (
	"net/http"
	"time"
)

// Observer is notified of what a handler does, for metrics. Its methods are called by many goroutines at once and should
// return quickly. A route is its method and path as in the list of routes, such as "GET /sessions/{id}", or "other" for
// requests that no route is for: there are no more of them than routes, and none names a session or a user.
type Observer interface {
	// Request is called at the end of each request with the status of its answer, 499 if its client did not wait for one, and
	// the time that it took until the answer began: so that of a stream does not depend on how long its client stays.
	Request(route string, status int, took time.Duration)
	// StreamOpened and StreamClosed are called for each stream; cut says that it ended before it was whole.
	StreamOpened(route string)
	StreamClosed(route string, cut bool)
	// StreamEvent is called for each event that goes to a stream; what a chat has missed counts as one.
	StreamEvent(route string)
	// Drained is called when the handler is drained.
	Drained()
}

// otherRoute is the route of requests that no route is for.
const otherRoute = "other"

// unobserved is the Observer of a handler without one.
type unobserved struct{}

func (unobserved) Request(string, int, time.Duration) {}
func (unobserved) StreamOpened(string)                {}
func (unobserved) StreamClosed(string, bool)          {}
func (unobserved) StreamEvent(string)                 {}
func (unobserved) Drained()                           {}

// observe calls an observer at the end of a request.
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

// observed keeps the status of an answer, and when it began.
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
