//go:build demo

package serve

import (
	"context"
	"net/http"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
)

// metered counts nothing.
type metered struct{ server.Observer }

// meter returns an error: this program was built without metrics.
func meter(store.Store) (*metered, store.Store, error) { return nil, nil, cli.Lacks("metrics") }

// watchEngine is never called.
func watchEngine(*metered, *engine.Engine) {}

// scraped is never called.
func scraped(*metered) http.Handler { return http.NotFoundHandler() }

// metricsPlace returns no collector: this program was built without metrics.
func metricsPlace(map[string]string) (string, error) { return "", nil }

// exportMetrics exports nothing.
func (o *observed) exportMetrics(context.Context) (end func(), err error) { return func() {}, nil }
