//go:build nohosts

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
)

// buildFlags are those that this program was built with.
const buildFlags = "-tags nohosts "

// connect says that there are no hosts in this program, which is built sooner without them.
func (at *hostAddress) connect(context.Context, *app, string, time.Duration, *slog.Logger) (*hosting, error) {
	return nil, cairn.Errorf(cairn.CodeUnavailable, "%s: this program was built without hosts; go run ./cmd/cairn, or make build, has them", at.given)
}
