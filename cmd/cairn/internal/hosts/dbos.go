//go:build !demo && !nodbos

package hosts

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn/host/dboshost"
)

// poll is the interval at which DBOS's queue is polled.
const poll = 200 * time.Millisecond

func (at *Address) connectDBOS(ctx context.Context, _ map[string]string, executor string, _ time.Duration, logger *slog.Logger) (*Connection, error) {
	h, err := dboshost.Open(ctx, at.place, &dboshost.Options{
		Executor: executor, Queue: at.queue, Schema: at.schema, PollInterval: poll, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	return &Connection{Host: h, Serve: h.Serve, Close: h.Close}, nil
}
