//go:build !demo

package sessions

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/workspace"
)

// workspaceReader returns the reader of the workspaces in a store.
func workspaceReader(st store.Store) (cairn.WorkspaceReader, error) { return workspace.NewReader(st) }
