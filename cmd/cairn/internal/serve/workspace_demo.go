//go:build demo

package serve

import (
	"log/slog"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/store"
)

// newWorkspace returns an error: this program was built without workspaces.
func newWorkspace(*config.Workspace, store.Store, *slog.Logger) (cairn.Workspace, error) {
	return nil, cli.Lacks("workspaces")
}
