package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	maxErrorBody    = 64 << 10 // bytes of an error answer that are read
	maxErrorMessage = 1000     // bytes of a provider's message that are kept
	maxRetryAfter   = 24 * time.Hour
)

// fault is what a provider reports about a failure, in any of its forms.
type fault struct {
	Status  int // 0 in a stream, where there is none
	Message string
	Type    string
	Code    string
}

// failures makes the errors of one model's calls. Each names the model, and none holds the key.
type failures struct {
	model string
	key   string
}

func (f failures) errorf(code cairn.Code, format string, args ...any) *cairn.Error {
	e := cairn.Errorf(code, "openai: model %q: %w", f.model, fmt.Errorf(format, args...))
	e.Cause = errors.Unwrap(e.Cause)
	if f.key != "" && strings.Contains(e.Message, f.key) {
		e.Message = strings.ReplaceAll(e.Message, f.key, "[key]")
		e.Cause = nil // its text holds the key as well
	}
	return e
}

// ended is the error of a call whose context is done.
func (f failures) ended(ctx context.Context) *cairn.Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return f.errorf(cairn.CodeTimeout, "%w", err)
	}
	return f.errorf(cairn.CodeAborted, "%w", err)
}

// transport is the error of a call that got no answer.
func (f failures) transport(err error) *cairn.Error {
	var wrapped *url.Error // repeats the address, which is of no use to the reader
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return f.errorf(cairn.CodeModelRequest, "the server's certificate is not accepted: %w", err)
	}
	return f.errorf(cairn.CodeOverloaded, "cannot reach the server: %w", err)
}

// answer is the error that an HTTP answer other than 200 stands for. It reads the body.
func (f failures) answer(res *http.Response) *cairn.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read is enough
	said := parseFault(body)
	said.Status = res.StatusCode
	if said.Message == "" {
		said.Message = first(http.StatusText(res.StatusCode), "no reason given")
	}
	e := f.fault(said)
	e.RetryAfter = retryAfter(res.Header, time.Now)
	return e
}

// fault is the error that a provider's report stands for.
func (f failures) fault(said fault) *cairn.Error {
	var notes []string
	if said.Status != 0 {
		notes = append(notes, "status "+strconv.Itoa(said.Status))
	}
	if kind := first(said.Code, said.Type); kind != "" {
		notes = append(notes, kind)
	}
	message := first(said.Message, "the provider failed without a reason")
	if len(notes) > 0 {
		message += " (" + strings.Join(notes, ", ") + ")"
	}
	return f.errorf(said.classify(), "%s", message)
}

// tooLong matches how servers say that a conversation does not fit when they have no code for it.
var tooLong = regexp.MustCompile(`(?i)maximum context length|context length (?:exceeded|of only)|` +
	`exceeds? (?:the |this )?(?:model'?s? )?(?:available |maximum )?context|context window|prompt is too long|input is too long|` +
	`longer than the maximum model length`)

// classify finds the code. An account without credit is CodeAuth: like a refused key, it is not retryable and needs a
// person.
func (s fault) classify() cairn.Code {
	words := strings.ToLower(s.Type + " " + s.Code)
	has := func(list ...string) bool {
		for _, w := range list {
			if strings.Contains(words, w) {
				return true
			}
		}
		return false
	}
	status := s.Status
	if status == 0 {
		status, _ = strconv.Atoi(s.Code) // some relay the status of the failure as its code
	}
	limited := status == http.StatusTooManyRequests || has("rate_limit")
	switch {
	case has("insufficient_quota", "billing_", "insufficient_balance") || status == http.StatusPaymentRequired:
		return cairn.CodeAuth
	case has("context_length", "exceed_context_size", "context_window") || !limited && tooLong.MatchString(s.Message):
		return cairn.CodeContextLength
	case has("content_filter", "content_policy", "responsibleaipolicy"):
		return cairn.CodeFiltered
	case limited:
		return cairn.CodeRateLimited
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cairn.CodeAuth
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooEarly || status >= 500:
		return cairn.CodeOverloaded
	case status >= 300:
		return cairn.CodeModelRequest
	case has("invalid_api_key", "authentication", "permission"):
		return cairn.CodeAuth
	case has("server_error", "overloaded", "unavailable", "timeout"):
		return cairn.CodeOverloaded
	case has("invalid_request", "not_found"):
		return cairn.CodeModelRequest
	}
	return cairn.CodeModel
}

// parseFault reads {"error": {…}}, {"error": "…"}, a bare {"message": …} or {"detail": …}, any of them alone in an
// array, and plain text.
func parseFault(body []byte) fault {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return fault{Message: clip(scalar(body))}
	}
	if inner := fields["error"]; len(inner) > 0 {
		var nested map[string]json.RawMessage
		if json.Unmarshal(inner, &nested) != nil {
			return fault{Message: clip(scalar(inner)), Type: clip(scalar(fields["type"])), Code: clip(scalar(fields["code"]))}
		}
		fields = nested
	}
	return fault{
		Message: clip(first(scalar(fields["message"]), scalar(fields["detail"]))),
		Type:    clip(scalar(fields["type"])),
		Code:    clip(scalar(fields["code"])),
	}
}

// scalar returns a JSON string's value, and anything else as it is written; null is empty.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func clip(s string) string {
	if len(s) > maxErrorMessage {
		s = s[:maxErrorMessage] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// retryAfter reads how long to wait: milliseconds as OpenAI sends them, seconds, or a date, which is compared with the
// server's own clock if the reply has its time.
func retryAfter(h http.Header, now func() time.Time) time.Duration {
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
