package cairn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// docs/EVENTS.md has a row for each type of event in event.go, and mentions only fields that an event has.
func TestEveryEventIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/EVENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(doc), -1) {
		if rows[row[1]] != "" {
			t.Errorf("%s has two rows", row[1])
		}
		rows[row[1]] = row[2]
	}
	fields := map[string]bool{}
	for i := range reflect.TypeFor[cairn.Event]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[cairn.Event]().Field(i).Tag.Get("json"), ",")
		fields[name] = true
	}
	used := map[string]bool{"sequence": true, "type": true, "session_id": true, "run_id": true, "agent": true, "step": true, "time": true, "-": true}
	for _, kind := range eventTypes(t) {
		list, there := rows[kind]
		if !there {
			t.Errorf("%s has no row", kind)
		}
		for _, field := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(list, -1) {
			if used[field[1]] = true; !fields[field[1]] {
				t.Errorf("%s: an event has no field %s", kind, field[1])
			}
		}
		delete(rows, kind)
	}
	for kind := range rows {
		t.Errorf("%s is no type of event", kind)
	}
	for name := range fields {
		if !used[name] {
			t.Errorf("no event is said to have the field %s", name)
		}
	}
}

// eventTypes lists the types of events in event.go.
func eventTypes(t *testing.T) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) == 0 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			kind, _ := strconv.Unquote(lit.Value)
			list = append(list, kind)
		}
		return true
	})
	if len(list) < 30 {
		t.Fatalf("only %d types are found", len(list))
	}
	return list
}
