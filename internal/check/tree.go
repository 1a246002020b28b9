package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is a checkout: its files and the modules they form. Paths are relative to root and use slashes.
type tree struct {
	root    string
	files   []string // sorted
	modules []module // each after those that it requires
	outside bool     // include the modules outside the workspace
}

// openTree reads the checkout at root: every file that git tracks or would track.
func openTree(root string) (*tree, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return newTree(root, strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"))
}

// newTree returns the tree of the listed files. It omits listed files that do not exist, such as deleted ones that
// are not committed yet.
func newTree(root string, files []string) (*tree, error) {
	t := &tree{root: root}
	for _, name := range files {
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			t.files = append(t.files, name)
		}
	}
	slices.Sort(t.files)
	t.files = slices.Compact(t.files)
	var err error
	t.modules, err = findModules(t)
	return t, err
}

func (t *tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

func (t *tree) read(name string) (string, error) {
	data, err := os.ReadFile(t.path(name))
	return string(data), err
}

// exists reports whether name is a file of the tree or a directory that holds one.
func (t *tree) exists(name string) bool {
	if name == "." {
		return true
	}
	i, found := slices.BinarySearch(t.files, name)
	if found {
		return true
	}
	// Names such as "a-b" sort between "a" and "a/b", so the next file alone does not decide.
	return slices.ContainsFunc(t.files[i:], func(f string) bool { return strings.HasPrefix(f, name+"/") })
}

// withSuffix returns the files with a suffix, without test data.
func (t *tree) withSuffix(suffix string) []string {
	var out []string
	for _, f := range t.files {
		if strings.HasSuffix(f, suffix) && !strings.Contains("/"+f, "/testdata/") {
			out = append(out, f)
		}
	}
	return out
}

// goFile is one parsed source file.
type goFile struct {
	name string
	src  string
	set  *token.FileSet
	ast  *ast.File
}

func (t *tree) parse(name string, mode parser.Mode) (*goFile, error) {
	src, err := t.read(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, mode)
	if err != nil {
		return nil, err
	}
	return &goFile{name: name, src: src, set: set, ast: file}, nil
}

func (f *goFile) line(pos token.Pos) int { return f.set.Position(pos).Line }

// text returns the source between two positions.
func (f *goFile) text(from, to token.Pos) string {
	return f.src[f.set.Position(from).Offset:f.set.Position(to).Offset]
}

// packages returns the parsed Go files of the tree by directory.
func (t *tree) packages(mode parser.Mode) (map[string][]*goFile, error) {
	out := map[string][]*goFile{}
	for _, name := range t.withSuffix(".go") {
		f, err := t.parse(name, mode)
		if err != nil {
			return nil, err
		}
		out[path.Dir(name)] = append(out[path.Dir(name)], f)
	}
	return out, nil
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
