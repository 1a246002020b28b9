package engine

import (
	"errors"

	"github.com/cairn-agents/cairn"
)

func errClosed() error { return cairn.Errorf(cairn.CodeClosed, "the engine is closed") }

// isConflict reports whether another writer was faster.
func isConflict(err error) bool {
	return errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotRunning) || errors.Is(err, cairn.ErrWaiting)
}

func unknownAgent(name string) error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "agent", Message: "agent \"" + name + "\" is not registered"}
}
