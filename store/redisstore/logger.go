package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
)

// silence replaces the client's own logger, which writes to standard error.
var silence sync.Once

// logTo has the client log to l, or nowhere if no Store has a logger.
func logTo(l *slog.Logger) {
	silence.Do(func() { redis.SetLogger(clientLogger{slog.New(slog.DiscardHandler)}) })
	if l != nil {
		redis.SetLogger(clientLogger{l})
	}
}

// clientLogger adapts a logger to the client's interface.
type clientLogger struct{ *slog.Logger }

// Printf logs a message of the client.
func (l clientLogger) Printf(ctx context.Context, format string, v ...any) {
	l.WarnContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
