//go:build demo

package hosts

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// Connect returns an error: this program was built without hosts.
func (at *Address) Connect(context.Context, map[string]string, string, time.Duration, *slog.Logger) (*Connection, error) {
	return nil, cairn.Errorf(cairn.ErrUnavailable, "%s: "+cli.Lacks, at.Given, "hosts")
}
