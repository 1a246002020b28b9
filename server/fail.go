package server

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// problem returns what the client of a request learns of an error. The text of an internal failure goes to the log, and
// to an operator.
func (h *Handler) problem(r *http.Request, err error, c *request) problemBody {
	var known *httpError
	var p problemBody
	if errors.As(err, &known) {
		p = problemBody{Status: known.status, Code: known.code, Detail: known.text, Retryable: known.status == http.StatusTooManyRequests}
	} else {
		e := cairn.AsError(err)
		p = problemBody{Status: e.Code.HTTPStatus(), Code: string(e.Code), Detail: e.Message, Field: e.Field, Details: e.Details, Calls: e.Calls, Retryable: e.Retryable()}
		switch e.Code.Category() {
		case cairn.CategoryStorage, cairn.CategorySystem:
			if !c.wholeErrors() {
				p.Detail, p.Details = "internal server error", nil
			}
			h.opts.Logger.Error("request failed", "method", r.Method, "path", r.URL.Path, "code", e.Code, "error", err)
		}
	}
	p.Title = http.StatusText(p.Status)
	return bare(c.tenant(), p)
}

// fail responds with an error to the client of a request.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error, c *request) {
	// The deadline for reading a body ends the context too.
	if r.Context().Err() != nil && httpStatus(err) != http.StatusRequestTimeout { // the client is gone
		return
	}
	p := h.problem(r, err, c)
	p.RequestID = w.Header().Get(requestIDHeader)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="cairn"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		after := 1
		if e := (*cairn.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
			after = int(math.Ceil(time.Duration(e.RetryAfter).Seconds()))
		}
		w.Header().Set("Retry-After", strconv.Itoa(after))
	case http.StatusConflict:
		if e := (*cairn.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 { // until the lease of the run in the way lapses
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(time.Duration(e.RetryAfter).Seconds()))))
		}
	}
	body, _ := json.Marshal(p) // strings and numbers
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(body)
}
