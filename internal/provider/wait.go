package provider

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest wait that is passed on.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns how long a response asks to wait; 0 if it does not say. It reads Retry-After-Ms, Retry-After and,
// for a response to too many requests, X-Ratelimit-Reset and its forms for requests and tokens. Each is a number of
// milliseconds or seconds, a duration in Go's form, as OpenAI has it, or a time. A time is compared with the server's
// own clock if the response has that.
func RetryAfter(res *http.Response, now func() time.Time) time.Duration {
	h := res.Header
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now()
	}
	if wait, ok := waitOf(h.Get("Retry-After-Ms"), time.Millisecond, from); ok {
		return wait
	}
	if wait, ok := waitOf(h.Get("Retry-After"), time.Second, from); ok || res.StatusCode != http.StatusTooManyRequests {
		return wait
	}
	if wait, ok := resetOf(h, "Requests", from); ok && h.Get("X-Ratelimit-Remaining-Requests") == "0" {
		return wait
	}
	// The tokens of a minute are meant: this is when all of them are back, and the request needs only some.
	if wait, ok := resetOf(h, "Tokens", from); ok {
		return min(wait, time.Minute)
	}
	if wait, ok := resetOf(h, "Requests", from); ok {
		return min(wait, time.Minute)
	}
	wait, _ := waitOf(h.Get("X-Ratelimit-Reset"), time.Second, from)
	return wait
}

func resetOf(h http.Header, of string, from time.Time) (time.Duration, bool) {
	return waitOf(h.Get("X-Ratelimit-Reset-"+of), time.Second, from)
}

// Numbers from these on are times since 1970, in seconds and in milliseconds.
const (
	leastEpoch   = 1e9
	leastEpochMs = 1e12
)

// waitOf returns a wait that a header has in any form. unit is that of a plain number.
func waitOf(value string, unit time.Duration, from time.Time) (wait time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err == nil && unit == time.Second && n >= leastEpochMs && n < math.MaxInt64/1e6:
		return bounded(time.UnixMilli(int64(n)).Sub(from)), true
	case err == nil && unit == time.Second && n >= leastEpoch && n < leastEpochMs:
		return bounded(time.Unix(int64(n), 0).Sub(from)), true
	case err == nil && (math.IsNaN(n) || n <= 0):
		return 0, true
	case err == nil:
		return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
	}
	if d, err := time.ParseDuration(value); err == nil {
		return bounded(d), true
	}
	for _, parse := range []func(string) (time.Time, error){http.ParseTime, func(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }} {
		if until, err := parse(value); err == nil {
			return bounded(until.Sub(from)), true
		}
	}
	return 0, false
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// saidWait matches the wait in a message about a rate limit.
var saidWait = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:[\d.]+(?:ms|h|m|s))+|[\d.]+ ?seconds?)`)

// waitIn returns the wait that a message asks for; 0 if there is none. Errors within a stream have no headers.
func waitIn(message string) time.Duration {
	m := saidWait.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	number, _, _ := strings.Cut(m[1], " ")
	wait, _ := waitOf(strings.TrimRight(strings.TrimSuffix(number, "seconds"), "."), time.Second, time.Time{})
	return wait
}
