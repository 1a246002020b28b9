//go:build demo

package serve

import (
	"fmt"
	"log/slog"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
)

// newToolset returns an error: this program was built without MCP servers.
func newToolset(name string, _ *config.Tool, _ *config.MCP, _ config.ToolCache, _ *slog.Logger) (cairn.Toolset, error) {
	return nil, fmt.Errorf("MCP server %q: %w", name, cli.Lacks("MCP servers"))
}
