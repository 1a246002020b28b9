package hosttest

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// golden holds, by scenario, what every host leaves behind on every store.
//
//go:embed testdata/*.txt
var golden embed.FS

// judge checks that what the scene left behind is sound and as expected.
func (s *scene) judge(name string) {
	s.Helper()
	var trees []*tree
	for _, root := range s.roots {
		t, err := readTree(context.Background(), s.st, s.log, root)
		s.must(err)
		trees = append(trees, t)
		for _, problem := range t.unsound() {
			s.Errorf("%s", problem)
		}
	}
	text, file := s.describe(trees), name+".txt"
	if s.host.Golden != "" {
		s.must(os.WriteFile(filepath.Join(s.host.Golden, file), []byte(text), 0o644))
	} else if want, err := golden.ReadFile("testdata/" + file); err != nil {
		s.Errorf("there is no file for the scenario: %v", err)
	} else if string(want) != text {
		s.Errorf("differs from testdata/%s (- expected, + found):\n%s", file, difference(string(want), text))
	}
	if s.Failed() {
		s.Logf("the scene left behind:\n%s", text)
	}
}

// describe describes the conversation, the tools that ran and the trees.
func (s *scene) describe(trees []*tree) string {
	var b strings.Builder
	for _, line := range s.said {
		fmt.Fprintln(&b, line)
	}
	for _, tool := range slices.Sorted(maps.Keys(s.ran)) {
		fmt.Fprintf(&b, "%s ran %d times\n", tool, s.ran[tool])
	}
	if b.Len() > 0 {
		fmt.Fprintln(&b)
	}
	for _, t := range trees {
		b.WriteString(t.describe(s.diary))
	}
	return strings.TrimRight(named(b.String()), "\n") + "\n"
}

// difference lists the lines in which two texts differ, with one line of context.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	shared := make([][]int, len(a)+1) // length of the longest common subsequence from here on
	for i := range shared {
		shared[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if shared[i][j] = max(shared[i+1][j], shared[i][j+1]); a[i] == b[j] {
				shared[i][j] = shared[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && shared[i+1][j] >= shared[i][j+1]:
			fmt.Fprintf(&out, "%5d - %s\n", i+1, a[i])
			i++
		default:
			fmt.Fprintf(&out, "%5d + %s\n", j+1, b[j])
			j++
		}
	}
	return out.String()
}
