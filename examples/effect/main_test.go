package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

func TestRefundHappensOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := process.Fails(t, dir, 2, "again"); !strings.Contains(got, "usage: ") {
		t.Errorf("wrong usage: %q", got)
	}
	process.Fails(t, dir, 1, "crash")
	got := process.Run(t, dir, "recover")
	for _, want := range []string{"completed", "as the bank confirms", `refund {"order":42,"cents":9900} confirmed`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if book, err := os.ReadFile(filepath.Join(dir, "bank.txt")); err != nil || strings.Count(string(book), "\n") != 1 {
		t.Errorf("the bank has %q, %v", book, err)
	}
}
