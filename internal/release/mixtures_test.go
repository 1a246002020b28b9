package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// followRelease commits what the next patch version of a clone needs: a section of the changelog, and fixtures, which
// are those of the version since the source is the same.
func followRelease(t *testing.T, dir, version, next string) {
	t.Helper()
	writeChangelog(t, dir, next, "\n### Fixed\n\n- Nothing.\n")
	dirs, err := repository{dir: dir}.fixtures(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, fixture := range dirs {
		from := filepath.Join(dir, fixture)
		if err := os.CopyFS(filepath.Join(filepath.Dir(from), next), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, dir, nil, "git", "add", "store")
	shell(t, dir, nil, "git", "commit", "--quiet", "-m", "Write the fixtures of "+next)
}

// wantMixtures checks that programs of modules of two adjacent versions build, and that they and programs of either
// version use one store, one after the other and at once.
func wantMixtures(t *testing.T, dir string, env []string, modules []module, version, next string) {
	root, sqlite := modules[0].Module.Path, modules[0].Module.Path+"/store/sqlitestore"
	text, err := os.ReadFile(filepath.Join(dir, "examples/first/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	program := strings.ReplaceAll(string(text), `"session-1"`, `os.Getenv("SESSION")`)
	var programs []string
	for name, of := range map[string]struct{ get, want []string }{
		"old":                {[]string{root + "@" + version, sqlite + "@" + version}, []string{root + " " + version, sqlite + " " + version}},
		"the root is newer":  {[]string{root + "@" + next, sqlite + "@" + version}, []string{root + " " + next, sqlite + " " + version}},
		"the store is newer": {[]string{root + "@" + version, sqlite + "@" + next}, []string{root + " " + next, sqlite + " " + next}}, // it requires that root
	} {
		outside := t.TempDir()
		write(t, filepath.Join(outside, "main.go"), program)
		shell(t, outside, env, "go", "mod", "init", "example.com/outside")
		for _, module := range of.get {
			shell(t, outside, env, "go", "get", module)
		}
		shell(t, outside, env, "go", "mod", "tidy")
		list := strings.Split(shell(t, outside, env, "go", "list", "-m", "all"), "\n")
		for _, want := range of.want {
			if !slices.Contains(list, want) {
				t.Errorf("%s: %s is not among %q", name, want, list)
			}
		}
		bin := filepath.Join(outside, "program")
		shell(t, outside, env, "go", "build", "-o", bin, ".")
		programs = append(programs, bin)
	}
	place := t.TempDir()
	command := func(i int, session string, args ...string) *exec.Cmd {
		cmd := exec.Command(programs[i%len(programs)], args...)
		cmd.Dir, cmd.Env = place, append(os.Environ(), "SESSION="+session)
		return cmd
	}
	resumed := func(session string, i int) { // which another program has suspended
		if out, err := command(i, session, "approve").CombinedOutput(); err != nil || !strings.Contains(string(out), "I have refunded order 42.") {
			t.Errorf("%s, session %s: %v\n%s", programs[i%len(programs)], session, err, out)
		}
	}
	var atOnce []*exec.Cmd
	for i := range programs {
		if out, err := command(i, fmt.Sprint("s", i)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", programs[i], err, out)
		}
		resumed(fmt.Sprint("s", i), i+1)
		atOnce = append(atOnce, command(i, fmt.Sprint("t", i)))
	}
	for _, cmd := range atOnce {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range atOnce {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	}
	for i := range programs {
		resumed(fmt.Sprint("t", i), i+2)
	}
}

// wantMixturesBuilt checks, in a directory, that a release is refused if a module of an earlier version would not build
// with its root.
func wantMixturesBuilt(t *testing.T, dir, place, remote string, modules []module, version string) {
	few := modules[:1]
	for _, m := range modules {
		if m.dir == "store/sqlitestore" { // the others would take a while
			few = append(few, m)
		}
	}
	clone := filepath.Join(place, "clone")
	shell(t, dir, nil, "git", "clone", "--quiet", "--shared", dir, clone)
	later := repository{dir: clone}
	if list, err := later.earlier(remote, "v0.1.2"); err != nil || len(list) != 2 || !slices.Contains(list, version) {
		t.Errorf("the earlier versions of v0.1.2 are %q, %v", list, err)
	}
	if list, err := later.earlier(remote, "v0.2.0"); err != nil || len(list) != 0 {
		t.Errorf("the earlier versions of v0.2.0 are %q, %v", list, err)
	}
	if err := later.checkMixture(remote, version, few); err != nil {
		t.Error(err)
	}
	const changed = "internal/fastjson/fastjson.go"
	text, err := os.ReadFile(filepath.Join(clone, changed))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(clone, changed), strings.Replace(string(text), "func MessageText(", "func TextOf(", 1))
	err = later.checkMixtures(remote, "v0.1.2", few)
	if want := "the modules of " + version + " do not build with the root of v0.1.2"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an internal function that the old store calls is gone: %v, want %q", err, want)
	}
}
