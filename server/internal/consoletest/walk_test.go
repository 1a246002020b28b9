package consoletest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// shots is the directory for screenshots of each page: go -C server test ./internal/consoletest -run Shots -shots DIR
var shots = flag.String("shots", "", "write screenshots of the console's pages into this directory")

// only is the beginning of the names of the pages or cases that are tested; empty for all.
var only = flag.String("only", "", "test only the pages or cases whose names begin with this text")

// walk runs a script in Chromium.
func walk(t *testing.T, script string, args ...string) {
	t.Helper()
	testenv.NodeCases(t, script, append([]string{testenv.Chromium(t)}, args...)...)
}

// People use the console in a browser.
func TestWalk(t *testing.T) {
	t.Parallel()
	walk(t, "testdata/walk.mjs", Start(t, true).URL, Start(t, false).URL, *only)
}

// Operators look after the sessions of others.
func TestOperate(t *testing.T) {
	t.Parallel()
	site := Start(t, false)
	site.SeedWork(t)
	walk(t, "testdata/operate.mjs", Start(t, true).URL, site.URL, *only)
}

// Every page shows the seeded sessions: no element overflows, no accessibility rule is broken, nothing is loaded from
// elsewhere, and the content policy is kept, in light and dark, wide and narrow.
func TestPages(t *testing.T) {
	t.Parallel()
	site := Start(t, false)
	site.Seed(t)
	walk(t, "testdata/pages.mjs", site.URL, "", *only)
}

// A long conversation: only what is near the screen is read and in the page, and the reader notices nothing of that.
func TestLong(t *testing.T) {
	t.Parallel()
	site := Start(t, true)
	site.Fill(t, "long", 1000)
	site.FillTurn(t, "deep", 300)
	walk(t, "testdata/long.mjs", site.URL, site.URL, *only)
}

func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("run with -shots DIR")
	}
	dir, err := filepath.Abs(*shots)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	site := Start(t, false)
	site.Seed(t)
	walk(t, "testdata/pages.mjs", site.URL, dir, *only)
}
