package provider

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// CallIDs maps the session's call ids to the ids that are sent.
type CallIDs map[string]string

// refused matches characters that providers accept neither in the id of a call nor in the name of a tool.
var refused = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

const maxName = 64 // characters of a tool's name, or of an id

// Of returns an id that providers accept: the session's own if possible, else one derived from it.
func (ids CallIDs) Of(id string) string {
	if sent, ok := ids[id]; ok {
		return sent
	}
	sent := id
	if sent == "" || len(id) > maxName || refused.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		sent = "call_" + hex.EncodeToString(sum[:12])
	}
	ids[id] = sent
	return sent
}

// ToolName returns the name of a tool in a form that providers accept. A model may have made it up.
func ToolName(name string) string {
	name = cmp.Or(refused.ReplaceAllString(name, "_"), "_")
	return name[:min(len(name), maxName)]
}

// Readable reports whether a file is text that every model can read. This includes SVG, which providers reject as
// an image.
func Readable(media string, f *cairn.File) bool {
	return (strings.HasPrefix(media, "text/") || media == "application/json" || media == "image/svg+xml") && len(f.Data) > 0 && utf8.Valid(f.Data)
}

// Described returns the text that replaces a file that cannot be sent.
func Described(f *cairn.File) string {
	return fmt.Sprintf("[file %s of type %s, %d bytes: its content is not available]", cmp.Or(f.Name, f.URL, "without a name"), f.MediaType, len(f.Data))
}

// Unique makes the ids of a reply's calls unique. The zero value is ready.
type Unique struct{ used map[string]bool }

// Of returns id, changed if another call of the reply already has it.
func (u *Unique) Of(id string) string {
	if u.used == nil {
		u.used = map[string]bool{}
	}
	name := id
	for n := 2; u.used[name]; n++ {
		name = fmt.Sprintf("%s_%d", id, n)
	}
	u.used[name] = true
	return name
}
