package openaichat_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

var (
	ask    = providertest.Ask
	hello  = providertest.Hello
	lines  = providertest.Lines
	golden = providertest.Golden
)

var adapter = providertest.Adapter[*openaichattest.Request, openaichattest.Reply]{
	Attaching: providertest.Attaching{After: "m"},
	Name:      "openai-chat", Path: "chat/completions", Variable: "OPENAI",
	Model: func(name string, e providertest.Endpoint) cairn.Model {
		return openaichat.Model(name, &openaichat.Options{BaseURL: e.BaseURL, APIKey: e.APIKey, HTTPClient: e.Client, IdleTimeout: e.Idle})
	},
	Server: openaichattest.NewServer,
	Text: func(text string, w openaichattest.Wire) openaichattest.Reply {
		return openaichattest.Reply{Text: text, Wire: w}
	},
	Piece: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n",
	Last:  `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n",
	Done:  "data: [DONE]\n\n",
}

func TestAdapter(t *testing.T) { adapter.Run(t) }

func FuzzStream(f *testing.F) { adapter.Fuzz(f) }

// BenchmarkDelta has no SDK to compare with, since this adapter uses none.
func BenchmarkDelta(b *testing.B) { adapter.BenchmarkDelta(b, nil) }

func BenchmarkStop(b *testing.B) { adapter.BenchmarkStop(b) }

func TestEnvironmentOfOthers(t *testing.T) {
	server := openaichattest.NewServer(openaichattest.Text("one"), openaichattest.Text("two"))
	t.Cleanup(server.Close)
	server.RequireKey("sk-env")
	t.Setenv("OPENAI_BASE_URL", server.BaseURL)
	t.Setenv("OPENAI_API_KEY", "sk-env")
	t.Setenv("OPENAI_ADMIN_KEY", "sk-admin")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: leaked")
	if _, err := ask(t.Context(), openaichat.Model("m", nil), hello()); err != nil {
		t.Fatal(err)
	}
	if got := server.Requests()[0].Header.Get("X-Custom"); got != "" {
		t.Errorf("a header that the test did not ask for was sent: %q", got)
	}
	t.Setenv("OPENAI_API_KEY", "sk-wrong")
	if _, err := ask(t.Context(), openaichat.Model("m", &openaichat.Options{APIKey: "sk-env"}), hello()); err != nil {
		t.Errorf("the option's key does not win over the environment's: %v", err)
	}
}
