package main

import (
	"slices"
	"strings"
	"testing"
)

// Each text has one phrase with a plainer form, at the line that the marker names; texts without one have none.
func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"A late answer is no error.", `1: "answer is no error"`},
		{"- One.\n- Times are\n  no dates.\n", `2: "Times are no dates"`},
		{"There is no table, and there are no rows.", ""},
		{"A claim is no longer needed. It was no worse.", ""},
		{"A label which is no key is refused.", ""},
		{"Equal values are none.", `1: "values are none"`},
		{"There are none.", ""},
		{"It fails if there is not a lease.", `1: "there is not"`},
		{"Rows, and those of a\nchild.\n\nThose of\nothers.", `1: "those of"` + ` | 4: "Those of"`},
		{"It keeps that which was read.", `1: "that which"`},
		{"Ten runs, one of which failed.", `1: "of which"`},
		{"The cursor is not one of this list.", `1: "is not one of"`},
		{"The limit is of replies.", ""},
		{"The row is of a child.", `1: "is of a"`},
		{"Of two answers the first counts.", `1: "Of two answers the first counts"`},
		{"It ends. Of the rows, one stays.", `1: "Of the rows, one stays"`},
		{"The end of two runs.", ""},
		{"Whatever kills it waits.", `1: "Whatever"`},
		{"What a commit writes is one row.", `1: "What a commit writes is one row."`},
		{"| Term | What users type |\n| --- | --- |\n| a | **What stores share.** |", `3: "What stores share."`},
		{"| What | What it does | What it does not |", ""},
		{"What do users type?", ""},
		{"It says what users type.", ""},
		{"# What users type\n\n## 1. What they read", ""},
		{"It is compared with what the log has.", `1: "with what"`},
		{"Versions stand in go.mod, and `that stands` is code.", `1: "stand"`},
		{"A timeout comes of a lost packet.", `1: "comes of"`},
		{"A store knows nothing of runs.", `1: "knows nothing"`},
		{"Code:\n\n    those of a block\n\n```\nthose of a fence\n```\n\n<!-- those of a comment -->[a](those of)", ""},
		{"A list:\n\n1. First,\n   and\n   those of\n   others.\n", `5: "those of"`},
		{"Text.\n    Continued, with those of a child.", `2: "those of"`},
	} {
		var got []string
		for _, p := range paragraphs(c.text) {
			for _, problem := range phrasesOf("x.md", p, phrases) {
				place, _, _ := strings.Cut(strings.TrimPrefix(problem, "x.md:"), ": write ")
				got = append(got, place)
			}
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// A phrase is found in each comment that go doc shows to those who import a package, and in no other.
func TestPhrasesOfDocComments(t *testing.T) {
	t.Parallel()
	files := sound(t)
	files["engine/doc.go"] = `// Package engine has those of others.
package engine

// Those of a constant.
const (
	// A is one of those of a constant.
	A = 1 // those of a line
	b = 2 // those of a hidden constant
)

// those of a hidden block
const c = 3

// F has those of a function.
//
//	those of code
//
//go:noinline
func F() {
	// those of a body
}

// T has those of a type.
type T[P any] struct {
	// X has those of a field.
	X struct {
		Y int // those of a nested field
	}
	// z has those of a hidden field
	z struct {
		Y int // those of a field of a hidden field
	}
	// Embedded: those of a type.
	error
}

// M has those of a method.
func (*T[P]) M() {}

// m has those of a hidden method
func (*T[P]) m() {}

// I is an interface.
type I interface {
	// M has those of a method of an interface.
	M()
	// m has those of a hidden method
	m()
}

// h has those of a hidden type
type h struct {
	X int // those of its field
}

// M has those of a method of a hidden type.
func (h) M() {}
`
	for _, name := range []string{"engine/x_test.go", "internal/words/x.go", "store/disk/internal/page/x.go"} {
		files[name] = "package x\n\n// X has those of others.\nconst X = 1\n"
	}
	files["cmd/house/x.go"] = "package main\n\n// X has those of others.\nconst X = 1\n"
	problems, err := checkPhrases(build(t, files))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		place, _, _ := strings.Cut(p, `: write `)
		found = append(found, strings.TrimPrefix(place, "engine/doc.go:"))
	}
	want := []string{"1", "4", "6", "7", "14", "23", "25", "27", "33", "37", "45"}
	if !slices.EqualFunc(found, want, func(got, line string) bool { return strings.EqualFold(got, line+`: "those of"`) }) {
		t.Errorf("got %q, want lines %v", found, want)
	}
}

// Doc comments have further phrases, and a clause with "what" is found once.
func TestPhrasesOfDocCommentsOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Kind is what it waits for.":              "is what it",
		"Read returns what\nwas written.":         "returns what was",
		"It grows with what is kept.":             "with what",
		"What is kept stays.":                     "What is kept stays.",
		"Error describes what happened.":          "",
		"Do says what to do.":                     "",
		"The limit is that of a store.":           "is that of",
		"It ends, whatever its cause.":            "whatever",
		"Whatever ends it, it ends.":              "Whatever",
		"It ends for any cause, and `what it is`": "",
	} {
		var got []string
		for _, p := range paragraphs(text) {
			for _, problem := range phrasesOf("x.go", p, docPhrases) {
				got = append(got, strings.Split(problem, `"`)[1])
			}
		}
		if strings.Join(got, " | ") != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestPhrasesByFile(t *testing.T) {
	t.Parallel()
	files := sound(t)
	bad := "\nA hut is no house.\n"
	for _, name := range []string{"CHANGELOG.md", "docs/GLOSSARY.md", "docs/testdata/sample.md", "docs/sample.txt"} {
		files[name] = bad
	}
	files["llms.txt"] += bad
	files["CONTRIBUTING.md"] = exceptions[0].text + " Those of others are none.\n"
	problems, err := checkPhrases(build(t, files))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`CONTRIBUTING.md:1: "others are none"`, `CONTRIBUTING.md:1: "Those of"`}
	for _, e := range exceptions[1:] {
		want = append(want, "CONTRIBUTING.md: does not contain \""+e.text+`"`)
	}
	want = append(want, `llms.txt:7: "hut is no house"`)
	if !slices.EqualFunc(problems, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}
