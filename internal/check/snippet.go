package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

var outputComment = regexp.MustCompile(`(?i)^\s*(?:unordered )?output:`)

// source returns the text that a code mark names: file or file#declaration, where a method is Type.Method, or the
// signatures of functions: file#function(), separated by spaces.
func (t *tree) source(ref string) (string, error) {
	if !strings.HasSuffix(ref, "()") {
		return t.declaration(ref, false)
	}
	var list []string
	for _, one := range strings.Fields(ref) {
		text, err := t.declaration(strings.TrimSuffix(one, "()"), true)
		if err != nil {
			return "", err
		}
		list = append(list, text)
	}
	return strings.Join(list, "\n"), nil
}

// declaration returns a file, or one of its declarations; with signature, of a function only what stands before its body.
func (t *tree) declaration(ref string, signature bool) (string, error) {
	name, decl, partial := strings.Cut(ref, "#")
	if !t.exists(name) {
		return "", fmt.Errorf("%s: no such file in the repository", name)
	}
	if !partial {
		text, err := t.read(name)
		return strings.TrimRight(text, "\n"), err
	}
	f, err := t.parse(name, parser.ParseComments)
	if err != nil {
		return "", err
	}
	for _, d := range f.ast.Decls {
		if !declares(d, decl) {
			continue
		}
		switch fn, ok := d.(*ast.FuncDecl); {
		case signature && !ok:
			return "", fmt.Errorf("%s is not a function", ref)
		case signature:
			return f.text(fn.Pos(), fn.Type.End()), nil
		case ok && strings.HasPrefix(decl, "Example"):
			return exampleBody(f, fn), nil
		}
		return f.text(d.Pos(), d.End()), nil
	}
	return "", fmt.Errorf("%s does not declare %s", name, decl)
}

func declares(d ast.Decl, name string) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return receiver(d)+d.Name.Name == name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.Name == name {
					return true
				}
			case *ast.ValueSpec:
				if spec.Names[0].Name == name {
					return true
				}
			}
		}
	}
	return false
}

// receiver returns the name of a method's type followed by a period; empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	switch t := d.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return fmt.Sprintf("%s.", t.X)
	default:
		return fmt.Sprintf("%s.", t)
	}
}

// exampleBody returns an example's statements, unindented and without the Output comment.
func exampleBody(f *goFile, fn *ast.FuncDecl) string {
	end := fn.Body.Rbrace
	for _, group := range f.ast.Comments {
		if fn.Body.Lbrace < group.Pos() && group.End() <= fn.Body.Rbrace && outputComment.MatchString(group.Text()) {
			end = group.Pos()
		}
	}
	lines := strings.Split(f.text(fn.Body.Lbrace+token.Pos(1), end), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "\t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
