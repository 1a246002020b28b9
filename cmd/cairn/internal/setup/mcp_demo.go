//go:build demo

package setup

import (
	"log/slog"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// servers rejects MCP servers, which need an SDK.
func servers(list []string, _ *slog.Logger) ([]cairn.Toolset, []func() error, error) {
	if len(list) > 0 {
		return nil, nil, cli.Lacks("MCP servers")
	}
	return nil, nil, nil
}
