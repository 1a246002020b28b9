package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// Commands that read work on a file in a directory that they cannot write to. Those that write fail and say why.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dir = filepath.Join(b.dir, "data")
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.dir, "cairn.db")
	b.env["CAIRN_DB"] = file
	b.want(t, "Order 42 arrived broken\n", "demo", "--shop="+filepath.Join(t.TempDir(), "shop.db"))
	call := secretID.FindString(b.want(t, "", "inbox", "list", "--json"))
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(b.dir)
	for dir, mode := range map[string]os.FileMode{filepath.Dir(above): 0o755, above: 0o755, b.dir: 0o555} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(above, "data"), 0o755) })
	testenv.AsReader(t, func() {
		for _, args := range [][]string{
			{"sessions", "list"}, {"sessions", "show", "demo"}, {"sessions", "messages", "demo"}, {"sessions", "events", "demo"},
			{"sessions", "runs", "demo"}, {"sessions", "usage", "demo"}, {"sessions", "queue", "demo"}, {"inbox", "list"}, {"inbox", "show", call}, {"migrate", "status"}, {"work", "status"}, {"memory", "list", "--user", "ada"}, {"memory", "search", "tea", "--session", "demo"}, {"memory", "scopes"},
		} {
			if stdout, stderr, code := b.run("", args...); code != cli.ExitOK || stderr != "" {
				t.Errorf("%q: exit %d\n%s%s", args, code, stdout, stderr)
			}
		}
		for _, args := range [][]string{
			{"sessions", "set", "demo", "--title", "A title"}, {"sessions", "delete", "demo", "--yes"}, {"erase", "demo", "--yes"},
			{"inbox", "approve", call}, {"demo"}, {"migrate", "up"}, {"memory", "add", "tea", "--user", "ada"},
		} {
			if _, stderr, code := b.run("", args...); code != cli.ExitFailure || !strings.Contains(stderr, "DIR/cairn.db") || !strings.Contains(stderr, "read") {
				t.Errorf("%q: exit %d, %s: want that the file is read-only", args, code, stderr)
			}
		}
	})
}
