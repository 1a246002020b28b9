package gemini_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/gemini"
	"github.com/cairn-agents/cairn/model/gemini/geminitest"
)

var adapter = providertest.Adapter[*geminitest.Request, geminitest.Reply]{
	Attaching: providertest.Attaching{In: "gemini-3-pro", After: "gemini-2.5-pro"},
	Name:      "gemini", Path: "streamGenerateContent", Variable: "GEMINI",
	Model: func(name string, e providertest.Endpoint) cairn.Model {
		return gemini.Model(name, &gemini.Options{BaseURL: e.BaseURL, APIKey: e.APIKey, HTTPClient: e.Client, IdleTimeout: e.Idle})
	},
	Server: geminitest.NewServer,
	Text: func(text string, w geminitest.Wire) geminitest.Reply {
		return geminitest.Reply{Parts: []geminitest.Part{{Text: text}}, Wire: w}
	},
	Piece: `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"some words "}]},"index":0}]}` + "\n\n",
	Last:  `data: {"candidates":[{"content":{"role":"model"},"finishReason":"STOP","index":0}]}` + "\n\n",
}

func TestAdapter(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "")
	adapter.Run(t)
}

func TestCountTokens(t *testing.T) { adapter.RunCounts(t) }

func FuzzStream(f *testing.F) { adapter.Fuzz(f) }

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	fail, body := providertest.Failing, providertest.Body
	adapter.Answers(t, map[string]providertest.Answer{
		"malformed": fail(400, "", "Invalid JSON payload received.").Is(cairn.ErrModelRequest, "payload received. (status 400, 400)"),
		"too long":  fail(400, "", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).").Is(cairn.ErrContextLength, "1200000"),
		"key":       fail(400, "", "API key not valid. Please pass a valid API key.").Is(cairn.ErrAuth, "not valid"),
		"forbidden": fail(403, "", "No access.").Is(cairn.ErrAuth, "No access."),
		"unknown":   fail(404, "", "models/x is not found").Is(cairn.ErrModelNotFound, "not found"),
		"rate":      fail(429, "", "You exceeded your current quota.").Is(cairn.ErrRateLimited, "quota"),
		"server":    fail(500, "", "Internal.").Is(cairn.ErrOverloaded, "Internal."),
		"busy":      fail(503, "", "The model is overloaded.").Is(cairn.ErrOverloaded, "overloaded"),
		"gateway":   body(502, "<html>Bad Gateway</html>").Is(cairn.ErrOverloaded, "<html>Bad Gateway</html> (status 502)"),
		"no body":   body(503, " ").Is(cairn.ErrOverloaded, "Service Unavailable (status 503)"),
		"endless":   fail(400, "", strings.Repeat("ü", 5000)).Is(cairn.ErrModelRequest, "ü… (status 400"),
	})
}

// TestRetryDelay has the wait in the body, as this API sends it.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	server := geminitest.NewServer(geminitest.Reply{Wire: geminitest.Wire{Status: 429,
		Raw: `{"error":{"code":429,"message":"Slow down.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}`}})
	t.Cleanup(server.Close)
	_, err := providertest.Ask(t.Context(), gemini.Model("m", &gemini.Options{BaseURL: server.BaseURL}), providertest.Hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrRateLimited || e.RetryAfter != cairn.Duration(17500*time.Millisecond) {
		t.Errorf("%+v", e)
	}
}

func BenchmarkStop(b *testing.B) { adapter.BenchmarkStop(b) }

// BenchmarkDelta compares with the SDK alone: see [providertest.Adapter.BenchmarkDelta].
func BenchmarkDelta(b *testing.B) {
	adapter.BenchmarkDelta(b, func(ctx context.Context, client *http.Client) error {
		c, err := genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: "k", HTTPClient: client})
		if err != nil {
			return err
		}
		for _, err := range c.Models.GenerateContentStream(ctx, "m", genai.Text("Hello"), nil) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}
