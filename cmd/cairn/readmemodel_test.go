package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

// TestModelInReadme performs the README's commands for a model of a provider against a server of that provider's
// protocol: the key of the command must arrive, and the answer is printed.
func TestModelInReadme(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-reader"
	performed := 0
	for _, s := range samples(t, "README.md") {
		for _, line := range s.shellLines() {
			command := line.commands[0]
			args, ours := ofCairn(command)
			at := slices.Index(args, "--model")
			if !ours || at < 0 {
				continue
			}
			server := anthropictest.NewServer(anthropictest.CallTool("lookup_order", lookupArgs{44}), anthropictest.Text("Order 44 arrives tomorrow."))
			defer server.Close()
			server.RequireKey(key)
			b := newBench(t)
			b.env["ANTHROPIC_BASE_URL"] = server.BaseURL
			for _, word := range command {
				if assignment.MatchString(word) {
					name, _, _ := strings.Cut(word, "=")
					b.env[name] = key
				}
			}
			stdout, stderr, code := b.run("Where is order 44?\n", args...)
			if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "support: Order 44 arrives tomorrow.\n") {
				t.Errorf("%s: %s: exit code %d: %s%s", line.at, line.text, code, stdout, stderr)
			}
			_, name, _ := strings.Cut(args[at+1], ":")
			if asked := server.Requests(); len(asked) != 2 || asked[0].Model != name {
				t.Errorf("%s: the server was asked %+v", line.at, asked)
			}
			performed++
		}
	}
	if performed == 0 {
		t.Error("README.md has no command with a model of a provider")
	}
}
