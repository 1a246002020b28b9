//go:build demo || nodbos

package hosts

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func (at *Address) connectDBOS(context.Context, map[string]string, string, time.Duration, *slog.Logger) (*Connection, error) {
	return nil, cli.Lacks("hosts on DBOS")
}
