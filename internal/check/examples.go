package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// constructorName matches the names of constructors: New and Open with any suffix, and those listed here.
var constructorName = regexp.MustCompile(`^(?:(?:New|Open)(?:\P{Ll}.*)?|Func|RawFunc|ClientTool|RawClientTool|SubAgent|` +
	`RequireApproval(?:If)?|AssignTo|WaitAtMost|Cache|Approve|Deny|Answer(?:Error)?|OutputOf|RawOutput|StateOf|Model)$`)

// checkExamples reports exported constructors without an example that runs, that is, one with an Output comment. It
// exempts commands and internal packages, which users do not see, and functions that take a test, which an example
// does not have.
func checkExamples(t *tree) ([]string, error) {
	packages, err := t.packages(parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if strings.Contains("/"+dir+"/", "/internal/") || packages[dir][0].ast.Name.Name == "main" {
			continue
		}
		shown := runningExamples(packages[dir])
		for _, f := range packages[dir] {
			if isTest(f.name) {
				continue
			}
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Recv != nil || !constructorName.MatchString(fn.Name.Name) || shown[fn.Name.Name] || takesTest(fn) {
					continue
				}
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no example that runs: Example%s with an Output comment",
					f.name, f.line(fn.Pos()), fn.Name.Name, fn.Name.Name))
			}
		}
	}
	return problems, nil
}

// runningExamples returns the functions that the package's examples show: ExampleOpen and ExampleOpen_twice show
// Open.
func runningExamples(files []*goFile) map[string]bool {
	shown := map[string]bool{}
	for _, f := range files {
		if !isTest(f.name) {
			continue
		}
		for _, ex := range doc.Examples(f.ast) {
			if ex.Output != "" || ex.EmptyOutput {
				name, _, _ := strings.Cut(ex.Name, "_")
				shown[name] = true
			}
		}
	}
	return shown
}

// takesTest reports whether a function's first parameter is a testing.TB.
func takesTest(fn *ast.FuncDecl) bool {
	params := fn.Type.Params.List
	if len(params) == 0 {
		return false
	}
	sel, ok := params[0].Type.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "TB"
}
