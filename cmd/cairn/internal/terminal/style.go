package terminal

import (
	"io"
)

// Style dresses text for a terminal; the zero value leaves it plain.
type Style struct{ on bool }

// StyleFor returns the style for w: plain unless w is a terminal that wants color.
func StyleFor(w io.Writer, env map[string]string) Style {
	return Style{on: Is(w) && env["NO_COLOR"] == "" && env["TERM"] != "dumb"}
}

func (s Style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold returns the text in bold type.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim returns the text in faint type.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Red returns the text in red.
func (s Style) Red(text string) string { return s.wrap("31", text) }

// Cyan returns the text in cyan.
func (s Style) Cyan(text string) string { return s.wrap("36", text) }
