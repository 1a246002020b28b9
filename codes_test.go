package cairn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// TestEveryCodeIsInTheTable reads the constants from the source, so that a new one cannot be forgotten.
func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	declared := declaredCodes(t)
	if len(declared) < 30 {
		t.Fatalf("only %d codes were found in errors.go", len(declared))
	}
	for name, code := range declared {
		info, ok := codes[code]
		if !ok {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if info.category == "" || info.status < 400 || info.status > 599 {
			t.Errorf("%s has category %q and status %d", name, info.category, info.status)
		}
		if code.Category() != info.category || code.HTTPStatus() != info.status || code.Retryable() != info.retryable {
			t.Errorf("%s does not say what the table says", name)
		}
	}
	if len(codes) != len(declared) {
		t.Errorf("%d codes are declared, %d are in the table", len(declared), len(codes))
	}
}

// declaredCodes returns the constants of type Code by name.
func declaredCodes(t *testing.T) map[string]Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Code{}
	values := map[Code]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		name, code := spec.Names[0].Name, Code(text)
		if other, twice := values[code]; twice {
			t.Errorf("%s and %s are both %q", name, other, code)
		}
		found[name], values[code] = code, name
		return true
	})
	return found
}
