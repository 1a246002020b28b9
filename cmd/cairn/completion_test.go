package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// The script for bash completes commands, the commands below them and flags.
func TestCompletion(t *testing.T) {
	t.Parallel()
	script, _, code := newBench(t).run("", "completion", "bash")
	if code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	for line, want := range map[string]string{
		"cairn inb": "inbox", "cairn --vers": "--version", "cairn sessions li": "list", "cairn sessions --json chec": "checkpoints\ncheckpoint",
		"cairn inbox approve call_1 --n": "--notes", "cairn store copy --dry": "--dry-run", "cairn nonsense": "",
	} {
		words := strings.Fields(line)
		program := fmt.Sprintf("%s\nCOMP_WORDS=(%s) COMP_CWORD=%d\n_cairn\nprintf '%%s\\n' \"${COMPREPLY[@]}\"", script, line, len(words)-1)
		out, err := exec.Command("bash", "-c", program).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		if script, _, code := newBench(t).run("", "completion", shell); code != cli.ExitOK || !strings.Contains(script, "checkpoints") {
			t.Errorf("%s: exit %d: %s", shell, code, script)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	flag, _, code := b.run("", "--version")
	command, _, _ := b.run("", "version")
	if code != cli.ExitOK || flag != command || !strings.HasPrefix(flag, "cairn ") {
		t.Errorf("exit %d: %q, %q", code, flag, command)
	}
}
