package mcp

import (
	"strings"

	"github.com/cairn-agents/cairn/internal/limits"
)

// maxDescription bounds a server's texts for a model or the user, in bytes.
const maxDescription = 8 << 10

// plainName replaces the characters that the name of a tool cannot have.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// clean returns a text that a session can keep, cut to a number of bytes.
func clean(text string, most int) string {
	text = limits.Clean(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
