package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// The page shows in a browser what it should.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "chatweb")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	page, err := filepath.Abs("web")
	if err != nil {
		t.Fatal(err)
	}
	out := testenv.Node(t, "testdata/browse.mjs", page, program, dir, testenv.Chromium(t))
	var found map[string][]string
	if err := json.Unmarshal(out, &found); err != nil || len(found) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, wrong := range found {
		t.Run(name, func(t *testing.T) {
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// The page is tested with the versions that it names.
func TestVersions(t *testing.T) {
	named := func(file string) (list struct{ Dependencies, DevDependencies map[string]string }) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	page, tested := named("web/package.json"), named("../../internal/testenv/clients/package.json")
	for _, list := range []map[string]string{page.Dependencies, page.DevDependencies} {
		for name, version := range list {
			if tested.Dependencies[name] != version {
				t.Errorf("%s %s is tested as %s", name, version, tested.Dependencies[name])
			}
		}
	}
}
