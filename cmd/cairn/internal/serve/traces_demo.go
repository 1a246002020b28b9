//go:build demo

package serve

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
)

// tracing returns no hooks: this program was built without traces.
func (o *observed) tracing(*config.Config) ([]*cairn.Hooks, error) { return nil, nil }

// export exports nothing.
func (o *observed) export(context.Context, *config.Traces) (wait func(), err error) {
	return func() {}, nil
}
