package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// searching are the arguments of the tool that searches.
type searching struct {
	Query   string `json:"query" jsonschema:"A regular expression (RE2) that lines match." schema:"minLength=1"`
	Path    string `json:"path,omitempty" jsonschema:"The file or directory to search. Default: the workspace."`
	Pattern string `json:"pattern,omitempty" jsonschema:"A pattern of the files' names or paths, such as *.go."`
	Case    bool   `json:"ignore_case,omitempty" jsonschema:"Ignore the case of letters."`
}

// maxLine is how much of a line a search returns.
const maxLine = 300

// errEnough ends a search.
var errEnough = errors.New("enough lines were found")

// searchTool finds lines of text files. Version control and binary files are left out.
func (w *Workspace) searchTool(p pinned) cairn.Tool {
	return newTool(w, "search", "Find the lines of text files that match a regular expression. The directory .git is left out.", false, p, func(ctx context.Context, v *visit, in searching) (string, error) {
		query := in.Query
		if in.Case {
			query = "(?i)" + query
		}
		re, err := regexp.Compile(query)
		if err != nil {
			return "", cairn.Invalid("query", "%v", err)
		}
		match, err := globOf(in.Pattern)
		if err != nil {
			return "", err
		}
		files, err := v.files(ctx, in.Path, match)
		if err != nil {
			return "", err
		}
		f := &finder{re: re, room: v.limits.Output}
		for _, name := range files {
			if err := f.file(ctx, v.dir, name); errors.Is(err, errEnough) {
				f.out.WriteString("[there are more]")
				break
			} else if err != nil && !isPathError(err) { // such as a file that a command has removed
				return "", err
			}
		}
		if f.out.Len() == 0 {
			return "(nothing)", nil
		}
		return strings.TrimRight(f.out.String(), "\n"), nil
	})
}

// files returns the files at or below a path that match.
func (v *visit) files(ctx context.Context, at string, match func(string) bool) (list []string, err error) {
	below := "."
	if at != "" {
		if below, err = cleanPath(v.info.Root, at); err != nil {
			return nil, err
		}
	}
	if below != "." {
		e, err := v.dir.Stat(below)
		if err != nil {
			return nil, err
		}
		if e.Kind != Dirs {
			return []string{below}, nil
		}
	}
	err = v.dir.Walk(ctx, func(e Entry) error {
		rest, ok := within(below, e.Path)
		if ok && e.Kind == File && match(rest) && checkPath(e.Path) == nil && !slices.Contains(strings.Split(path.Dir(rest), "/"), ".git") {
			list = append(list, e.Path)
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}

// finder collects lines that match.
type finder struct {
	re   *regexp.Regexp
	out  strings.Builder
	room int
}

// file searches one file.
func (f *finder) file(ctx context.Context, d Directory, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, _, err := d.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	b := bufio.NewReaderSize(r, 64<<10)
	if start, _ := b.Peek(8000); bytes.IndexByte(start, 0) >= 0 {
		return nil
	}
	for n, whole := 1, true; ; {
		line, err := b.ReadSlice('\n') // of a longer line, only its parts are searched
		if len(line) > 0 && f.re.Match(bytes.TrimRight(line, "\r\n")) && whole {
			shown := bytes.TrimRight(line, "\r\n")
			if len(shown) > maxLine {
				shown = append(shown[:maxLine:maxLine], "…"...)
			}
			text := fmt.Sprintf("%s:%d: %s\n", name, n, cleanText(shown))
			if f.room -= len(text); f.room < 0 {
				return errEnough
			}
			f.out.WriteString(text)
		}
		switch err {
		case nil:
			n, whole = n+1, true
		case bufio.ErrBufferFull:
			whole = false
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// globOf returns a function that matches paths with a pattern: * and ? do not match a slash, ** matches any directories. A
// pattern without a slash matches names in any directory. An empty pattern matches all.
func globOf(pattern string) (func(string) bool, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	if len(pattern) > 1000 {
		return nil, cairn.Invalid("pattern", "longer than 1000 bytes")
	}
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(pattern, "/") {
		b.WriteString("(?:.*/)?")
	}
	rest := strings.TrimPrefix(pattern, "./")
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			rest = rest[3:]
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			rest = rest[2:]
		case rest[0] == '*':
			b.WriteString("[^/]*")
			rest = rest[1:]
		case rest[0] == '?':
			b.WriteString("[^/]")
			rest = rest[1:]
		case rest[0] == '{' && strings.IndexByte(rest, '}') > 0:
			end := strings.IndexByte(rest, '}')
			var options []string
			for o := range strings.SplitSeq(rest[1:end], ",") {
				options = append(options, regexp.QuoteMeta(o))
			}
			b.WriteString("(?:" + strings.Join(options, "|") + ")")
			rest = rest[end+1:]
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			rest = rest[1:]
		}
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil {
		return nil, cairn.Invalid("pattern", "%v", err)
	}
	return re.MatchString, nil
}
