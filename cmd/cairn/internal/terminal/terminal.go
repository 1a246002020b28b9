// Package terminal is the person's side of a terminal: lines that are typed, and colours, which anything else is
// spared.
package terminal

import (
	"os"

	"github.com/mattn/go-isatty"
)

// Is reports whether x, a reader or writer, is a terminal.
func Is(x any) bool {
	f, ok := x.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
