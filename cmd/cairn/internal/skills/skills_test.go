package skills

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// The exit codes are for scripts: 0 without differences, 1 with some, 2 for a file that is missing.
func TestSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write(t, filepath.Join(dir, "pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads.\nhooks: x\n---\nRead it.")
	git("init", "--quiet")
	git("add", "--all")
	git("commit", "--quiet", "-m", "Add")
	file := filepath.Join(t.TempDir(), "skills.yaml")
	write(t, file, "into: skills\nsources:\n- git: file://"+dir+"\n")
	run := func(cmd Sync) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		a := &cli.App{Stdout: &out, Stderr: &errs}
		cmd.File, cmd.Timeout = file, time.Minute
		code = a.Fail(cmd.Run(a))
		return out.String(), errs.String(), code
	}
	for i, step := range []struct {
		cmd            Sync
		stdout, stderr string
		code           int
	}{
		{Sync{Check: true}, strings.TrimSuffix(file, "yaml") + "lock: is missing\n", "cairn: 1 difference; run cairn skills sync\n", 1},
		{Sync{}, "1 skill written: pdf\n", "skill pdf: hooks: unknown field\n", 0},
		{Sync{Check: true}, "no differences\n", "", 0},
		{Sync{}, "1 skill unchanged: pdf\n", "", 0},
		{Sync{Update: true}, "1 skill written: pdf\n", "skill pdf: hooks: unknown field\n", 0},
	} {
		if out, errs, code := run(step.cmd); out != step.stdout || errs != step.stderr || code != step.code {
			t.Errorf("step %d: %q, %q, exit code %d, want %+v", i, out, errs, code, step)
		}
	}
	write(t, filepath.Join(filepath.Dir(file), "skills/pdf/SKILL.md"), "changed")
	if out, _, code := run(Sync{Check: true}); code != 1 || !strings.Contains(out, "SKILL.md: differs") {
		t.Errorf("a change: %q, exit code %d", out, code)
	}
	file = filepath.Join(dir, "none.yaml")
	if _, errs, code := run(Sync{}); code != 2 || !strings.Contains(errs, "none.yaml") {
		t.Errorf("a file that is missing: %q, exit code %d", errs, code)
	}
}
