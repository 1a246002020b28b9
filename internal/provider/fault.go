package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

const maxErrorBody = 64 << 10 // bytes of an error response that are read

// Fault is a provider's report of a failure, in any of its forms.
type Fault struct {
	Status  int // 0 in a stream, which has none
	Message string
	Type    string
	Code    string
}

// Refused returns the error of a request that failed. res may be nil.
func (f Failures) Refused(res *http.Response, err error) *cairn.Error {
	if res != nil && res.StatusCode >= http.StatusBadRequest { // the body can be read, whatever the SDK did with it
		return f.Answer(res)
	}
	return f.Transport(err)
}

// Broken returns the error of a stream that cannot be read further.
func (f Failures) Broken(err error) *cairn.Error {
	_, malformed := errors.AsType[*json.SyntaxError](err)
	_, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	if malformed || wrong {
		return f.Errorf(cairn.CodeModel, "unintelligible event in the stream: %w", err)
	}
	return f.Errorf(cairn.CodeModel, "the stream broke off: %w", err)
}

// Answer returns the error for an HTTP response other than 200. It reads the body.
func (f Failures) Answer(res *http.Response) *cairn.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is enough
	said := ParseFault(body)
	said.Status = res.StatusCode
	if to, err := res.Location(); err == nil && res.StatusCode < http.StatusBadRequest {
		said = Fault{Status: res.StatusCode, Message: Clip("the server redirects to " + to.Scheme + "://" + to.Host + to.EscapedPath() + ": is the base URL right?")}
	}
	if said.Message == "" {
		said.Message = cmp.Or(http.StatusText(res.StatusCode), "no reason given")
	}
	e := f.Fault(said)
	e.RetryAfter = RetryAfter(res.Header, time.Now)
	return e
}

// Fault returns the error for a provider's report.
func (f Failures) Fault(said Fault) *cairn.Error {
	var notes []string
	if said.Status != 0 {
		notes = append(notes, "status "+strconv.Itoa(said.Status))
	}
	if kind := cmp.Or(said.Code, said.Type); kind != "" {
		notes = append(notes, kind)
	}
	message := cmp.Or(said.Message, "the provider failed without a reason")
	if len(notes) > 0 {
		message += " (" + strings.Join(notes, ", ") + ")"
	}
	return f.Errorf(said.classify(), "%s", message)
}

// classify returns the error's code. An account without credit is CodeAuth: like a rejected key, it is not
// retryable and needs a person.
func (s Fault) classify() cairn.Code {
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
		status, _ = strconv.Atoi(s.Code) // some servers use the status of the failure as its code
	}
	message := strings.ToLower(s.Message) // for failures without a code of their own
	limited := status == http.StatusTooManyRequests || has("rate_limit")
	switch {
	case has("insufficient_quota", "billing_", "insufficient_balance") || status == http.StatusPaymentRequired || strings.Contains(message, "credit balance"):
		return cairn.CodeAuth
	case has("context_length", "exceed_context_size", "context_window") || !limited && TooLong(s.Message):
		return cairn.CodeContextLength
	case has("content_filter", "content_policy", "responsibleaipolicy") || strings.Contains(message, "content filtering"):
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
	case has("server_error", "api_error", "overloaded", "unavailable", "timeout"):
		return cairn.CodeOverloaded
	case has("invalid_request", "not_found", "too_large"):
		return cairn.CodeModelRequest
	}
	return cairn.CodeModel
}

// reported decodes a response that reports an error although its status does not.
func reported(body []byte) (said Fault, ok bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Error) == 0 || string(answer.Error) == "null" {
		return said, false
	}
	return ParseFault(body), true
}

// ParseFault decodes {"error": {…}}, {"error": "…"}, a bare {"message": …} or {"detail": …}, each also as the first
// element of an array, and plain text.
func ParseFault(body []byte) Fault {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return Fault{Message: Clip(Scalar(body))}
	}
	if inner := fields["error"]; len(inner) > 0 {
		var nested map[string]json.RawMessage
		if json.Unmarshal(inner, &nested) != nil {
			return Fault{Message: Clip(Scalar(inner)), Type: Clip(Scalar(fields["type"])), Code: Clip(Scalar(fields["code"]))}
		}
		fields = nested
	}
	return Fault{
		Message: Clip(cmp.Or(Scalar(fields["message"]), Scalar(fields["detail"]))),
		Type:    Clip(cmp.Or(Scalar(fields["type"]), Scalar(fields["status"]))),
		Code:    Clip(Scalar(fields["code"])),
	}
}

// Scalar returns the value of a JSON string, and anything else as written; null is empty.
func Scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
