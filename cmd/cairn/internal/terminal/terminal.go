// Package terminal handles what a person sees and types at a terminal: lines of input, and colors, which other
// outputs do not get.
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
