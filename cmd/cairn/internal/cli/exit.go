package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// ErrDecided reports that another answer counted, not the one given.
var ErrDecided = errors.New("already decided")

// Exit codes.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitDecided  = 4 // another answer counts, or the deadline had passed
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// Misuse returns an error of the command line itself. Its exit code is ExitUsage.
func Misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Fail prints err on one line, if it is not nil, and returns the exit code.
func (a *App) Fail(err error) int {
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, ErrDecided) { // printed already
		return ExitDecided
	}
	fmt.Fprintln(a.Stderr, "cairn:", strings.Join(strings.Fields(err.Error()), " "))
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, cairn.ErrInvalid):
		return ExitUsage
	case errors.Is(err, cairn.ErrNotFound):
		return ExitNotFound
	}
	return ExitFailure
}
