//go:build !demo

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn/host/dboshost"
)

// buildFlags are those that this program was built with.
const buildFlags = ""

// poll is how often DBOS's queue is looked into.
const poll = 200 * time.Millisecond

// connect connects to the host, under a name for this process that may be empty. drain is how long what is under way may
// go on when the process ends. The error names the flag and shows no password.
func (at *hostAddress) connect(ctx context.Context, a *app, executor string, drain time.Duration, logger *slog.Logger) (*hosting, error) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	open := at.connectTemporal
	if at.kind == onDBOS {
		open = at.connectDBOS
	}
	h, err := open(ctx, a, executor, drain, logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.given, err)
	}
	return h, nil
}

func (at *hostAddress) connectDBOS(ctx context.Context, _ *app, executor string, _ time.Duration, logger *slog.Logger) (*hosting, error) {
	h, err := dboshost.Open(ctx, at.place, &dboshost.Options{
		Executor: executor, Queue: at.queue, Schema: at.schema, PollInterval: poll, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	return &hosting{Host: h, serve: h.Serve, close: h.Close}, nil
}
