package openai_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func TestStrictTools(t *testing.T) {
	t.Parallel()
	providertest.StrictTools(t, func(t *testing.T, strict bool, req *cairn.Request) []byte {
		server := openaitest.NewServer(openaitest.Text("ok"))
		t.Cleanup(server.Close)
		m := openai.Model("m", &openai.Options{BaseURL: server.BaseURL, APIKey: "k", StrictTools: strict})
		if _, err := providertest.Ask(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
		return server.Requests()[0].Body
	})
}
