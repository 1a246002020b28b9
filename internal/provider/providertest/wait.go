package providertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// resets are the headers of limits, which say when a limit that was exceeded is free again.
var resets = map[string]time.Duration{
	"X-Ratelimit-Reset-Requests: 1s": time.Second,
	"X-Ratelimit-Reset-Tokens: 20ms": 20 * time.Millisecond,
	"X-Ratelimit-Reset-Tokens: 2.5":  2500 * time.Millisecond,
	"X-Ratelimit-Reset-Tokens: 6m0s": time.Minute,
	"X-Ratelimit-Reset-Requests: 1h12m0s|X-Ratelimit-Remaining-Requests: 0|X-Ratelimit-Reset-Tokens: 1s": 72 * time.Minute,
	"X-Ratelimit-Reset-Requests: 8m|X-Ratelimit-Remaining-Requests: 99|X-Ratelimit-Reset-Tokens: 7s":     7 * time.Second,
	"Date: Fri, 13 Nov 2026 10:00:00 GMT|X-Ratelimit-Reset: 1794564015000":                               15 * time.Second,
	"Date: Fri, 13 Nov 2026 10:00:00 GMT|X-Ratelimit-Reset: 1794564015":                                  15 * time.Second,
	"X-Ratelimit-Reset: 15":   15 * time.Second,
	"X-Ratelimit-Reset: soon": 0,
}

// shouldRetry tests what servers say about another attempt besides its wait.
func (a Adapter[Q, R]) shouldRetry(t *testing.T) {
	answer := func(w Wire) *cairn.Error {
		m, _ := a.serve(t, a.Text("", w))
		_, err := Ask(t.Context(), m, Hello())
		if e := cairn.AsError(err); e != nil {
			return e
		}
		return &cairn.Error{}
	}
	for header, want := range resets {
		if e := answer(Wire{Status: http.StatusTooManyRequests, Message: "Slow down.", Header: headerOf(header)}); time.Duration(e.RetryAfter) != want {
			t.Errorf("%s: wait %s, want %s", header, e.RetryAfter, want)
		}
		if e := answer(Wire{Status: http.StatusServiceUnavailable, Message: "Down.", Header: headerOf(header)}); e.RetryAfter != 0 {
			t.Errorf("%s, of a server that is down: wait %s", header, e.RetryAfter)
		}
	}
	for body, want := range map[string]time.Duration{
		`{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]}}`: 12 * time.Second,
		`[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1.5s"}]}}]`:                                                 1500 * time.Millisecond,
		`{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"code\":429,\"details\":[{\"retryDelay\":\"9s\"}]}}"}}}`:            9 * time.Second,
		`{"error":{"message":"Rate limit reached. Please try again in 7m12.5s. Visit us."}}`:                                                                          7*time.Minute + 12500*time.Millisecond,
		`{"error":{"message":"Rate limit reached. Please try again in 186ms."}}`:                                                                                      186 * time.Millisecond,
		`{"error":{"message":"Rate limited. Please retry after 26 seconds."}}`:                                                                                        26 * time.Second,
		`{"error":{"message":"Slow down.","details":"none"}}`:                                                                                                         0,
	} {
		if e := answer(Wire{Status: http.StatusTooManyRequests, Raw: body}); time.Duration(e.RetryAfter) != want || e.Code != cairn.ErrRateLimited {
			t.Errorf("%s: %s, wait %s, want %s", body, e.Code, e.RetryAfter, want)
		}
	}
	for _, c := range []struct {
		status int
		says   string
		retry  bool
		code   cairn.Code
	}{
		{http.StatusServiceUnavailable, "false", false, cairn.ErrOverloaded},
		{http.StatusTooManyRequests, "false", false, cairn.ErrRateLimited},
		{http.StatusServiceUnavailable, "true", true, cairn.ErrOverloaded},
		{http.StatusBadRequest, "true", true, cairn.ErrOverloaded},
		{http.StatusBadRequest, "false", false, cairn.ErrModelRequest},
		{http.StatusServiceUnavailable, "perhaps", true, cairn.ErrOverloaded},
		{http.StatusRequestEntityTooLarge, "true", false, cairn.ErrContextLength},
	} {
		e := answer(Wire{Status: c.status, Message: "No.", Header: http.Header{"X-Should-Retry": {c.says}}})
		if e.Retryable() != c.retry || e.Code != c.code {
			t.Errorf("status %d, should retry %s: %s, retryable %t, want %s", c.status, c.says, e.Code, e.Retryable(), c.code)
		}
	}
}
