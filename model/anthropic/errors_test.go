package anthropic_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	streamed := func(kind, message string) providertest.Failure {
		return providertest.Body(0, `event: error`+"\n"+`data: {"type":"error","error":{"type":"`+kind+`","message":"`+message+`"}}`+"\n\n")
	}
	adapter.Answers(t, map[string]providertest.Answer{
		"malformed":            providertest.Failing(400, "invalid_request_error", "messages: x").Is(cairn.ErrModelRequest, "messages: x (status 400, invalid_request_error)"),
		"too long":             providertest.Failing(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum").Is(cairn.ErrContextLength, "210000"),
		"too long with output": providertest.Failing(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 32000 > 200000").Is(cairn.ErrContextLength, "199000"),
		"credit":               providertest.Failing(400, "invalid_request_error", "Your credit balance is too low to access the API.").Is(cairn.ErrAuth, "credit"),
		"billing":              providertest.Failing(402, "billing_error", "Pay.").Is(cairn.ErrAuth, "Pay."),
		"filter":               providertest.Failing(400, "invalid_request_error", "Output blocked by content filtering policy").Is(cairn.ErrFiltered, "blocked"),
		"key":                  providertest.Failing(401, "authentication_error", "invalid x-api-key").Is(cairn.ErrAuth, "invalid x-api-key"),
		"forbidden":            providertest.Failing(403, "permission_error", "No access.").Is(cairn.ErrAuth, "No access."),
		"unknown model":        providertest.Failing(404, "not_found_error", "model: test-model").Is(cairn.ErrModelNotFound, `model "test-model": model: test-model`),
		"conflict":             providertest.Failing(409, "", "Again.").Is(cairn.ErrOverloaded, "Again."),
		"too large":            providertest.Failing(413, "request_too_large", "Request exceeds the maximum size").Is(cairn.ErrContextLength, "maximum size"),
		"rate":                 providertest.Failing(429, "rate_limit_error", "Number of request tokens has exceeded your limit").Is(cairn.ErrRateLimited, "(status 429, rate_limit_error)"),
		"server":               providertest.Failing(500, "api_error", "Internal server error").Is(cairn.ErrOverloaded, "(status 500, api_error)"),
		"gateway":              providertest.Body(502, "<html>Bad Gateway</html>").Is(cairn.ErrOverloaded, "<html>Bad Gateway</html> (status 502)"),
		"no body":              providertest.Body(503, " ").Is(cairn.ErrOverloaded, "Service Unavailable (status 503)"),
		"timeout":              providertest.Failing(504, "timeout_error", "Timed out.").Is(cairn.ErrOverloaded, "Timed out."),
		"overloaded":           providertest.Failing(529, "overloaded_error", "Overloaded").Is(cairn.ErrOverloaded, "Overloaded (status 529, overloaded_error)"),
		"streamed server":      streamed("api_error", "Internal server error").Is(cairn.ErrOverloaded, "error (api_error)"),
		"streamed rate":        streamed("rate_limit_error", "Slow down.").Is(cairn.ErrRateLimited, "Slow down. (rate_limit_error)"),
		"streamed key":         streamed("authentication_error", "invalid x-api-key").Is(cairn.ErrAuth, "invalid x-api-key"),
		"streamed too large":   streamed("request_too_large", "Too large.").Is(cairn.ErrContextLength, "Too large."),
		"streamed filter":      streamed("invalid_request_error", "Output blocked by content filtering policy").Is(cairn.ErrFiltered, "blocked"),
		"streamed unknown":     streamed("new_error", "New.").Is(cairn.ErrModel, "New. (new_error)"),
		"endless":              providertest.Failing(400, "invalid_request_error", strings.Repeat("ü", 5000)).Is(cairn.ErrModelRequest, "ü… (status 400"),
	})
}

func TestAnswerThatIsNoStream(t *testing.T) {
	t.Parallel()
	m := through(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}, anthropic.Options{})
	_, err := ask(t.Context(), m, hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrModelRequest || !strings.Contains(e.Message, "instead of a stream") {
		t.Errorf("%+v", e)
	}
}

func TestMistakesInOptions(t *testing.T) {
	t.Parallel()
	const local = "http://localhost:1"
	for field, o := range map[string]*anthropic.Options{
		"MaxOutputTokens": {BaseURL: local, MaxOutputTokens: -1},
		"Cache":           {BaseURL: local, Cache: "10m"},
		"ServerTools[1]":  {BaseURL: local, ServerTools: []any{map[string]any{}, "web_search"}},
	} {
		e := cairn.AsError(anthropic.Model("m", o).Validate())
		if e == nil || e.Code != cairn.ErrModelRequest || e.Field != field || !strings.Contains(e.Message, field) {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

// TestEnvironmentOfTheSDK sets the variables that the SDK would read by itself.
func TestEnvironmentOfTheSDK(t *testing.T) {
	m, server := serve(t, anthropictest.Text("one"))
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: leaked")
	if _, err := ask(t.Context(), m, hello()); err != nil {
		t.Fatal(err)
	}
	if h := server.Requests()[0].Header; h.Get("X-Custom") != "" || h.Get("Authorization") != "" {
		t.Errorf("a header that the test did not ask for was sent: %v", h)
	}
}

const (
	piece = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\n"
	last  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
	done  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)
