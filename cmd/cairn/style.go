package main

import (
	"os"

	"github.com/mattn/go-isatty"
)

// style dresses text for a terminal; the zero value leaves it plain.
type style struct{ on bool }

// styleFor returns plain style for anything but a terminal that wants colour.
func styleFor(a *app) style {
	return style{on: isTerminal(a.stdout) && a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb"}
}

func (s style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.wrap("1", text) }
func (s style) dim(text string) string  { return s.wrap("2", text) }
func (s style) red(text string) string  { return s.wrap("31", text) }
func (s style) cyan(text string) string { return s.wrap("36", text) }

// isTerminal reports whether x, a reader or writer, is a terminal.
func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
