package pgstore

import (
	"regexp"
	"strings"
	"sync"
)

// schemaMark stands for the schema in the texts of statements.
const schemaMark = "{schema}"

var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

func validName(s string) bool { return name.MatchString(s) && !strings.HasPrefix(s, "pg_") }

// texts are the statements of a store with its schema's name in them. A search path would not do, since it belongs to a
// connection, which a proxy shares between clients.
type texts struct {
	schema string // quoted
	made   sync.Map
}

// of returns a statement with the schema's name in it.
func (t *texts) of(text string) string {
	if made, ok := t.made.Load(text); ok {
		return made.(string)
	}
	made := strings.ReplaceAll(text, schemaMark, t.schema)
	t.made.Store(text, made)
	return made
}
