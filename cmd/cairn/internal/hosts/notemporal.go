//go:build demo || notemporal

package hosts

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func (at *Address) connectTemporal(context.Context, map[string]string, string, time.Duration, *slog.Logger) (*Connection, error) {
	return nil, cli.Lacks("hosts on Temporal")
}
