package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	fenceLine  = regexp.MustCompile("^ *(```+|~~~+)")
	codeSpan   = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)="([^"]+)"`)
	scheme     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	codeMarker = regexp.MustCompile(`^<!--\s*code:\s*(.*?)\s*-->\s*$`)
)

// outside calls visit for each line of a Markdown text, with its index, except for fenced blocks.
func outside(lines []string, visit func(i int, line string)) {
	fence := ""
	for i, line := range lines {
		mark := ""
		if m := fenceLine.FindStringSubmatch(line); m != nil {
			mark = m[1]
		}
		switch {
		case fence == "" && mark != "":
			fence = mark
		case fence != "" && strings.HasPrefix(mark, fence):
			fence = ""
		case fence == "":
			visit(i, line)
		}
	}
}

// linkList is the list of documents for language models, in Markdown.
const linkList = "llms.txt"

// checkLinks reports relative links in Markdown files whose file or heading does not exist in the tree.
func checkLinks(t *tree) ([]string, error) {
	var problems []string
	names := t.withSuffix(".md")
	if t.exists(linkList) {
		names = append(names, linkList)
	}
	for _, name := range names {
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		outside(strings.Split(text, "\n"), func(i int, line string) {
			for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				link := m[1] + m[2] + m[3]
				if scheme.MatchString(link) || strings.HasPrefix(link, "//") {
					continue
				}
				if why := t.followLink(name, link); why != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: link %s: %s", name, i+1, link, why))
				}
			}
		})
	}
	return problems, nil
}

// followLink explains what is wrong with a file's relative link; empty if the link is good.
func (t *tree) followLink(from, link string) string {
	target, fragment, _ := strings.Cut(link, "#")
	target, err := url.PathUnescape(target)
	if err != nil {
		return err.Error()
	}
	file := from
	switch {
	case strings.HasPrefix(target, "/"): // from the top of the repository
		file = path.Clean("." + target)
	case target != "":
		file = path.Join(path.Dir(from), target)
	}
	if !t.exists(file) {
		return "no such file in the repository"
	}
	if fragment == "" || !strings.HasSuffix(file, ".md") {
		return ""
	}
	text, err := t.read(file)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(text), fragment) {
		return "no such heading"
	}
	return ""
}

// anchors returns the link names of a Markdown text's headings.
func anchors(text string) []string {
	var out []string
	times := map[string]int{}
	outside(strings.Split(text, "\n"), func(_ int, line string) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, m[1])
		name := slug
		if n := times[slug]; n > 0 {
			name = fmt.Sprintf("%s-%d", slug, n)
		}
		times[slug]++
		out = append(out, name)
	})
	return out
}

// checkCode reports Go blocks in Markdown files without a mark, and those that differ from their marked source. The
// mark is on the line before the block:
//
//	<!-- code: engine/example_test.go#ExampleNew -->  the body of an example
//	<!-- code: store/driver/store.go#Store -->        any other declaration
//	<!-- code: tool.go#Func() tool.go#Serial() -->    the signatures of functions, one or several
//	<!-- code: examples/hello/main.go -->             a whole file
func checkCode(t *tree) ([]string, error) {
	var problems []string
	err := t.eachDoc(func(p page) error {
		problems = append(append(problems, p.wrong...), p.stale...)
		return nil
	})
	return problems, err
}

// updateCode copies the source of each marked block into the Markdown files. A wrong mark is an error, and its file
// is not changed.
func updateCode(t *tree) error {
	var failed []error
	err := t.eachDoc(func(p page) error {
		switch {
		case len(p.wrong) > 0:
			failed = append(failed, errors.New(strings.Join(p.wrong, "\n")))
		case len(p.stale) > 0:
			return os.WriteFile(t.path(p.name), []byte(p.want), 0o644)
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

// page is a Markdown file. wrong lists its wrong marks, stale its blocks that differ from their source. want is the
// text with these blocks updated.
type page struct {
	name, want   string
	wrong, stale []string
}

func (t *tree) eachDoc(visit func(page) error) error {
	for _, name := range t.withSuffix(".md") {
		text, err := t.read(name)
		if err != nil {
			return err
		}
		p := page{name: name}
		lines := strings.Split(text, "\n")
		p.wrong = unmarked(name, lines)
		var out []string
		done := 0 // lines already copied to out
		outside(lines, func(i int, line string) {
			m := codeMarker.FindStringSubmatch(line)
			if m == nil {
				return
			}
			source, err := t.source(m[1])
			begin, end := block(lines, i+1)
			switch {
			case err != nil:
				p.wrong = append(p.wrong, fmt.Sprintf("%s:%d: %v", name, i+1, err))
				return
			case begin < 0:
				p.wrong = append(p.wrong, fmt.Sprintf("%s:%d: no Go block follows this mark", name, i+1))
				return
			case strings.Join(lines[begin:end], "\n") != source:
				p.stale = append(p.stale, fmt.Sprintf("%s:%d: the block differs from %s: make tidy", name, i+1, m[1]))
			}
			out = append(append(out, lines[done:begin]...), source)
			done = end
		})
		p.want = strings.Join(append(out, lines[done:]...), "\n")
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}

// unmarked reports the Go blocks that are copies of nothing, so that nothing compiles them.
func unmarked(name string, lines []string) (wrong []string) {
	fence := ""
	for i, line := range lines {
		mark := ""
		if m := fenceLine.FindStringSubmatch(line); m != nil {
			mark = m[1]
		}
		switch {
		case fence == "" && mark != "":
			fence = mark
			if strings.HasPrefix(strings.TrimLeft(line, " `~"), "go") && (i == 0 || !codeMarker.MatchString(lines[i-1])) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: Go without a mark: copy it from code that is compiled", name, i+1))
			}
		case fence != "" && strings.HasPrefix(mark, fence):
			fence = ""
		}
	}
	return wrong
}

// block returns the inner lines of the Go block whose fence is line i; begin is negative if there is none.
func block(lines []string, i int) (begin, end int) {
	if i >= len(lines) || strings.TrimSpace(lines[i]) != "```go" {
		return -1, -1
	}
	for end := i + 1; end < len(lines); end++ {
		if lines[end] == "```" {
			return i + 1, end
		}
	}
	return -1, -1
}
