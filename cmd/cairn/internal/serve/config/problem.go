package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is a mistake in the file.
type Problem struct {
	Line, Column int    // from 1; 0 if the mistake has no position
	Path         string // key, such as assistants[0].model
	Text         string // what is wrong; shows no token and no provider's key
}

// String returns the problem on one line, without the file's name.
func (p Problem) String() string {
	text := p.Text
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, text)
	}
	return text
}

// Error holds all the mistakes of a file, in the order of their lines.
type Error struct {
	File     string
	Problems []Problem
}

// Error returns the problems, one per line. Each line begins with the file's name.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.File + ":" + p.String()
		if p.Line == 0 {
			lines[i] = e.File + ": " + p.String()
		}
	}
	return strings.Join(lines, "\n")
}

// sort orders the problems by position.
func (e *Error) sort() {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// nearest returns the name that a mistyped one probably stands for; empty if none is near.
func nearest(typed string, names []string) string {
	best, least := "", max(1, len(typed)/3)+1
	for _, name := range names {
		if d := distance(typed, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to add, remove, change or swap with their neighbor to turn a into b.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
