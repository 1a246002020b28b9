package anthropic_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

var adapter = providertest.Adapter[*anthropictest.Request, anthropictest.Reply]{
	Attaching: providertest.Attaching{In: "claude", NotInErrors: true},
	Name:      "anthropic", Path: "v1/messages", Variable: "ANTHROPIC",
	Model: func(name string, e providertest.Endpoint) cairn.Model {
		return anthropic.Model(name, &anthropic.Options{BaseURL: e.BaseURL, APIKey: e.APIKey, HTTPClient: e.Client, IdleTimeout: e.Idle})
	},
	Server: anthropictest.NewServer,
	Text: func(text string, w anthropictest.Wire) anthropictest.Reply {
		return anthropictest.Reply{Blocks: []anthropictest.Part{{Text: text}}, Wire: w}
	},
	Piece: piece, Last: last, Done: done,
	Delta: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words \"}}\n\n",
}

func TestAdapter(t *testing.T) { adapter.Run(t) }

func TestCountTokens(t *testing.T) { adapter.RunCounts(t) }

func FuzzStream(f *testing.F) { adapter.Fuzz(f) }

func through(f providertest.Transport, o anthropic.Options) *anthropic.MessagesModel {
	o.HTTPClient, o.BaseURL = f.Client(), "https://model.example"
	return anthropic.Model("claude-test", &o)
}

// recorder keeps the body of a request, and returns an empty response.
func recorder(body *[]byte) providertest.Transport {
	return func(r *http.Request) (*http.Response, error) {
		*body, _ = io.ReadAll(r.Body)
		return providertest.Plays("")(r)
	}
}
