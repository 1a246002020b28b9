//go:build demo

package stores

import (
	"context"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
)

// openServer returns an error: this program was built without stores on servers.
func (at *Address) openServer(context.Context) (store.Importer, error) {
	return nil, cli.Lacks("stores on servers")
}

// serverMigrations returns the same error.
func (at *Address) serverMigrations(context.Context) ([]store.Migration, error) {
	return nil, cli.Lacks("stores on servers")
}
