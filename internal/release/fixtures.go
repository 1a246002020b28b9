package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// fixtureTest is the test of a store that writes and reads its fixtures, see package internal/released. The store's
// package has it in fixtureFile.
const (
	fixtureTest = "TestReleased"
	fixtureFile = "released_test.go"
)

// ofSource matches the files that decide what a build writes to a store.
var ofSource = regexp.MustCompile(`(\.go|\.sql|\.lua|(^|/)go\.(mod|sum))$`)

// isSource reports whether a file decides what a build writes to a store.
func isSource(file string) bool {
	return ofSource.MatchString(file) && !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/")
}

// source identifies what a build of HEAD is made of by 16 hexadecimal digits, whatever the history of the commit.
func (r repository) source() (string, error) {
	files, err := r.git("ls-tree", "-r", "--full-tree", "HEAD")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for line := range strings.Lines(files + "\n") {
		if _, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); isSource(file) {
			fmt.Fprint(sum, line)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// fixtures returns the directories of a version's fixtures, relative to the repository's root: one for each store.
func (r repository) fixtures(version string) ([]string, error) {
	files, err := r.git("ls-files", "store/*/"+fixtureFile)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, file := range strings.Fields(files) {
		dirs = append(dirs, path.Join(path.Dir(file), "testdata/released", version))
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no store has a %s", fixtureFile)
	}
	return dirs, nil
}

// checkFixtures reports whether HEAD has the version's fixtures, as its own source writes them.
func (r repository) checkFixtures(version string) error {
	source, err := r.source()
	if err != nil {
		return err
	}
	dirs, err := r.fixtures(version)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		instead := fmt.Sprintf("make release VERSION=%s ARGS=-fixtures writes it; commit that", version)
		text, err := os.ReadFile(filepath.Join(r.dir, dir, "manifest.json"))
		if os.IsNotExist(err) {
			return fmt.Errorf("%s is missing, the store that later versions are tested with: %s", dir, instead)
		}
		var from struct{ Source string }
		if err == nil {
			err = json.Unmarshal(text, &from)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if from.Source != source {
			return fmt.Errorf("%s was written by other source (%s) than this commit has (%s): %s", dir, from.Source, source, instead)
		}
	}
	return nil
}

// writeFixtures writes the fixtures of a version into the repository, by the tests of the code in a directory, which has
// the same source.
func (r repository) writeFixtures(version, code string) (dirs []string, err error) {
	if !validVersion(version) {
		return nil, wrongVersion(version)
	}
	switch tag, err := r.git("tag", "--list", version); {
	case err != nil:
		return nil, err
	case tag != "":
		return nil, fmt.Errorf("-fixtures: %s is released, so its fixtures must stay as they are", version)
	}
	changes, err := r.git("status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(changes) {
		if file := strings.Fields(line); isSource(file[len(file)-1]) {
			return nil, fmt.Errorf("-fixtures: commit the source first:\n%s", changes)
		}
	}
	source, err := r.source()
	if err != nil {
		return nil, err
	}
	if dirs, err = r.fixtures(version); err != nil {
		return nil, err
	}
	args := []string{"test", "-count=1", "-vet=off", "-ldflags=-w", "-run=^" + fixtureTest + "$"}
	for _, dir := range dirs {
		args = append(args, "./"+strings.TrimSuffix(dir, path.Join("/testdata/released", version)))
	}
	args = append(args, "-args", "-released.root="+r.dir, "-released.write="+version, "-released.source="+source)
	_, err = repository{dir: code}.output([]string{"GOWORK="}, ".", "go", args...)
	return dirs, err
}
