//go:build !demo

package serve

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/model/open"
)

// providers returns the providers of models that this program supports.
func providers() []string { return open.Providers() }

// ofProvider returns a provider's model.
func ofProvider(id string, p config.Provider, env map[string]string) (cairn.Model, error) {
	return open.Model(id, &open.Options{BaseURL: p.BaseURL, APIKey: p.APIKey, Getenv: func(name string) string { return env[name] }})
}
