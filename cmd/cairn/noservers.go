//go:build demo

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// buildFlags are those that this program was built with: the demo's, which needs neither hosts nor servers, and is built
// sooner without them.
const buildFlags = "-tags demo "

// lacks says that something is not in this program.
const lacks = "this program was built without %s; go run ./cmd/cairn, or make build, has them"

// connect says that there are no hosts.
func (at *hostAddress) connect(context.Context, *app, string, time.Duration, *slog.Logger) (*hosting, error) {
	return nil, cairn.Errorf(cairn.CodeUnavailable, "%s: "+lacks, at.given, "hosts")
}

// openServer says that there are no stores on servers.
func (at *address) openServer(context.Context) (opened, error) {
	return nil, cairn.Errorf(cairn.CodeUnavailable, lacks, "stores on servers")
}

// serverMigrations says the same.
func (at *address) serverMigrations(context.Context) ([]store.Migration, error) {
	return nil, cairn.Errorf(cairn.CodeUnavailable, lacks, "stores on servers")
}
