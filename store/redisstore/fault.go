package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/redis/go-redis/v9"
)

// errClosed is the error of every call after Close.
var errClosed = cairn.Errorf(cairn.ErrClosed, "the store is closed")

// fault gives an error of the client a code and says what was being done. Errors that have a code already, and those of
// contexts, pass unchanged.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *cairn.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := err.Error()
	code, what := cairn.ErrUnavailable, ""
	var answer redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return errClosed
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"), strings.Contains(text, "invalid password"),
		strings.Contains(text, "without any password configured"):
		what = "the server rejected the user or password"
	case redis.HasErrorPrefix(err, "NOPERM"):
		what = "permission denied for the user"
	case redis.HasErrorPrefix(err, "READONLY"):
		what = "the server is a read-only replica"
	case strings.Contains(text, "max number of clients"):
		what = "too many connections to the server"
	case errors.Is(err, redis.ErrPoolTimeout):
		what = "all connections of this process are in use"
	case redis.HasErrorPrefix(err, "OOM"):
		what = "the server is out of memory"
	case redis.HasErrorPrefix(err, "MISCONF"):
		what = "the server cannot write to its disk"
	case redis.HasErrorPrefix(err, "LOADING"):
		what = "the server is still reading its data"
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"), redis.HasErrorPrefix(err, "MASTERDOWN"), redis.HasErrorPrefix(err, "TRYAGAIN"):
		what = "the cluster is incomplete"
	case redis.HasErrorPrefix(err, "WRONGTYPE"), strings.Contains(text, "WRONGTYPE"):
		code, what = cairn.ErrSchema, "a key under the prefix belongs to another application"
	case errors.As(err, &answer):
		code, what = cairn.ErrInternal, "the server rejected a command"
	default:
		what = "cannot reach the server"
	}
	return cairn.Errorf(code, "%s: %s: %w", doing, what, err)
}
