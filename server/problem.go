package server

import (
	"errors"
	"net/http"

	"github.com/cairn-agents/cairn"
)

// problemBody is the body of an error response (RFC 9457).
type problemBody struct {
	// Title is the text of the status.
	Title string `json:"title"`
	// Status is the HTTP status of the response.
	Status int `json:"status"`
	// Detail describes what is wrong with this request.
	Detail string `json:"detail" names:"text"`
	// Code is one of [cairn.Code], or a code that only HTTP has: "unauthorized", "forbidden", "cross_origin",
	// "method_not_allowed", "media_type", "range_not_satisfiable", "too_many_requests", "too_many_streams",
	// "too_many_runs", "idempotency_key_reused", "ticket_expired".
	Code string `json:"code"`
	// Field names the part of the request that is wrong, if it is a single one.
	Field string `json:"field,omitempty"`
	// Details lists what is wrong, if it is more than one thing.
	Details []string `json:"details,omitempty" names:"text"`
	// Calls are the open calls that the session is paused for, if the code is "waiting".
	Calls []cairn.CallRef `json:"calls,omitempty"`
	// Retryable reports that the same request may succeed later.
	Retryable bool `json:"retryable"`
	// RequestID is the value of the response's X-Request-Id header.
	RequestID string `json:"request_id"`
}

// httpError is an error that only HTTP has.
type httpError struct {
	status int
	code   string
	text   string
}

func (e *httpError) Error() string { return e.text }

// httpStatus returns the status of the response to a failed request.
func httpStatus(err error) int {
	if known := (*httpError)(nil); errors.As(err, &known) {
		return known.status
	}
	return cairn.AsError(err).Code.HTTPStatus()
}

// requestIDHeader carries the id of a request, in the request and in its response. A client may choose the id.
const requestIDHeader = "X-Request-Id"

// noPath returns the error of a path that is not served.
func noPath() error {
	return &httpError{http.StatusNotFound, string(cairn.ErrNotFound), "path not found"}
}
