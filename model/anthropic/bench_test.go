package anthropic_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
)

// BenchmarkDelta compares with the SDK alone: see [providertest.Adapter.BenchmarkDelta].
func BenchmarkDelta(b *testing.B) {
	params := sdk.MessageNewParams{Model: "claude-test", MaxTokens: 5, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("Hello"))}}
	adapter.BenchmarkDelta(b, func(ctx context.Context, client *http.Client) error {
		c := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("k"), option.WithoutOpenTelemetry(), option.WithHTTPClient(client))
		events := c.Messages.NewStreaming(ctx, params)
		for events.Next() {
			_ = events.Current()
		}
		return events.Err()
	})
}

func BenchmarkStop(b *testing.B) { adapter.BenchmarkStop(b) }

// BenchmarkRequest encodes the request of a conversation of 400 messages.
func BenchmarkRequest(b *testing.B) {
	req := hello()
	for range 200 {
		said := use("a", "lookup", `{"order":42}`)
		said.Provider, said.Model = json.RawMessage(`{"caller":{"type":"x"}}`), "anthropic:claude-test"
		req.Messages = append(req.Messages, assistant(said), tools(result("a", `{"status":"shipped"}`, false)))
	}
	m := through(providertest.Plays(piece+last+done), anthropic.Options{})
	for b.Loop() {
		if _, err := ask(context.Background(), m, req); err != nil {
			b.Fatal(err)
		}
	}
}
