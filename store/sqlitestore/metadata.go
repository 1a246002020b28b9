package sqlitestore

import (
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// entry is a path in the metadata of a session and the value that a filter wants there.
type entry struct {
	path  []string
	value any
}

// addMetadata adds the conditions of a filter on metadata: one statement and one argument for all paths of a length, so
// that the number of entries does not change the statement. No index serves them.
func (f *filter) addMetadata(m cairn.Metadata) {
	byLength := map[int][]any{}
	for _, e := range entries(nil, m) {
		byLength[len(e.path)] = append(byLength[len(e.path)], []any{e.path, e.value})
	}
	for n := 1; len(byLength) > 0; n++ {
		if list := byLength[n]; list != nil {
			f.addJSON(metadataCondition(n), list)
			delete(byLength, n)
		}
	}
}

func entries(path []string, object map[string]any) (list []entry) {
	for key, value := range object {
		at := append(path[:len(path):len(path)], key)
		if inner, ok := value.(map[string]any); ok {
			list = append(list, entries(at, inner)...)
		} else {
			list = append(list, entry{at, value})
		}
	}
	return list
}

// metadataCondition returns the condition that the metadata has the value of each pair at its path of n keys. json_each
// yields true and false as 1 and 0, and null as NULL, so the types are compared, too.
func metadataCondition(n int) string {
	from, where := "json_each(s.metadata) m1", "m1.key = want.value ->> '$[0][0]'"
	for i := 2; i <= n; i++ {
		from += fmt.Sprintf(", json_each(CASE m%d.type WHEN 'object' THEN m%[1]d.value ELSE '{}' END) m%d", i-1, i)
		where += fmt.Sprintf(" AND m%d.key = want.value ->> '$[0][%d]'", i, i-1)
	}
	return strings.NewReplacer("{from}", from, "{where}", where, "{last}", fmt.Sprint("m", n)).Replace(`NOT EXISTS (
			SELECT 1 FROM json_each(?) want WHERE NOT EXISTS (
				SELECT 1 FROM {from}
				WHERE {where} AND {last}.value IS want.value ->> '$[1]'
					AND replace({last}.type, 'integer', 'real') = replace(json_type(want.value, '$[1]'), 'integer', 'real')))`)
}
