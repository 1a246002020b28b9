package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

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

// clean returns a text that a session can keep, of characters that are seen, cut to a number of bytes.
func clean(text string, most int) string {
	text = strings.Map(seen, limits.Clean(text))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// Characters that join or separate letters, which some scripts and emoji need.
const nonJoiner, joiner = '\u200c', '\u200d'

// seen drops characters that a reader does not see or that change how others are shown, since a server could hide text
// from people with them, but not from a model: controls, directions, tags and selectors.
func seen(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == nonJoiner || r == joiner:
		return r
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp), r >= 0xE0000 && r < 0xF0000:
		return -1
	}
	return r
}

// quoted returns a server's text as a JSON string, so that it cannot be taken for the text around it.
func quoted(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string encodes
	return strings.TrimSuffix(out.String(), "\n")
}
