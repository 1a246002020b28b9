package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mostSleeps is how many lines of all tests may sleep.
const mostSleeps = 60

// sleepAdvice names what tests do instead of sleeping.
const sleepAdvice = "internal/testclock has Advance for the fake clock, Pause for work that takes time, and Await for conditions"

// checkSleeps reports lines of tests, and of packages of tests, that sleep without a comment on them or just above, and
// that tests sleep in more than mostSleeps lines. A test that sleeps in real time is slow, and fails on a busy machine.
func checkSleeps(t *tree) ([]string, error) {
	packages, err := t.packages(parser.ParseComments | parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var problems []string
	total := 0
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		for _, f := range packages[dir] {
			if !isTest(f.name) && !ofTests(dir) {
				continue
			}
			lines := f.sleeps()
			total += len(lines)
			for _, line := range lines {
				if !f.hasComment(line) {
					problems = append(problems, fmt.Sprintf("%s:%d: sleeps without a comment that has the reason; %s", f.name, line, sleepAdvice))
				}
			}
		}
	}
	if total > mostSleeps {
		problems = append(problems, fmt.Sprintf("tests sleep in %d lines, more than %d; %s", total, mostSleeps, sleepAdvice))
	}
	return problems, nil
}

// ofTests reports whether a directory has a package that tests alone import.
func ofTests(dir string) bool {
	f, _, _ := floorOf(dir)
	return f.name == "proof" || strings.HasSuffix(path.Base(dir), "test")
}

// sleeps returns the lines that use time.Sleep, or only receive from time.After.
func (f *goFile) sleeps() (lines []int) {
	name := f.importName("time")
	if name == "" {
		return nil
	}
	add := func(at ast.Node) {
		if line := f.line(at.Pos()); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	of := func(node ast.Node, function string) bool {
		sel, ok := node.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != function {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == name
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of(n, "Sleep") {
				add(n)
			}
		case *ast.BlockStmt:
			for _, statement := range n.List {
				if expr, ok := statement.(*ast.ExprStmt); ok {
					if receive, ok := expr.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
						if call, ok := receive.X.(*ast.CallExpr); ok && of(call.Fun, "After") {
							add(receive)
						}
					}
				}
			}
		}
		return true
	})
	return lines
}

// importName returns the name by which a file uses a package of the standard library; empty if it does not import it.
func (f *goFile) importName(of string) string {
	for _, spec := range f.ast.Imports {
		if target, err := strconv.Unquote(spec.Path.Value); err == nil && target == of {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(of)
		}
	}
	return ""
}

// hasComment reports whether a line ends with a comment, or the line above is one.
func (f *goFile) hasComment(line int) bool {
	above := strings.TrimSpace(strings.Split(f.src, "\n")[max(line-2, 0)])
	return strings.HasPrefix(above, "//") || slices.ContainsFunc(f.ast.Comments, func(group *ast.CommentGroup) bool {
		return f.line(group.Pos()) == line
	})
}
