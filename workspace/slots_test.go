package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/workspace"
)

// A sweep forgets the state of files before it removes them: what it leaves when it is killed does not count as that state.
func TestSweepForgetsTheStateFirst(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	newHouse(t, newStore(), p, nil).do("s", write("a", "1"))
	tree := filepath.Join(filepath.Dir(filepath.Dir(found(dir, "a"))), "tree")
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(tree, "stays"), 0o700); err != nil { // it cannot be forgotten
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), -time.Hour); err == nil || found(dir, "a") == "" {
		t.Errorf("the sweep has removed files whose state is kept (%v)", err)
	}
}

// Commands may make directories read-only, as package managers do, or close them. They can be measured, written and removed
// all the same, also if this process is not root.
func TestModesOfDirectories(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("a", 32)
	d, err := p.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	slot := filepath.Join(dir, id, "0")
	for _, name := range []string{"kept/below/a", "removed/below/a"} {
		if err := d.Write(name, false, strings.NewReader("1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(slot, "home", "cache", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"files/kept/below": 0o555, "files/kept": 0o555, "files/removed/below": 0o555, "files": 0o555, "home/cache": 0o555,
		"home": 0} {
		if err := os.Chmod(filepath.Join(slot, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := d.(interface {
		Usage(context.Context) (int64, error)
	}).Usage(t.Context()); err != nil || size != 2+8*1024 {
		t.Errorf("the size is %d (%v)", size, err)
	}
	for what, err := range map[string]error{"walk": d.Walk(t.Context(), func(workspace.Entry) error { return nil }),
		"write": d.Write("kept/below/b", false, strings.NewReader("2")), "remove": d.Remove("removed"), "reset": d.Reset(), "close": d.Close()} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := p.Sweep(t.Context(), -time.Hour); err != nil {
		t.Error(err)
	}
}
