package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// commitFixtures commits the fixtures of a version to a clone, and returns their directories. The tests of this work tree
// write them, which has the same source: they are built already.
func commitFixtures(t *testing.T, dir, version string) []string {
	t.Helper()
	dirs, err := repository{dir: dir}.writeFixtures(version, here(t))
	if err != nil {
		t.Fatal(err)
	}
	shell(t, dir, nil, "git", "add", "store")
	shell(t, dir, nil, "git", "commit", "--quiet", "-m", "Write the fixtures of "+version)
	return dirs
}

// pretendFixtures commits fixtures of a version to a clone that only say which source wrote them.
func pretendFixtures(t *testing.T, dir, version string) {
	t.Helper()
	r := repository{dir: dir}
	source, err := r.source()
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := r.fixtures(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, fixture := range dirs {
		write(t, filepath.Join(dir, fixture, "manifest.json"), `{"source":"`+source+`"}`)
	}
	shell(t, dir, nil, "git", "add", "store")
	shell(t, dir, nil, "git", "commit", "--quiet", "-m", "Write the fixtures of "+version)
}

// readFixtures reads the fixtures of a clone, with this build or one in which files have another text.
func readFixtures(t *testing.T, dir string, instead map[string]string, packages ...string) (string, error) {
	t.Helper()
	root := here(t)
	replaced := map[string]string{}
	for file, text := range instead {
		other := filepath.Join(t.TempDir(), filepath.Base(file))
		write(t, other, text)
		replaced[filepath.Join(root, file)] = other
	}
	raw, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	write(t, overlay, string(raw))
	args := append([]string{"test", "-v", "-vet=off", "-ldflags=-w", "-count=1", "-overlay=" + overlay, "-run=^" + fixtureTest + "$/^v"}, packages...)
	return try(root, []string{"GOWORK="}, "go", append(args, "-args", "-released.root="+dir)...)
}

// wantFixtures checks that a clone's fixtures of a version are read by this build, and by one that adds a migration, but
// not by one that changes the first. It reads those of one store: the others were read when they were written.
func wantFixtures(t *testing.T, dir, version string) {
	t.Helper()
	out, err := readFixtures(t, dir, nil, "./store/sqlitestore")
	if err != nil || strings.Count(out, "--- PASS: "+fixtureTest+"/"+version) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	const first = "store/sqlitestore/migrations/0001_schema.sql"
	text, err := os.ReadFile(filepath.Join(here(t), first))
	if err != nil {
		t.Fatal(err)
	}
	out, err = readFixtures(t, dir, map[string]string{first: string(text) + "CREATE TABLE later (n);\n"}, "./store/sqlitestore")
	if want := "migration 1 (schema) is not the one that " + version + " has released"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the first migration is changed: %v, want %q\n%s", err, want, out)
	}
	second := map[string]string{"store/sqlitestore/migrations/0002_later.sql": "CREATE TABLE later (n);\n"}
	if out, err := readFixtures(t, dir, second, "./store/sqlitestore"); err != nil {
		t.Errorf("a migration is added: %v\n%s", err, out)
	}
}

// Fixtures are those of the source that is committed, of a version that is not released yet.
func TestFixturesAreRefused(t *testing.T) {
	t.Parallel()
	dir := checkout(t, "v0.1.0")
	refused := func(version, want string) {
		t.Helper()
		if err := release(dir, options{version: version, fixtures: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if changes := shell(t, dir, nil, "git", "ls-files", "--others"); changes != "" && !strings.Contains(want, "source") {
			t.Errorf("it has written %s", changes)
		}
	}
	refused("0.1.0", "-version")
	shell(t, dir, nil, "git", "tag", "v0.1.0")
	refused("v0.1.0", "v0.1.0 is released")
	shell(t, dir, nil, "git", "tag", "--delete", "v0.1.0")
	for file, why := range map[string]string{"new.go": "a new file", "store/sqlitestore/migrations/0002_new.sql": "a migration"} {
		write(t, filepath.Join(dir, file), "-- "+why)
		refused("v0.1.0", "commit the source first")
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
}
