package pgstore

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// schemaMark stands for the schema in the texts of statements.
const schemaMark = "{schema}"

var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

func validName(s string) bool { return name.MatchString(s) && !strings.HasPrefix(s, "pg_") }

// texts are the statements of a store with its schema's name in them: the search path is a connection's, which behind a
// proxy is anybody's.
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

// parameter is a named argument in the text of a statement.
var parameter = regexp.MustCompile(`@[a-z_]+`)

// number replaces the named arguments of a text by numbered ones, and returns the names in their order.
func number(text string) (numbered string, names []string) {
	numbers := map[string]string{}
	numbered = parameter.ReplaceAllStringFunc(text, func(name string) string {
		n, known := numbers[name]
		if !known {
			names = append(names, name[1:])
			n = "$" + strconv.Itoa(len(names))
			numbers[name] = n
		}
		return n
	})
	return numbered, names
}
