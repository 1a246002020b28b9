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
			for _, problem := range phrasesOf("x.md", p) {
				place, _, _ := strings.Cut(strings.TrimPrefix(problem, "x.md:"), ": write ")
				got = append(got, place)
			}
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
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
