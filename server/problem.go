package server

import (
	"errors"

	"github.com/cairn-agents/cairn"
)

// Problem is the body of an answer that is an error, by RFC 9457.
type Problem struct {
	// Title is the status in words.
	Title string `json:"title"`
	// Status is the answer's.
	Status int `json:"status"`
	// Detail is what is wrong with this request.
	Detail string `json:"detail"`
	// Code is one of [cairn.Code], or a word for what only HTTP knows: "unauthorized", "cross_origin",
	// "method_not_allowed", "media_type", "too_many_requests", "too_many_streams", "idempotency_key_reused".
	Code string `json:"code"`
	// Field names what is wrong in the request, if one thing is.
	Field string `json:"field,omitempty"`
	// Details are what is wrong one by one, if there is more than one thing.
	Details []string `json:"details,omitempty"`
	// Calls are the open calls that the session waits for, if the code is "waiting".
	Calls []cairn.CallRef `json:"calls,omitempty"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable"`
	// RequestID is that of the answer's X-Request-Id.
	RequestID string `json:"request_id"`
}

// httpError is an error that only HTTP knows.
type httpError struct {
	status int
	code   string
	text   string
}

func (e *httpError) Error() string { return e.text }

// httpStatus returns the status of the answer to a request that failed.
func httpStatus(err error) int {
	if known := (*httpError)(nil); errors.As(err, &known) {
		return known.status
	}
	return cairn.AsError(err).Code.HTTPStatus()
}

// requestIDHeader carries an id of the request, which the answer has as well. A client may send one of its own.
const requestIDHeader = "X-Request-Id"
