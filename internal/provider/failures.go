// Package provider is what the adapters of models share: the watch over a provider that is silent, and the errors of its
// calls.
package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

const (
	maxMessage    = 1000 // bytes of a provider's message that are kept
	maxRetryAfter = 24 * time.Hour
)

// Failures makes the errors of one model's calls. Each names the model, and none holds the key.
type Failures struct {
	Adapter string
	Model   string
	Key     string
}

// Errorf returns an error of a code that names the model.
func (f Failures) Errorf(code cairn.Code, format string, args ...any) *cairn.Error {
	e := cairn.Errorf(code, "%s: model %q: %w", f.Adapter, f.Model, fmt.Errorf(format, args...))
	e.Cause = errors.Unwrap(e.Cause)
	if f.Key != "" && strings.Contains(e.Message, f.Key) {
		e.Message = strings.ReplaceAll(e.Message, f.Key, "[key]")
		e.Cause = nil // its text holds the key as well
	}
	return e
}

// Ended is the error of a call whose context is done.
func (f Failures) Ended(ctx context.Context) *cairn.Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return f.Errorf(cairn.CodeTimeout, "%w", err)
	}
	return f.Errorf(cairn.CodeAborted, "%w", err)
}

// Silent is the error of a call that ended with ErrIdle.
func (f Failures) Silent(idle time.Duration) *cairn.Error {
	return f.Errorf(cairn.CodeOverloaded, "no byte was received for %v", idle)
}

// Transport is the error of a call that got no answer.
func (f Failures) Transport(err error) *cairn.Error {
	var wrapped *url.Error // repeats the address, which is of no use to the reader
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return f.Errorf(cairn.CodeModelRequest, "the server's certificate is not accepted: %w", err)
	}
	return f.Errorf(cairn.CodeOverloaded, "cannot reach the server: %w", err)
}

// tooLong matches how servers say that a conversation does not fit when they have no code for it.
var tooLong = regexp.MustCompile(`(?i)maximum context length|context length (?:exceeded|of only)|` +
	`exceeds? (?:the |this )?(?:model'?s? )?(?:available |maximum )?context|context window|prompt is too long|input is too long|` +
	`longer than the maximum model length|input token count .* exceeds`)

// TooLong reports whether a provider's message says that the conversation exceeds the model's window.
func TooLong(message string) bool { return tooLong.MatchString(message) }

// Clip returns a provider's text as an error may hold it: valid, and of some 1,000 bytes at most.
func Clip(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// RetryAfter reads how long to wait: milliseconds as OpenAI sends them, seconds, or a date, which is compared with the
// server's own clock if the reply has its time.
func RetryAfter(h http.Header, now func() time.Time) time.Duration {
	if n, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return duration(n, time.Millisecond)
	}
	value := h.Get("Retry-After")
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		return duration(n, time.Second)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now()
	}
	return min(max(until.Sub(from), 0), maxRetryAfter)
}

func duration(n float64, unit time.Duration) time.Duration {
	if math.IsNaN(n) || n <= 0 {
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter)))
}
