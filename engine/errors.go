package engine

import (
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
)

func errClosed() error { return cairn.Errorf(cairn.ErrClosed, "engine is closed") }

// isConflict reports whether another writer was faster.
func isConflict(err error) bool {
	return errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotRunning) || errors.Is(err, cairn.ErrWaiting)
}

// died reports whether a run could not begin because the process that drives the session has died.
func died(err error) bool {
	var e *lifecycle.DiedError
	return errors.As(err, &e)
}

// ending reports whether the wait of a session is being ended and a sub-agent of it still runs.
func ending(err error) bool { return errors.As(err, new(*lifecycle.EndingError)) }

func unknownAgent(name string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "agent", Message: "agent \"" + name + "\" is not registered"}
}
