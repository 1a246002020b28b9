package terminal

import (
	"io"
)

// Style dresses text for a terminal; the zero value leaves it plain.
type Style struct{ on bool }

// StyleFor returns plain style for anything but a terminal that wants colour.
func StyleFor(w io.Writer, env map[string]string) Style {
	return Style{on: Is(w) && env["NO_COLOR"] == "" && env["TERM"] != "dumb"}
}

func (s Style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold, Dim, Red and Cyan return the text with an attribute or a colour.
func (s Style) Bold(text string) string { return s.wrap("1", text) }
func (s Style) Dim(text string) string  { return s.wrap("2", text) }
func (s Style) Red(text string) string  { return s.wrap("31", text) }
func (s Style) Cyan(text string) string { return s.wrap("36", text) }
