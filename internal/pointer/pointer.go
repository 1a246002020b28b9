// Package pointer reads and writes JSON Pointers (RFC 6901) whose tokens name members of objects.
package pointer

import "strings"

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// Escape returns a member's name as a token of a pointer.
func Escape(name string) string { return escaper.Replace(name) }

// Join returns the pointer to a member, given the names on the path to it. Without names it points to the whole
// document.
func Join(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(Escape(name))
	}
	return b.String()
}

// Split returns the names in a pointer; none for the whole document.
func Split(p string) []string {
	if p == "" {
		return nil
	}
	names := strings.Split(p[1:], "/")
	for i, name := range names {
		if strings.Contains(name, "~") {
			names[i] = unescaper.Replace(name)
		}
	}
	return names
}
