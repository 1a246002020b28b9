package openai_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

var adapter = providertest.Adapter[*openaitest.Request, openaitest.Reply]{
	Attaching: providertest.Attaching{In: "gpt"},
	Name:      "openai", Path: "/responses", Variable: "OPENAI",
	Model: func(name string, e providertest.Endpoint) cairn.Model {
		return openai.Model(name, &openai.Options{BaseURL: e.BaseURL, APIKey: e.APIKey, HTTPClient: e.Client, IdleTimeout: e.Idle})
	},
	Server: openaitest.NewServer,
	Text: func(text string, w openaitest.Wire) openaitest.Reply {
		return openaitest.Reply{Items: []openaitest.Item{{Text: text}}, Wire: w}
	},
	Piece: delta,
	Last:  "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
}

const delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"some words \"}\n\n"

func TestAdapter(t *testing.T) { adapter.Run(t) }

func TestCountTokens(t *testing.T) { adapter.RunCounts(t) }

func FuzzStream(f *testing.F) { adapter.Fuzz(f) }

// BenchmarkDelta compares with the SDK alone: see [providertest.Adapter.BenchmarkDelta].
func BenchmarkDelta(b *testing.B) {
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: sdk.String("Hello")}}
	adapter.BenchmarkDelta(b, func(ctx context.Context, client *http.Client) error {
		service := responses.NewResponseService(option.WithAPIKey("k"), option.WithBaseURL("https://model.example/v1"), option.WithHTTPClient(client))
		events := service.NewStreaming(ctx, params)
		for events.Next() {
			_ = events.Current()
		}
		return events.Err()
	})
}

func BenchmarkStop(b *testing.B) { adapter.BenchmarkStop(b) }

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	fail, body := providertest.Failing, providertest.Body
	adapter.Answers(t, map[string]providertest.Answer{
		"malformed":     fail(400, "", "Invalid value for 'x'.").Is(cairn.ErrModelRequest, "Invalid value for 'x'. (status 400, invalid_request_error)"),
		"context code":  fail(400, "context_length_exceeded", "Too long.").Is(cairn.ErrContextLength, "Too long."),
		"context words": fail(400, "", "Your input exceeds the context window of this model.").Is(cairn.ErrContextLength, "window"),
		"key":           fail(401, "invalid_api_key", "Incorrect API key provided.").Is(cairn.ErrAuth, "Incorrect"),
		"unknown model": fail(404, "model_not_found", "The model does not exist.").Is(cairn.ErrModelNotFound, "does not exist"),
		"quota":         fail(429, "insufficient_quota", "You exceeded your current quota.").Is(cairn.ErrAuth, "quota"),
		"rate":          fail(429, "rate_limit_exceeded", "Slow down.").Is(cairn.ErrRateLimited, "Slow down. (status 429, rate_limit_exceeded)"),
		"server":        fail(500, "", "Oops.").Is(cairn.ErrOverloaded, "Oops. (status 500, server_error)"),
		"gateway":       body(502, "<html>Bad Gateway</html>").Is(cairn.ErrOverloaded, "<html>Bad Gateway</html> (status 502)"),
		"no body":       body(503, " ").Is(cairn.ErrOverloaded, "Service Unavailable (status 503)"),
		"endless":       fail(400, "", strings.Repeat("ü", 5000)).Is(cairn.ErrModelRequest, "ü… (status 400"),
	})
}

// TestEnvironmentOfTheSDK sets the variables that the SDK would read by itself.
func TestEnvironmentOfTheSDK(t *testing.T) {
	t.Setenv("OPENAI_ORG_ID", "org-leaked")
	t.Setenv("OPENAI_PROJECT_ID", "project-leaked")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: leaked")
	server := openaitest.NewServer(openaitest.Text("one"))
	t.Cleanup(server.Close)
	if _, err := providertest.Ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL, Organization: "org"}), providertest.Hello()); err != nil {
		t.Fatal(err)
	}
	if h := server.Requests()[0].Header; h.Get("X-Custom") != "" || h.Get("OpenAI-Project") != "" || h.Get("OpenAI-Organization") != "org" {
		t.Errorf("a header that the test did not ask for was sent: %v", h)
	}
}

func TestServerToolThatIsNone(t *testing.T) {
	t.Parallel()
	e := cairn.AsError(openai.Model("m", &openai.Options{APIKey: "k", ServerTools: []any{map[string]any{}, "web_search"}}).Validate())
	if e == nil || e.Field != "ServerTools[1]" {
		t.Errorf("%+v", e)
	}
}

var lookup = cairn.ToolSpec{Name: "lookup", Description: "Look up an order.",
	Schema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"],"additionalProperties":false}`)}
