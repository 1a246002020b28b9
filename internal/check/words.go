package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ban is a pattern that no file may contain, and why. Patterns are spelled so that this file does not contain them.
type ban struct {
	pattern *regexp.Regexp
	why     string
	except  []string // base names of exempt files
}

var bans = []ban{
	{regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`), "promises later work", nil},
	{regexp.MustCompile(`(?:^|[^\w.~/-])/(?:(?:work|root|home|Users)/|tmp/\w)`), "is a path of one machine", nil},
	{regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`(?:proxy|sum)\.go` + `lang`, `registry\.(?:np` + `mjs|ya` + `rnpkg)`, `(?:deb|security)\.deb` + `ian`, `(?:static|index)\.cra` + `tes`,
		`py` + `pi`, `files\.python` + `hosted`,
	}, "|") + `)\.(?:org|com|io)\b`), "is the host of a package registry", []string{"go.sum", "go.work.sum"}},
}

// foreign matches words of prose that the glossary replaces. They are spelled so that this file does not contain
// them.
var foreign = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`t` + `ells?`, `t` + `elling`, `(?:un)?t` + `old`, `who` + `ever`, `some` + `body`, `some` + `one`, `(?:go|goes|going|went) ` + `on`, `h` + `ears?`, `h` + `eard`,
	`lets? ` + `go`, `forsa` + `ken?`, `forsa` + `kes`, `a` + `part`, `puts? ` + `off`,
}, "|") + `)\b`)

// wooden matches phrases in texts of programs that have a plainer form: unknown x, x not found, must be x, cannot
// encode x, duplicate x. They are spelled so that this file does not contain them. The words after "is no" leave out
// "longer".
var wooden = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`there (?:is|are) n` + `o(?:t|ne)?`, `is n` + `o (?:[^l\W]\w*|l[^o\W]\w*)`, `is no` + `ne`, `is no` + `t one`, `is o` + `f (?:a|the)`,
	`comes (?:tw` + `ice|wh` + `ere)`, `does not (?:en|de)c` + `ode`,
}, "|") + `)\b`)

// harness matches the directories whose texts only those who develop read: suites and simulations for tests.
var harness = regexp.MustCompile(`^(?:host/hosttest|store/storetest|internal/provider/providertest|internal/torture|model/modeltest)/`)

// vague matches declarations whose names say nothing to those who do not know the code, by the words that have been such
// names. Files and directories are compared too.
var (
	vague     = regexp.MustCompile(`(?:Un)?Told(?:[A-Z_]|$)|(?:Goes|Takes)On(?:[A-Z_]|$)|GivenUp|Owed(?:[A-Z_]|$)|Rivals?(?:[A-Z_]|$)|Wish(?:[A-Z_]|$)|Desk(?:[A-Z_]|$)`)
	vagueFile = regexp.MustCompile(`^(?:room|keep|pass|byhand|align|rivals|stand|said|calm|pend|owed|desk|wish|valued|compose|hop)(?:_test)?(?:\.go)?$`)
	declared  = regexp.MustCompile(`^(?:func(?: \([^)]*\))?|type) (\w+)`)
)

// vagueNames reports the names in a file of Go, and of the file itself, that say nothing.
func vagueNames(name, text string) (problems []string) {
	for part := range strings.SplitSeq(name, "/") {
		if vagueFile.MatchString(part) {
			problems = append(problems, fmt.Sprintf("%s: %q: a file or directory is named after what is in it", name, part))
		}
	}
	for i, line := range strings.Split(text, "\n") {
		m := declared.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if name1 := strings.ToUpper(m[1][:1]) + m[1][1:]; vague.MatchString(name1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q: name it with the field's word", name, i+1, m[1]))
		}
	}
	return problems
}

// comment matches a comment at the end of a line of Go.
var comment = regexp.MustCompile(`(?:^|\s)//(.*)$`)

// prose returns the lines of a file that are prose: comments of Go, and Markdown outside of blocks of code.
func prose(name, text string) (lines map[int]string) {
	lines = map[int]string{}
	switch {
	case strings.HasSuffix(name, ".go"):
		for i, line := range strings.Split(text, "\n") {
			if m := comment.FindStringSubmatch(line); m != nil {
				lines[i] = m[1]
			}
		}
	case strings.HasSuffix(name, ".md") && path.Base(name) != "GLOSSARY.md":
		outside(strings.Split(text, "\n"), func(i int, line string) { lines[i] = line })
	}
	return lines
}

// texts returns the lines of a file of Go that are in string literals: messages, help, descriptions. It leaves out
// tests, import paths, tags of fields and patterns of package regexp.
func texts(name, text string) (lines map[int]string) {
	if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || harness.MatchString(name) {
		return nil
	}
	set := token.NewFileSet()
	file, _ := parser.ParseFile(set, name, text, parser.SkipObjectResolution) // what does not parse is reported by format
	lines = map[int]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := f.X.(*ast.Ident)
			return !ok || pkg.Name != "regexp"
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return false
			}
			value, err := strconv.Unquote(n.Value)
			if err != nil {
				return false
			}
			at := set.Position(n.Pos()).Line - 1
			if n.Value[0] != '`' {
				value = strings.ReplaceAll(value, "\n", " ")
			}
			for i, line := range strings.Split(value, "\n") {
				lines[at+i] += line + "\n"
			}
		}
		return true
	})
	return lines
}

// checkWords reports banned text in any text file, words in prose and in texts of programs that the glossary replaces,
// wooden phrases in the latter, and names that say nothing.
func checkWords(t *tree) ([]string, error) {
	var problems []string
	for _, name := range t.files {
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, "\x00") {
			continue
		}
		if strings.HasSuffix(name, ".go") {
			problems = append(problems, vagueNames(name, text)...)
		}
		read, written := prose(name, text), texts(name, text)
		for i, line := range strings.Split(text, "\n") {
			if found := foreign.FindString(read[i] + "\n" + written[i]); found != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %q: docs/GLOSSARY.md has the word for it", name, i+1, found))
			}
			if found := wooden.FindString(written[i]); found != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %q: write unknown, not found, must be, cannot, duplicate", name, i+1, found))
			}
			for _, b := range bans {
				if found := b.pattern.FindString(line); found != "" && !slices.Contains(b.except, path.Base(name)) {
					problems = append(problems, fmt.Sprintf("%s:%d: %q %s", name, i+1, strings.TrimSpace(found), b.why))
				}
			}
		}
	}
	return problems, nil
}
