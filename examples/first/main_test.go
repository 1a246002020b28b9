package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

// Each verb is a process of its own. A verb in the wrong order gets a message, not a panic.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check(process.Fails(t, dir, 2, "deny"), "usage: ")
	check(process.Run(t, dir), printed(t, "$ go run .\n"))
	check(process.Fails(t, dir, 1), `waits for 1 open call: refund`)
	check(process.Run(t, dir, "approve"), printed(t, "$ go run . approve\n"))
	check(process.Fails(t, dir, 1, "approve"), "cannot be resumed: its last run completed")
}

// printed returns what a command prints according to the README.
func printed(t *testing.T, command string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "    "+command)
	var lines strings.Builder
	for line := range strings.Lines(after) {
		line, indented := strings.CutPrefix(line, "    ")
		if !indented || strings.HasPrefix(line, "$ ") {
			break
		}
		lines.WriteString(line)
	}
	if !ok || lines.Len() == 0 {
		t.Fatalf("README.md does not have what %q prints", command)
	}
	return lines.String()
}
