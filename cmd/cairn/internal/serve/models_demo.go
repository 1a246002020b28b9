//go:build demo

package serve

import (
	"cmp"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/model/openaichat"
)

const openAIChat = "openai-chat"

// providers returns the only provider that needs no SDK.
func providers() []string { return []string{openAIChat} }

// ofProvider returns a model of a server that speaks Chat Completions.
func ofProvider(id string, p config.Provider, env map[string]string) (cairn.Model, error) {
	return openaichat.Model(strings.TrimPrefix(id, openAIChat+":"), &openaichat.Options{
		BaseURL: cmp.Or(p.BaseURL, env["OPENAI_BASE_URL"]), APIKey: cmp.Or(p.APIKey, env["OPENAI_API_KEY"])}), nil
}
