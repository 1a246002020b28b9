//go:build demo

package sessions

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
)

// workspaceReader returns an error: this program was built without workspaces.
func workspaceReader(store.Store) (cairn.WorkspaceReader, error) { return nil, cli.Lacks("workspaces") }
