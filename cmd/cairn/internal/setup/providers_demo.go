//go:build demo

package setup

import (
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/model/openaichat"
)

// ofProvider returns a model of a server that speaks Chat Completions, the only provider that needs no SDK.
func ofProvider(id string, env map[string]string) (cairn.Model, error) {
	name, ok := strings.CutPrefix(id, "openai-chat:")
	if !ok {
		return nil, cli.Lacks("models other than scripted and openai-chat:NAME")
	}
	return openaichat.Model(name, &openaichat.Options{BaseURL: env["OPENAI_BASE_URL"], APIKey: env["OPENAI_API_KEY"]}), nil
}
