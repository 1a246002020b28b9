package anthropic_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
)

// BenchmarkDelta reads streams of 100 and of 10,000 deltas, by the adapter and by the SDK alone. ns/delta must not grow
// with the length, and the adapter's must be less than 5 µs above the SDK's.
func BenchmarkDelta(b *testing.B) {
	for name, deltas := range map[string]int{"100": 100, "10000": 10_000} {
		const delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words \"}}\n\n"
		stream := piece + strings.Repeat(delta, deltas) + last + done
		report := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*deltas), "ns/delta") }
		b.Run("adapter/"+name, func(b *testing.B) {
			m := through(providertest.Plays(stream), anthropic.Options{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ask(context.Background(), m, hello()); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
		b.Run("sdk/"+name, func(b *testing.B) {
			client := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("k"), option.WithoutOpenTelemetry(),
				option.WithHTTPClient(&http.Client{Transport: providertest.Plays(stream)}))
			params := sdk.MessageNewParams{Model: "claude-test", MaxTokens: 5, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("Hello"))}}
			b.ReportAllocs()
			for b.Loop() {
				events := client.Messages.NewStreaming(context.Background(), params)
				for events.Next() {
					_ = events.Current()
				}
				if err := events.Err(); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
	}
}

// BenchmarkRequest makes the request of a conversation of 400 messages.
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
