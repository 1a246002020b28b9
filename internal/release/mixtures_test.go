package main

import (
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
	program := strings.Replace(strings.Replace(string(text), `"log"`, "\"log\"\n\t\"os\"", 1), `"session-1"`, "os.Args[1]", 1)
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
	for _, session := range []string{"a", "b"} { // the second time each finds the turns of the others
		for _, bin := range programs {
			if out := shell(t, place, nil, bin, session); !strings.Contains(out, "I have refunded order 42.") {
				t.Errorf("%s prints %s", bin, out)
			}
		}
	}
	var atOnce []*exec.Cmd
	for i, bin := range programs {
		cmd := exec.Command(bin, []string{"c", "a", "b"}[i])
		cmd.Dir = place
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		atOnce = append(atOnce, cmd)
	}
	for _, cmd := range atOnce {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	}
}

// wantMixturesBuilt checks that a release is refused if a module of an earlier version would not build with its root.
func wantMixturesBuilt(t *testing.T, dir, remote string, modules []module, version string) {
	few := modules[:1]
	for _, m := range modules {
		if m.dir == "store/sqlitestore" { // the others would take a while
			few = append(few, m)
		}
	}
	clone := filepath.Join(t.TempDir(), "clone")
	shell(t, dir, nil, "git", "clone", "--quiet", dir, clone)
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
	const changed = "internal/compose/compose.go"
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
