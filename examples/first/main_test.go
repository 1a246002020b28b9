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
	check(process.Run(t, dir), "I am sorry. I will refund it.\nsuspended_client_tool after 1 steps\n")
	check(process.Fails(t, dir, 1), `waits for 1 open call: refund`)
	check(process.Run(t, dir, "approve"), "I have refunded order 42.\ncompleted after 2 steps\n")
	check(process.Fails(t, dir, 1, "approve"), "cannot be resumed: its last run completed")
}
