package hosts

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Connect connects to the host. executor names this process and may be empty. drain is how long effects may take to
// finish when the process ends. The error names the flag and shows no password.
func (at *Address) Connect(ctx context.Context, env map[string]string, executor string, drain time.Duration, logger *slog.Logger) (*Connection, error) {
	open := at.connectTemporal
	if at.kind == onDBOS {
		open = at.connectDBOS
	}
	h, err := open(ctx, env, executor, drain, logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Given, err)
	}
	return h, nil
}
