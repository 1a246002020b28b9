package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"maps"
	"slices"
	"strings"
)

// docPhrases are the phrases of doc comments, in addition to those of Markdown.
var docPhrases = append(slices.Clone(phrases),
	phrase{spaced(`\b(?:\w+ )?what \w+`), spaced(`^(?:` + beforeWhat + `) |\bwhat (?:happened|to)\b`), "the noun that the clause stands for"},
	phrase{spaced(`(?i)\b(?:\w+ )?that of\b`), nil, "the noun again"},
	phrase{spaced(`(?i)\bwhatever\b`), spaced(`^Whatever`), "regardless of, or the noun"},
)

// docComments returns the comments of a file that go doc shows, in order: of the package and of the exported constants,
// variables, functions and types, with their methods and fields.
func docComments(f *goFile) (groups []*ast.CommentGroup) {
	add := func(list ...*ast.CommentGroup) {
		for _, g := range list {
			if g != nil {
				groups = append(groups, g)
			}
		}
	}
	add(f.ast.Doc)
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				add(d.Doc)
			}
		case *ast.GenDecl:
			shown := false
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						shown = true
						add(s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						shown = true
						add(s.Doc, s.Comment)
						add(memberComments(s.Type)...)
					}
				}
			}
			if shown {
				add(d.Doc)
			}
		}
	}
	slices.SortFunc(groups, func(a, b *ast.CommentGroup) int { return cmp.Compare(a.Pos(), b.Pos()) })
	return groups
}

// exportedReceiver reports whether a function has no receiver or one of an exported type.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		default:
			name, ok := t.(*ast.Ident)
			return ok && name.IsExported()
		}
	}
}

// memberComments returns the comments of the exported fields of a type and of the exported methods of an interface.
func memberComments(typ ast.Expr) (groups []*ast.CommentGroup) {
	ast.Inspect(typ, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		if len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			return false
		}
		for _, g := range []*ast.CommentGroup{field.Doc, field.Comment} {
			if g != nil {
				groups = append(groups, g)
			}
		}
		return true
	})
	return groups
}

// docText returns the text of line comments without their marks, one line for each line of the source.
func docText(g *ast.CommentGroup) string {
	var lines []string
	for _, c := range g.List {
		line := strings.TrimPrefix(c.Text, "//")
		if strings.HasPrefix(line, "go:") {
			line = ""
		}
		lines = append(lines, strings.TrimPrefix(line, " "))
	}
	return strings.Join(lines, "\n")
}

// commentPhrases reports phrases in doc comments of packages that users import. It leaves out commands, internal
// packages and tests.
func commentPhrases(t *tree) (problems []string, err error) {
	packages, err := t.packages(parser.ParseComments | parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		for _, f := range packages[dir] {
			if isTest(f.name) || f.ast.Name.Name == "main" || strings.Contains("/"+dir+"/", "/internal/") {
				continue
			}
			for _, g := range docComments(f) {
				for _, p := range paragraphs(docText(g)) {
					p.line += f.line(g.Pos()) - 1
					problems = append(problems, phrasesOf(f.name, p, docPhrases)...)
				}
			}
		}
	}
	return problems, nil
}
