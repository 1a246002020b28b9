package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// failures makes the errors of one model's calls.
type failures struct{ provider.Failures }

// of is the error that one of the SDK stands for, of a call that has no stream.
func (f failures) of(err error) *cairn.Error {
	if said, ok := errors.AsType[*anthropic.Error](err); ok {
		return f.said(said)
	}
	return f.Transport(err)
}

// broken is the error that one of the SDK stands for, in a stream.
func (f failures) broken(err error) *cairn.Error {
	if said, ok := errors.AsType[*anthropic.Error](err); ok {
		return f.said(said)
	}
	_, broken := errors.AsType[*json.SyntaxError](err)
	_, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	if broken || wrong {
		return f.Errorf(cairn.CodeModel, "unintelligible event in the stream: %w", err)
	}
	return f.Errorf(cairn.CodeModel, "the stream broke off: %w", err)
}

// said is the error that a report of the provider stands for. One in a stream comes with the status of the stream, 200.
func (f failures) said(err *anthropic.Error) *cairn.Error {
	var report struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	message := strings.TrimSpace(err.RawJSON())
	if json.Unmarshal([]byte(message), &report) == nil && report.Error.Message != "" {
		message = report.Error.Message
	}
	status := err.StatusCode
	if status == http.StatusOK {
		status = 0
	}
	if message == "" {
		message = strings.TrimSpace(http.StatusText(status) + " without a reason")
	}
	kind := report.Error.Type
	var notes []string
	if status != 0 {
		notes = append(notes, "status "+strconv.Itoa(status))
	}
	if kind != "" {
		notes = append(notes, provider.Clip(kind))
	}
	message = provider.Clip(message)
	if len(notes) > 0 {
		message += " (" + strings.Join(notes, ", ") + ")"
	}
	e := f.Errorf(classify(status, kind, message), "%s", message)
	if err.Response != nil {
		e.RetryAfter = provider.RetryAfter(err.Response.Header, time.Now)
	}
	return e
}

// classify finds the code. An account without credit is CodeAuth: like a refused key, it is not retryable and needs a
// person.
func classify(status int, kind, message string) cairn.Code {
	switch words := strings.ToLower(message); {
	case kind == "billing_error" || status == http.StatusPaymentRequired || strings.Contains(words, "credit balance"):
		return cairn.CodeAuth
	case kind == "rate_limit_error" || status == http.StatusTooManyRequests:
		return cairn.CodeRateLimited
	case provider.TooLong(message) || strings.Contains(words, "exceed context limit"):
		return cairn.CodeContextLength
	case kind == "authentication_error" || kind == "permission_error" || status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cairn.CodeAuth
	case strings.Contains(words, "content filtering"):
		return cairn.CodeFiltered
	case kind == "overloaded_error" || kind == "api_error" || kind == "timeout_error" || status >= 500:
		return cairn.CodeOverloaded
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooEarly:
		return cairn.CodeOverloaded
	case status >= 300 || kind == "invalid_request_error" || kind == "not_found_error" || kind == "request_too_large":
		return cairn.CodeModelRequest
	}
	return cairn.CodeModel
}
