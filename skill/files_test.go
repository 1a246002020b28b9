package skill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func manifestOf(name, body string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n" + body
}

func names(t *testing.T, p Provider) (list []string) {
	t.Helper()
	infos, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		list = append(list, info.Name)
	}
	return list
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFS(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	p := FS(fstest.MapFS{
		"pdf/SKILL.md":              file(manifestOf("pdf", "Read it.")),
		"pdf/references/api.md":     file("one\ntwo\n"),
		"pdf/inner/SKILL.md":        file(manifestOf("inner", "Skills do not nest.")),
		"more/docx/SKILL.md":        file(manifestOf("docx", "")),
		"more/copy/SKILL.md":        file(manifestOf("pdf", "Another.")),
		"a/b/c/d/e/f/SKILL.md":      file(manifestOf("f", "Six levels.")),
		"a/b/c/d/e/f2/g/SKILL.md":   file(manifestOf("g", "Seven levels.")),
		"bad/SKILL.md":              file("no front matter"),
		"x/node_modules/y/SKILL.md": file(manifestOf("y", "")),
	})
	if got, want := names(t, p), []string{"f", "pdf", "docx"}; !slices.Equal(got, want) {
		// The copy sorts before pdf, so it is the first of its name.
		t.Errorf("the skills are %q, want %q", got, want)
	}
	_, ignored, err := p.(surveyor).survey(t.Context())
	if err != nil || len(ignored) != 2 || !strings.HasPrefix(ignored[0], "bad: ") || !strings.Contains(ignored[1], `the skill "pdf"`) {
		t.Errorf("ignored are %q, %v", ignored, err)
	}
	s, err := p.Load(t.Context(), "pdf")
	if err != nil || s.Body != "Another." || len(s.Files) != 0 {
		t.Errorf("the first of two skills: %+v, %v", s, err)
	}
	if _, err := p.Load(t.Context(), "inner"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown skill: %v", err)
	}
	root := FS(fstest.MapFS{"SKILL.md": file(manifestOf("whole", "Here.")), "notes/a.md": file("a")})
	if s, err := root.Load(t.Context(), "whole"); err != nil || !slices.Equal(s.Files, []File{{"notes/a.md", 1}}) {
		t.Errorf("a skill at the root: %+v, %v", s, err)
	}
}

// Neither a path nor a link leads out of a skill's file system, and what is not a regular file is not opened.
func TestEscapes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), "secret")
	home := filepath.Join(dir, "home")
	skill := filepath.Join(home, ".agents", "skills", "pdf")
	write(t, filepath.Join(skill, "SKILL.md"), manifestOf("pdf", "Read it."))
	write(t, filepath.Join(skill, "own.md"), "own")
	write(t, filepath.Join(home, "shared", "SKILL.md"), manifestOf("shared", "Linked."))
	for from, to := range map[string]string{
		filepath.Join(skill, "up.md"):                            "../../../../secret",
		filepath.Join(skill, "abs.md"):                           filepath.Join(dir, "secret"),
		filepath.Join(skill, "beside.md"):                        "own.md",
		filepath.Join(home, ".agents", "skills", "shared"):       "../../shared",
		filepath.Join(home, ".agents", "skills", "outside"):      dir,
		filepath.Join(home, ".agents", "skills", "pdf", "cycle"): "..",
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(skill, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	inside := Dirs(home)
	if got := names(t, inside); !slices.Equal(got, []string{"pdf", "shared"}) {
		t.Errorf("the skills are %q", got)
	}
	plain := FS(os.DirFS(filepath.Join(home, ".agents", "skills")))
	if got := names(t, plain); !slices.Equal(got, []string{"pdf"}) {
		t.Errorf("without links the skills are %q", got)
	}
	for path, want := range map[string][2]bool{ // readable below a directory, in a file system
		"own.md": {true, true}, "beside.md": {true, false}, "up.md": {}, "abs.md": {}, "fifo": {}, "cycle/pdf/own.md": {true, false},
		"../../../secret": {}, "/etc/passwd": {}, "": {}, ".": {}, "..": {},
	} {
		for i, p := range []Provider{inside, plain} {
			raw, err := p.ReadFile(t.Context(), "pdf", path)
			if (err == nil) != want[i] || err == nil && string(raw) != "own" {
				t.Errorf("%T reads %q: %q, %v", p, path, raw, err)
			}
		}
	}
}

// A project's skills come before those of the user, and missing folders have none.
func TestDirs(t *testing.T) {
	t.Parallel()
	project, home := t.TempDir(), t.TempDir()
	write(t, filepath.Join(project, ".claude", "skills", "pdf", "SKILL.md"), manifestOf("pdf", "The project's."))
	write(t, filepath.Join(home, ".agents", "skills", "pdf", "SKILL.md"), manifestOf("pdf", "The user's."))
	write(t, filepath.Join(home, ".agents", "skills", "pdf", "only.md"), "the user's")
	write(t, filepath.Join(home, ".agents", "skills", "docx", "SKILL.md"), manifestOf("docx", ""))
	p := Dirs(project, home, filepath.Join(home, "missing"))
	if got := names(t, p); !slices.Equal(got, []string{"pdf", "docx"}) {
		t.Errorf("the skills are %q", got)
	}
	if s, err := p.Load(t.Context(), "pdf"); err != nil || s.Body != "The project's." {
		t.Errorf("the first is %+v, %v", s, err)
	}
	if raw, err := p.ReadFile(t.Context(), "pdf", "only.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of the skill that does not count: %q, %v", raw, err)
	}
	if raw, err := Define(Skill{Info: Info{Name: "x"}}, os.DirFS(home)).ReadFile(t.Context(), "x", ".agents/skills/pdf/only.md"); err != nil || string(raw) != "the user's" {
		t.Errorf("a file of a skill in code: %q, %v", raw, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	problems, n := Check(fstest.MapFS{
		"pdf/SKILL.md":  file(manifestOf("pdf", "Read it.")),
		"docx/SKILL.md": file("---\nname: docx\ndescription: Use it: now\n---\r\nb"),
		"no/SKILL.md":   file("---\nname: no\n---\nb"),
		"two/SKILL.md":  file(manifestOf("pdf", "Read it.")),
	})
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		"docx/SKILL.md: front matter: a value with a colon must be in quotes",
		"docx/SKILL.md: has line ends of Windows",
		"no/SKILL.md: description: is missing",
		`two/SKILL.md: name: "pdf" differs from the folder "two"`,
		`two/SKILL.md: name: "pdf" is the name of pdf/SKILL.md too`,
	}
	if n != 4 || !slices.Equal(got, want) {
		t.Errorf("%d skills with %q, want %q", n, got, want)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text        string
		from, count int
		want        string
	}{
		"all":         {"a\nb\n", 1, 400, "a\nb"},
		"some":        {"a\nb\nc\r\nd", 2, 2, "Lines 2 to 3 of 4 of f:\nb\nc"},
		"the rest":    {"a\nb\nc", 3, 9, "Lines 3 to 3 of 3 of f:\nc"},
		"empty":       {"", 1, 1, ""},
		"after it":    {"a", 2, 1, `line: "f" has 1 lines`},
		"long lines":  {strings.Repeat("x", maxRead) + "\ny", 1, 2, "Lines 1 to 1 of 2 of f:\n" + strings.Repeat("x", maxRead)},
		"a long line": {strings.Repeat("x", maxRead-1) + "éz", 1, 1, strings.Repeat("x", maxRead-1) + "\n(The line is longer.)"},
	} {
		got, err := excerpt("f", test.text, test.from, test.count)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, test.want) || len(got) > len(test.want)+20 {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
