package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"deny"}, {"ask", "twice"}} {
		if got := process.Fails(t, dir, 2, args...); !strings.Contains(got, "usage: ") {
			t.Errorf("%v: %q", args, got)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("wrong usage leaves %v, %v", list, err)
	}
	for _, c := range []struct{ verb, want string }{
		{"ask", "suspended"},
		{"approve", `pay {"order":42,"cents":9900}: accepted`},
		{"resume", "paid 4950 cents for order 42"},
	} {
		if got := process.Run(t, dir, c.verb); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.verb, got, c.want)
		}
	}
}
