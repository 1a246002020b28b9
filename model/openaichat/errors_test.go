package openaichat_test

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	adapter.Answers(t, map[string]providertest.Answer{
		"malformed":        providertest.Failing(400, "", "Invalid value for 'x'.").Is(cairn.ErrModelRequest, "Invalid value for 'x'. (status 400, invalid_request_error)"),
		"context code":     providertest.Failing(400, "context_length_exceeded", "Too long.").Is(cairn.ErrContextLength, "Too long."),
		"context words":    providertest.Failing(400, "", "This model's maximum context length is 8192 tokens.").Is(cairn.ErrContextLength, "8192"),
		"context llama":    providertest.Body(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`).Is(cairn.ErrContextLength, "exceeds"),
		"context size":     providertest.Body(500, `{"error":"input length 9000 exceeds the model's context size"}`).Is(cairn.ErrContextLength, "9000"),
		"filter":           providertest.Failing(400, "content_filter", "The prompt was filtered.").Is(cairn.ErrFiltered, "filtered"),
		"policy":           providertest.Failing(400, "content_policy_violation", "Not allowed.").Is(cairn.ErrFiltered, "Not allowed."),
		"key":              providertest.Failing(401, "invalid_api_key", "Incorrect API key provided.").Is(cairn.ErrAuth, "Incorrect"),
		"forbidden":        providertest.Failing(403, "", "No access.").Is(cairn.ErrAuth, "No access."),
		"payment":          providertest.Failing(402, "", "Insufficient Balance").Is(cairn.ErrAuth, "Balance"),
		"unknown model":    providertest.Failing(404, "model_not_found", "The model does not exist.").Is(cairn.ErrModelNotFound, `model "test-model": The model does not exist.`),
		"request timeout":  providertest.Failing(408, "", "").Is(cairn.ErrOverloaded, "Request Timeout (status 408"),
		"conflict":         providertest.Failing(409, "", "").Is(cairn.ErrOverloaded, "Conflict"),
		"too large":        providertest.Failing(413, "", "").Is(cairn.ErrContextLength, "Too Large"),
		"unprocessable":    providertest.Body(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`).Is(cairn.ErrModelRequest, "field required"),
		"rate":             providertest.Failing(429, "rate_limit_exceeded", "Slow down.").Is(cairn.ErrRateLimited, "Slow down. (status 429, rate_limit_exceeded)"),
		"rate of context":  providertest.Failing(429, "", "Your context window tokens per minute are used up.").Is(cairn.ErrRateLimited, "per minute"),
		"quota":            providertest.Failing(429, "insufficient_quota", "You exceeded your current quota.").Is(cairn.ErrAuth, "quota"),
		"server":           providertest.Failing(500, "", "Oops.").Is(cairn.ErrOverloaded, "Oops. (status 500, server_error)"),
		"gateway":          providertest.Body(502, "<html>Bad Gateway</html>").Is(cairn.ErrOverloaded, "<html>Bad Gateway</html> (status 502)"),
		"no body":          providertest.Body(503, " ").Is(cairn.ErrOverloaded, "Service Unavailable (status 503)"),
		"odd status":       providertest.Body(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`).Is(cairn.ErrOverloaded, "Overloaded (status 529, overloaded_error)"),
		"array":            providertest.Body(400, `[{"error":{"code":400,"message":"API key expired","status":"INVALID"}}]`).Is(cairn.ErrModelRequest, "API key expired (status 400, 400)"),
		"error as text":    providertest.Body(404, `{"error":"model not found, try pulling it"}`).Is(cairn.ErrModelNotFound, "try pulling it"),
		"null error":       providertest.Body(400, `{"error":null}`).Is(cairn.ErrModelRequest, "Bad Request"),
		"redirect nowhere": providertest.Body(304, " ").Is(cairn.ErrModelRequest, "Not Modified"),
		"endless message":  providertest.Failing(400, "", strings.Repeat("ü", 5000)).Is(cairn.ErrModelRequest, "ü… (status 400"),
	})
}

func through(f providertest.Transport, o openaichat.Options) *openaichat.ChatModel {
	o.HTTPClient = f.Client()
	o.BaseURL = "https://model.example/v1"
	return openaichat.Model("m", &o)
}

func TestDroppedConnection(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, openaichattest.Reply{Text: "one two three", Wire: openaichattest.Wire{BreakAfter: 2}},
		openaichattest.Reply{Text: "one", Wire: openaichattest.Wire{BreakAfter: 3}}, openaichattest.Reply{Text: "one", Wire: openaichattest.Wire{ErrorAfter: 2, Message: "crashed"}})
	got := lines(ask(t.Context(), m, hello()))
	want := `text "one "
error model_failed retryable=true: openai-chat: model "test-model": the stream ended unexpectedly: unexpected EOF
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := lines(ask(t.Context(), m, hello())); got != "text \"one\"\nfinish end\n" {
		t.Errorf("a connection dropped after the finish reason: got\n%s", got)
	}
	if _, err := ask(t.Context(), m, hello()); cairn.AsError(err).Code != cairn.ErrOverloaded {
		t.Errorf("an error event: %v", err)
	}
}
