package skills

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(home, ".agents/skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: Read\n---\nRead it.")
	write(t, filepath.Join(dir, "docx/SKILL.md"), "---\nname: docx\ndescription: Writes.\n---\nWrite it.")
	for want, cmd := range map[string]*List{
		"NAME  ALLOWED TOOLS  DESCRIPTION\npdf   Read           Reads PDF files.\n":   {},
		"NAME  ALLOWED TOOLS  DESCRIPTION\ndocx  -              Writes.\n":            {folders: folders{[]string{dir}}},
		"[\n  {\n    \"name\": \"docx\",\n    \"description\": \"Writes.\"\n  }\n]\n": {folders: folders{[]string{dir}}, JSON: true},
	} {
		var out bytes.Buffer
		if err := cmd.Run(&cli.App{Env: map[string]string{"HOME": home}, Stdout: &out}); err != nil || out.String() != want {
			t.Errorf("%+v prints %q, %v, want %q", cmd, &out, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good, bad, empty := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(good, "pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads.\n---\nRead it.")
	write(t, filepath.Join(bad, "docx/SKILL.md"), "---\nname: word\ndescription: Use it: now\n---\nWrite it.")
	for name, test := range map[string]struct {
		folder, out, err string
		misuse           bool
	}{
		"good":    {good, "1 skill, no mistakes\n", "", false},
		"bad":     {bad, bad + "/docx/SKILL.md: front matter: a value with a colon must be in quotes\n" + bad + `/docx/SKILL.md: name: "word" differs from the folder "docx"` + "\n", "2 mistakes in 1 skill", false},
		"empty":   {empty, "", "no skills in " + empty, false},
		"missing": {filepath.Join(empty, "missing"), "", "no such file or directory", true},
		"a file":  {filepath.Join(good, "pdf/SKILL.md"), "", "is not a folder", true},
	} {
		var out bytes.Buffer
		err := (&Validate{Folders: []string{test.folder}}).Run(&cli.App{Stdout: &out})
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || out.String() != test.out {
			t.Errorf("%s: %q, %v, want %q, %q", name, &out, err, test.out, test.err)
		}
		if misuse := (&cli.App{Stderr: &out}).Fail(err) == 2; err != nil && misuse != test.misuse {
			t.Errorf("%s: exit code of a misuse: %t, %v", name, misuse, errors.Unwrap(err))
		}
	}
}
