//go:build !demo

package setup

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/open"
)

// ofProvider returns a provider's model.
func ofProvider(id string, env map[string]string) (cairn.Model, error) {
	return open.Model(id, &open.Options{Getenv: func(name string) string { return env[name] }})
}
