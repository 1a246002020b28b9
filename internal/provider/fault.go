package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/wording"
)

const maxErrorBody = 64 << 10 // bytes of an error response that are read

// Fault is a provider's report of a failure, in any of its forms.
type Fault struct {
	Status  int // 0 in a stream, which has none
	Message string
	Type    string
	Code    string
	// Wait is how long the report asks to wait; 0 if it does not say.
	Wait time.Duration
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
		return f.Errorf(cairn.ErrModel, "invalid event in the stream: %w", err)
	}
	return f.Errorf(cairn.ErrModel, "the stream ended unexpectedly: %w", err)
}

// Answer returns the error for an HTTP response other than 200. It reads the body.
func (f Failures) Answer(res *http.Response) *cairn.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is enough
	said := ParseFault(body)
	said.Status = res.StatusCode
	if to, err := res.Location(); err == nil && res.StatusCode < http.StatusBadRequest {
		said = Fault{Status: res.StatusCode, Message: Clip("the server redirects to " + to.Scheme + "://" + to.Host + to.EscapedPath() + "; check the base URL")}
	}
	if said.Message == "" {
		said.Message = cmp.Or(http.StatusText(res.StatusCode), "no reason given")
	}
	e := f.Fault(said)
	e.RetryAfter = cmp.Or(cairn.Duration(RetryAfter(res, time.Now)), e.RetryAfter)
	switch res.Header.Get("X-Should-Retry") { // a server of OpenAI or Anthropic knows better than its status
	case "false":
		e.NoRetry = true
	case "true":
		if e.Code != cairn.ErrContextLength && e.Code != cairn.ErrFileRefused && !e.Retryable() {
			e.Code = cairn.ErrOverloaded
		}
	}
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
	e := f.Errorf(said.classify(), "%s", message)
	if e.RetryAfter = cairn.Duration(said.Wait); e.RetryAfter == 0 && e.Code == cairn.ErrRateLimited {
		e.RetryAfter = cairn.Duration(waitIn(said.Message))
	}
	return e
}

// classify returns the error's code. An account without credit is ErrAuth: like a rejected key, it is not
// retryable and needs a person.
func (s Fault) classify() cairn.Code {
	kind := strings.ToLower(s.Type + " " + s.Code)
	has := func(list ...string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(kind, w) })
	}
	status := s.Status
	if status == 0 {
		status, _ = strconv.Atoi(s.Code) // some servers use the status of the failure as its code
	}
	message := strings.ToLower(s.Message) // for failures without a code of their own
	if has("insufficient_quota", "billing_", "insufficient_balance") || status == http.StatusPaymentRequired || strings.Contains(message, "credit balance") {
		return cairn.ErrAuth
	}
	limited := status == http.StatusTooManyRequests || wording.Limited(kind)
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	if code, ok := wording.Conversation(kind, s.Message); ok && !limited && !denied {
		return code
	}
	switch {
	case status == http.StatusRequestEntityTooLarge && !limited && !wording.PerTime(s.Message):
		return cairn.ErrContextLength
	case has("content_filter", "content_policy", "responsibleaipolicy") || strings.Contains(message, "content filtering"):
		return cairn.ErrFiltered
	case limited:
		return cairn.ErrRateLimited
	case wording.UnknownModel(kind, s.Message) || status == http.StatusNotFound && !unknownItem.MatchString(s.Message):
		return cairn.ErrModelNotFound
	case denied:
		return cairn.ErrAuth
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooEarly || status >= 500:
		return cairn.ErrOverloaded
	case status >= 300:
		return cairn.ErrModelRequest
	case has("invalid_api_key", "authentication", "permission"):
		return cairn.ErrAuth
	case has("server_error", "api_error", "overloaded", "unavailable", "timeout"):
		return cairn.ErrOverloaded
	case has("not_found"):
		return cairn.ErrModelNotFound
	case has("invalid_request"):
		return cairn.ErrModelRequest
	}
	return cairn.ErrModel
}

// unknownItem matches the reports of something in a request, rather than the model, that the provider does not have.
var unknownItem = regexp.MustCompile(`(?i)\b(?:item|response|conversation|file|container)\b.{0,80}not found`)

// reported decodes a response that reports an error although its status does not.
func reported(body []byte) (said Fault, ok bool) {
	body = first(body)
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Error) == 0 || string(answer.Error) == "null" {
		return said, false
	}
	return ParseFault(body), true
}

// ParseFault decodes {"error": {…}}, {"error": "…"}, {"errors": [{…}]}, a bare {"message": …} or {"detail": …}, each
// also as the first element of an array, and plain text. Of a router's report it is the one of the server behind it
// (error.metadata.raw, as OpenRouter has it). A wait is read from Google's RetryInfo.
func ParseFault(body []byte) Fault {
	body = first(bytes.TrimSpace(body))
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return Fault{Message: Clip(Scalar(body))}
	}
	if inner := cmp.Or(string(first(fields["errors"])), string(fields["error"])); inner != "" && inner != "null" {
		var nested map[string]json.RawMessage
		if json.Unmarshal([]byte(inner), &nested) != nil {
			return Fault{Message: Clip(Scalar([]byte(inner))), Type: Clip(cmp.Or(Scalar(fields["type"]), Scalar(fields["error_type"]))), Code: Clip(Scalar(fields["code"]))}
		}
		fields = nested
	}
	said := Fault{
		Message: Clip(cmp.Or(Scalar(fields["message"]), Scalar(fields["detail"]))),
		Type:    Clip(cmp.Or(Scalar(fields["type"]), Scalar(fields["status"]))),
		Code:    Clip(Scalar(fields["code"])),
		Wait:    retryInfo(fields["details"]),
	}
	return said.behind(fields["metadata"])
}

// behind returns the fault with what the server behind a router has reported.
func (s Fault) behind(metadata json.RawMessage) Fault {
	var m struct {
		Raw json.RawMessage `json:"raw"`
	}
	if json.Unmarshal(metadata, &m) != nil || Scalar(m.Raw) == "" || Scalar(m.Raw) == "null" {
		return s
	}
	inner := ParseFault([]byte(Scalar(m.Raw)))
	if inner.Message != "" && inner.Message != s.Message {
		s.Message = Clip(strings.TrimPrefix(s.Message+": "+inner.Message, ": "))
	}
	s.Type, s.Wait = cmp.Or(inner.Type, s.Type), cmp.Or(s.Wait, inner.Wait)
	if _, err := strconv.Atoi(inner.Code); err != nil { // the status is the router's
		s.Code = cmp.Or(inner.Code, s.Code)
	}
	return s
}

// retryInfo returns the wait in the details of Google's errors.
func retryInfo(raw json.RawMessage) (wait time.Duration) {
	var details []struct {
		RetryDelay string `json:"retryDelay"`
	}
	if json.Unmarshal(raw, &details) != nil {
		return 0
	}
	for _, d := range details {
		if w, ok := waitOf(d.RetryDelay, time.Second, time.Time{}); ok {
			wait = max(wait, w)
		}
	}
	return wait
}

// first returns the first element of an array, and anything else as it is.
func first(raw []byte) []byte {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return raw
}

// Scalar returns the value of a JSON string, and anything else as written; null is empty.
func Scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
