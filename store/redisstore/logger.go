package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
)

// silence takes the client's own logger away, which writes to standard error.
var silence sync.Once

// logTo has the client log to l, or nowhere if no Store has a logger.
func logTo(l *slog.Logger) {
	silence.Do(func() { redis.SetLogger(clientLogger{slog.New(slog.DiscardHandler)}) })
	if l != nil {
		redis.SetLogger(clientLogger{l})
	}
}

// clientLogger is a logger as the client wants it.
type clientLogger struct{ *slog.Logger }

// Printf logs what the client has to say.
func (l clientLogger) Printf(ctx context.Context, format string, v ...any) {
	l.WarnContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
