//go:build !demo

package main

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// TestMCP gives the demo the tools of an MCP server. Each call asks for approval, unless --yes does.
func TestMCP(t *testing.T) {
	t.Parallel()
	given := strings.Join(testenv.NodeCommand(t, "../../mcp/testdata/server.mjs", t.TempDir()), " ")
	for name, test := range map[string]struct {
		stdin string
		more  []string
	}{"asked": {"Say it\ny\n", nil}, "--yes": {"Say it\n", []string{"--yes"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := openaichattest.CallTool("node_echo", map[string]string{"text": "hello"})
			server := openaichattest.NewServer(call, openaichattest.Text("That was it."))
			defer server.Close()
			b := newBench(t)
			b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"] = server.BaseURL, "test-model"
			stdout, stderr, code := b.run(test.stdin, append([]string{"demo", "--mcp", given}, test.more...)...)
			if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, `you said hello`) || !strings.Contains(stdout, "node_echo") ||
				!strings.Contains(stdout, "waits for approval") {
				t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
			}
		})
	}
	if _, stderr, code := newBench(t).run("", "demo", "--mcp", " "); code == cli.ExitOK || !strings.Contains(stderr, "--mcp") {
		t.Errorf("a server of no name: exit %d: %s", code, stderr)
	}
}
