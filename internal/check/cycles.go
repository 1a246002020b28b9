package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxCycle is how many files of a package may depend on each other in a cycle.
const maxCycle = 5

// suites lists the packages of scenarios. Scenarios share steps, and nothing depends on them.
var suites = []string{"host/hosttest", "internal/provider/providertest", "internal/torture", "model/modeltest", "store/storetest"}

// checkCycles reports packages in which more files form a cycle than one subject needs.
func checkCycles(t *tree) ([]string, error) {
	byDir := map[string][]string{}
	for _, name := range t.withSuffix(".go") {
		if dir := path.Dir(name); !isTest(name) && !slices.Contains(suites, dir) {
			byDir[dir] = append(byDir[dir], name)
		}
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		uses, err := t.fileUses(byDir[dir])
		if err != nil {
			return nil, err
		}
		if c := largestCycle(uses); len(c) > maxCycle {
			problems = append(problems, fmt.Sprintf("%s: %d files form a cycle, more than %d: %s", dir, len(c), maxCycle, strings.Join(c, " ")))
		}
	}
	return problems, nil
}

// fileUses returns, for each file of a package, the files that declare what it uses. It resolves no imports, so it
// misses methods and fields that are reached through types of other packages. Unlike [tree.packages], it parses the
// files into one set, so that a position names its file.
func (t *tree) fileUses(names []string) (map[string]map[string]bool, error) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		src, err := t.read(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: emptyImports{}, Error: func(error) {}}
	pkg, _ := conf.Check(path.Dir(names[0]), set, files, info) // types of other packages are unknown
	uses := map[string]map[string]bool{}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || !obj.Pos().IsValid() {
			continue
		}
		from, to := path.Base(set.Position(id.Pos()).Filename), path.Base(set.Position(obj.Pos()).Filename)
		if uses[from] == nil {
			uses[from] = map[string]bool{}
		}
		uses[from][to] = true
	}
	return uses, nil
}

// emptyImports imports every package without its declarations.
type emptyImports struct{}

func (emptyImports) Import(name string) (*types.Package, error) {
	pkg := types.NewPackage(name, path.Base(name))
	pkg.MarkComplete()
	return pkg, nil
}

// largestCycle returns the largest set of nodes that all reach each other.
func largestCycle(next map[string]map[string]bool) (largest []string) {
	reached := map[string]map[string]bool{}
	for from := range next {
		seen, open := map[string]bool{}, []string{from}
		for len(open) > 0 {
			at := open[0]
			open = open[1:]
			for to := range next[at] {
				if !seen[to] {
					seen[to] = true
					open = append(open, to)
				}
			}
		}
		reached[from] = seen
	}
	for _, from := range slices.Sorted(maps.Keys(next)) {
		var cycle []string
		for to := range reached[from] {
			if reached[to][from] {
				cycle = append(cycle, to)
			}
		}
		if len(cycle) > len(largest) {
			largest = cycle
		}
	}
	slices.Sort(largest)
	return largest
}
