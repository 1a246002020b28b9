package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// shell runs a command in a directory and returns what it prints.
func shell(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := try(dir, env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkout returns a clone of this repository as it is in the work tree, with a section of the version in its
// changelog.
func checkout(t *testing.T, version string) string {
	t.Helper()
	root, commit := here(t), workTree(t)
	dir := clone(t, root)
	shell(t, dir, nil, "git", "fetch", "--quiet", root, commit)
	shell(t, dir, nil, "git", "checkout", "--quiet", "--detach", commit)
	writeChangelog(t, dir, version, "")
	return dir
}

// cloneOf returns a clone of a clone, in which commits can be made.
func cloneOf(t *testing.T, dir string) string {
	t.Helper()
	clone := clone(t, dir)
	shell(t, clone, nil, "git", "checkout", "--quiet")
	return clone
}

// clone returns a clone that has nothing checked out yet, and then only the files that a release or these tests touch.
func clone(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	shell(t, from, nil, "git", "clone", "--quiet", "--shared", "--no-tags", "--no-checkout",
		"-c", "user.name=a", "-c", "user.email=a@example.com", from, dir)
	shell(t, dir, nil, "git", "sparse-checkout", "set", "--no-cone", "go.mod", "go.sum", "/*.md", "/.ci",
		"/examples/first", "/store/*/migrations", "/store/*/testdata/released")
	return dir
}

// remoteOf returns an empty repository that has the objects of a clone, so that pushes to it are small.
func remoteOf(t *testing.T, dir string) string {
	t.Helper()
	remote := filepath.Join(t.TempDir(), "cairn.git")
	shell(t, dir, nil, "git", "init", "--quiet", "--bare", remote)
	objects := shell(t, dir, nil, "git", "rev-parse", "--path-format=absolute", "--git-path", "objects")
	write(t, filepath.Join(remote, "objects/info/alternates"), objects+"\n")
	return remote
}

// reserve returns a version that no other test uses at the same time, as all share the caches of the go command. It is
// the same in each run of this work tree, as is the directory, so that packages that have not changed are compiled
// already.
func reserve(t *testing.T) (version, place string) {
	t.Helper()
	sum := fnv.New64a()
	fmt.Fprint(sum, here(t))
	version = fmt.Sprintf("v0.1.0-test.%d", sum.Sum64())
	place = filepath.Join(os.TempDir(), "cairn-release-"+version)
	file, err := os.OpenFile(place+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	remove := func() {
		if err := os.RemoveAll(place); err != nil {
			t.Error(err)
		}
	}
	remove() // what a killed test has left
	t.Cleanup(func() {
		remove()
		_ = file.Close()
	})
	return version, place
}

// quickly is the environment in which the go command compiles the modules in half the time, without optimization and
// without what debuggers need. What they require is compiled as everywhere else, so that it is in the cache.
func quickly(modules []module) string {
	return "GOFLAGS=-modcacherw -ldflags=-w '-gcflags=" + modules[0].Module.Path + "/...=-N -l -dwarf=false'"
}

// writeChangelog commits a section of a version, with an entry before those that are unreleased.
func writeChangelog(t *testing.T, dir, version, entry string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, changelog))
	if err != nil {
		t.Fatal(err)
	}
	section := "## [Unreleased]\n\n## [" + version[1:] + "] - 2026-12-01\n" + entry
	write(t, filepath.Join(dir, changelog), strings.Replace(string(text), "## [Unreleased]\n", section, 1))
	shell(t, dir, nil, "git", "commit", "--quiet", "--all", "-m", "Write the changelog of "+version)
}

// here returns the root of this repository.
func here(t *testing.T) string {
	t.Helper()
	return shell(t, ".", nil, "git", "rev-parse", "--show-toplevel")
}

// stashing is held while git refreshes the index of this repository.
var stashing sync.Mutex

// workTree returns a commit of the work tree of this repository as it is.
func workTree(t *testing.T) string {
	t.Helper()
	stashing.Lock()
	defer stashing.Unlock()
	commit := shell(t, here(t), []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com"}, "git", "stash", "create")
	if commit == "" {
		commit = shell(t, here(t), nil, "git", "rev-parse", "HEAD")
	}
	return commit
}

// What is tagged can be got: each module alone, the command, and the first program of the README.
func TestRelease(t *testing.T) {
	version, place := reserve(t)
	dir := checkout(t, version)
	fixtures := commitFixtures(t, dir, version)
	write(t, filepath.Join(dir, ".ci/run"), "#!/bin/sh\n")
	shell(t, dir, nil, "git", "commit", "--quiet", "--all", "-m", "Check nothing")
	remote := remoteOf(t, dir)
	o := options{version: version, remote: remote}
	if err := release(dir, o); err != nil {
		t.Fatal(err)
	}
	o.unchecked = true
	next := strings.Replace(version, "v0.1.0", "v0.1.1", 1)
	again, following := cloneOf(t, dir), cloneOf(t, dir)

	r := repository{dir: dir}
	modules, err := r.modules()
	if err != nil {
		t.Fatal(err)
	}
	env := append(gitFrom(remote, sourceOf(modules)), "GOWORK=off", "GOPRIVATE="+modules[0].Module.Path, "GOSUMDB=off",
		"GODEBUG=goindex=0", // the index of a version outlasts its removal, and the next run has another source
		quickly(modules))
	removeFromCache(t, modules, sourceOf(modules), version, next)
	t.Run("again", func(t *testing.T) { // nothing is left to do
		t.Parallel()
		if err := release(again, o); err != nil {
			t.Error(err)
		}
	})
	t.Run("next", func(t *testing.T) {
		t.Parallel()
		followRelease(t, following, version, next)
		if err := release(following, options{version: next, remote: remote, unchecked: true}); err != nil {
			t.Fatal(err)
		}
		t.Run("mixtures", func(t *testing.T) {
			t.Parallel()
			wantMixtures(t, following, env, modules, version, next)
		})
		t.Run("internal packages", func(t *testing.T) {
			t.Parallel()
			wantMixturesBuilt(t, following, place, remote, modules, version)
		})
	})
	for _, m := range modules {
		t.Run(m.dir, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			shell(t, outside, env, "go", "mod", "init", "example.com/outside")
			shell(t, outside, env, "go", "get", m.Module.Path+"@"+version)
			list := shell(t, outside, env, "go", "list", "-m", "all")
			for line := range strings.Lines(list) {
				if strings.HasPrefix(line, modules[0].Module.Path) && !strings.HasSuffix(strings.TrimSpace(line), " "+version) {
					t.Errorf("it brings %s", line)
				}
			}
		})
	}
	t.Run("fixtures", func(t *testing.T) {
		t.Parallel()
		have := shell(t, remote, nil, "git", "ls-tree", "-r", "--name-only", version)
		for _, fixture := range fixtures {
			if !strings.Contains(have, fixture+"/expected.jsonl\n") {
				t.Errorf("the tag has no %s", fixture)
			}
		}
		wantFixtures(t, dir, version)
	})
	t.Run("program", func(t *testing.T) {
		t.Parallel()
		outside := t.TempDir()
		text, err := os.ReadFile(filepath.Join(dir, "examples/first/main.go"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(outside, "main.go"), string(text))
		shell(t, outside, env, "go", "mod", "init", "example.com/outside")
		// The root comes after one of its siblings, which required it.
		for _, m := range []string{"/store/sqlitestore", ""} {
			shell(t, outside, env, "go", "get", modules[0].Module.Path+m+"@"+version)
		}
		shell(t, outside, env, "go", "mod", "tidy")
		shell(t, outside, env, "go", "vet", "./...")
		shell(t, outside, env, "go", "run", ".")
		if out := shell(t, outside, env, "go", "run", ".", "approve"); !strings.Contains(out, "I have refunded order 42.") {
			t.Errorf("it prints %s", out)
		}
	})
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		bin := t.TempDir()
		shell(t, bin, append(env, "GOBIN="+bin), "go", "install", modules[0].Module.Path+"/cmd/cairn@"+version)
		if out := shell(t, bin, nil, filepath.Join(bin, "cairn"), "--version"); !strings.Contains(out, version) {
			t.Errorf("its version is %s", out)
		}
	})
	t.Run("clone", func(t *testing.T) {
		t.Parallel()
		clone := filepath.Join(t.TempDir(), "clone")
		shell(t, dir, nil, "git", "clone", "--quiet", "--branch", version, remote, clone)
		for _, m := range modules {
			shell(t, filepath.Join(clone, m.dir), env, "go", "mod", "tidy", "-diff") // fails if there is one
		}
	})
}

// removeFromCache removes the versions, now and once the test has ended, from the cache of modules that all programs share.
func removeFromCache(t *testing.T, modules []module, source string, versions ...string) {
	cache := shell(t, ".", nil, "go", "env", "GOMODCACHE")
	clones := func() map[string]bool {
		found := map[string]bool{}
		infos, _ := filepath.Glob(filepath.Join(cache, "cache/vcs/*.info"))
		for _, info := range infos {
			if text, err := os.ReadFile(info); err == nil && strings.Contains(string(text), source) {
				found[strings.TrimSuffix(info, ".info")] = true
			}
		}
		return found
	}
	remove := func() {
		for _, m := range modules {
			for _, version := range versions {
				_ = os.RemoveAll(filepath.Join(cache, m.Module.Path+"@"+version))
				files, _ := filepath.Glob(filepath.Join(cache, "cache/download", m.Module.Path, "@v", version+".*"))
				for _, file := range files {
					_ = os.Remove(file)
				}
			}
		}
		for clone := range clones() {
			_ = os.RemoveAll(clone)
			_ = os.Remove(clone + ".info")
			_ = os.Remove(clone + ".lock")
		}
	}
	remove() // what a killed test has left
	t.Cleanup(remove)
}

// A release that would not be what it says is refused, and pushes nothing.
func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	const version = "v0.1.0"
	dir := checkout(t, version)
	pretendFixtures(t, dir, version)
	remote := remoteOf(t, dir)
	refused := func(o options, want string) {
		t.Helper()
		o.remote, o.unchecked = remote, true
		if err := release(dir, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
		if tags := shell(t, remote, nil, "git", "tag"); tags != "" && !strings.Contains(want, "another commit") {
			t.Errorf("%+v: tags were pushed: %s", o, tags)
		}
	}
	for _, wrong := range []string{"", "0.1.0", "v1", "v0.1.0+build", "v01.0.0", "v0.1.0-"} {
		refused(options{version: wrong}, "-version")
	}
	refused(options{version: "v0.2.0"}, changelog+": the newest version is \"0.1.0\"")
	if err := release(dir, options{version: version, remote: "nowhere", unchecked: true}); err == nil {
		t.Error("a remote that does not exist is accepted")
	}
	if err := release(dir, options{version: version, remote: remote, unchecked: true, dry: true}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "README.md"), "changed")
	refused(options{version: version}, "README.md")
	shell(t, dir, nil, "git", "checkout", "--quiet", "README.md")

	const changed = "store/sqlitestore/migrations/0001_schema.sql"
	migration, err := os.ReadFile(filepath.Join(dir, changed))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, changed), string(migration)+"CREATE TABLE later (n);\n")
	shell(t, dir, nil, "git", "commit", "--quiet", "--all", "-m", "Change a table after the fixtures were written")
	refused(options{version: version}, "store/pgstore/testdata/released/v0.1.0 was written by other source")
	shell(t, dir, nil, "git", "reset", "--quiet", "--hard", "HEAD~")
	shell(t, dir, nil, "git", "rm", "--quiet", "-r", "store/redisstore/testdata/released/v0.1.0")
	shell(t, dir, nil, "git", "commit", "--quiet", "--all", "-m", "Lose a fixture")
	refused(options{version: version}, "store/redisstore/testdata/released/v0.1.0 is missing")
	shell(t, dir, nil, "git", "reset", "--quiet", "--hard", "HEAD~")

	write(t, filepath.Join(dir, ".ci/run"), "#!/bin/sh\nexit 1\n")
	shell(t, dir, nil, "git", "commit", "--quiet", "--all", "-m", "Fail")
	if err := release(dir, options{version: version, remote: remote}); err == nil || !strings.Contains(err.Error(), "the checks") {
		t.Errorf("a commit whose checks fail is released: %v", err)
	}

	shell(t, remote, nil, "git", "fetch", "--quiet", dir, "HEAD:refs/tags/store/pgstore/"+version)
	refused(options{version: version}, "another commit")
	if tags := shell(t, remote, nil, "git", "tag"); tags != "store/pgstore/"+version {
		t.Errorf("the remote has %s", tags)
	}
}

func TestChangelog(t *testing.T) {
	t.Parallel()
	const head = "# Changelog\n\n## [Unreleased]\n"
	for text, want := range map[string]string{
		head + "\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- All.\n":                          "",
		head + "\n- More.\n\n## [0.1.0] - 2026-12-01\n\n- All.\n":                            "1 entries are in the section Unreleased",
		head + "\n## [0.1.0]\n\n- All.\n":                                                    "no date",
		head + "\n## [0.1.0] - 2026-12-01\n":                                                 "no entry",
		head + "\n- More.\n":                                                                 `the newest version is ""`,
		head + "\n## [0.2.0] - 2026-12-02\n\n- More.\n\n## [0.1.0] - 2026-12-01\n\n- All.\n": `the newest version is "0.2.0"`,
	} {
		err := checkChangelog(text, "v0.1.0")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSumsAreSorted(t *testing.T) {
	t.Parallel()
	got := addSums("example.com/a v1 h1:a\nexample.com/c v1 h1:c\n", []string{"example.com/d v1 h1:d", "example.com/b v1 h1:b", "example.com/b v1/go.mod h1:m"})
	want := "example.com/a v1 h1:a\nexample.com/b v1 h1:b\nexample.com/b v1/go.mod h1:m\nexample.com/c v1 h1:c\nexample.com/d v1 h1:d\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if got := addSums("", []string{"a v1 h1:a"}); got != "a v1 h1:a\n" {
		t.Errorf("of an empty file: %q", got)
	}
}
