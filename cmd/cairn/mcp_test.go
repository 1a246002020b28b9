//go:build !demo

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// TestMCP gives the demo the tools of an MCP server. Each call needs approval, unless --yes gives it.
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

// A turn without the tools of a server says so.
func TestMCPMissing(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(openaichattest.Text("That was it."))
	defer server.Close()
	b := newBench(t)
	b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"] = server.BaseURL, "test-model"
	stdout, stderr, code := b.run("Say it\n", "demo", "--mcp", filepath.Join(t.TempDir(), "nothing"))
	if code != cli.ExitOK || !strings.Contains(stdout+stderr, "without the tools of nothing") || !strings.Contains(stdout, "That was it.") {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
}

// TestMCPKilledWhilePending kills each process that drives a call of an MCP server's tool as soon as the call is
// pending: the demo for an approval, then a worker for a question of the server during the call. Both are answered
// from elsewhere, and a third process ends the turn. The server has asked once and greeted once. A soak tests every
// store and host.
func TestMCPKilledWhilePending(t *testing.T) {
	t.Parallel()
	stores := map[string]string{"sqlite": ""}
	if testenv.Soak() {
		maps.Copy(stores, places(t))
	}
	for store, place := range stores {
		for host, at := range map[string]func(b *bench) string{
			"none": func(*bench) string { return "" },
			"temporal": func(*bench) string {
				return fmt.Sprintf("temporal://%s?queue=mcp%d", testenv.Temporal(t), queueNumber.Add(1))
			},
			"dbos": func(b *bench) string {
				return fmt.Sprintf("dbos:sqlite:%s?queue=mcp%d", filepath.Join(b.dir, "dbos.db"), queueNumber.Add(1))
			},
		} {
			if host != "none" && !testenv.Soak() { // each pair starts six processes
				continue
			}
			t.Run(store+","+host, func(t *testing.T) {
				b := newBench(t)
				b.everyday = true
				if place != "" {
					b.env["CAIRN_STORE"] = withQuery(place, map[string]string{"postgres": "schema", "redis": "prefix"}[store], "mcp_"+host)
				}
				b.env["CAIRN_HOST"], b.env["PATH"] = at(b), os.Getenv("PATH")
				wantAnsweredElsewhere(t, b)
			})
		}
	}
}

func wantAnsweredElsewhere(t *testing.T, b *bench) {
	model := openaichattest.NewFunc(func(req *openaichattest.Request) openaichattest.Reply {
		if req.Last().Role == "tool" {
			return openaichattest.Text("That was it.")
		}
		return openaichattest.CallTool("node_greet", struct{}{})
	})
	defer model.Close()
	b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"] = model.BaseURL, "test-model"
	given := strings.Join(testenv.NodeCommand(t, "../../mcp/testdata/server.mjs", b.dir), " ")
	shop := "--shop=" + filepath.Join(b.dir, "shop.db")

	demo := b.start(t, "demo", shop, "--mcp", given)
	demo.say("Greet me")
	demo.until("waits for approval")
	demo.until("  waiting · ")
	demo.signal(syscall.SIGKILL)
	demo.end()
	b.settle(t, cli.ExitOK, "approve", "call_")

	worker := b.start(t, "work", shop, "--mcp", given)
	readUntil(t, worker.stderr, `"run suspended" session=demo`)
	worker.signal(syscall.SIGKILL)
	worker.end()
	var open struct{ Items []cairn.PendingCall }
	if err := json.Unmarshal([]byte(b.settle(t, cli.ExitOK, "list", "--json")), &open); err != nil || len(open.Items) != 1 || open.Items[0].Prompt != "Who is it?" {
		t.Fatalf("the inbox has %+v, %v", open.Items, err)
	}
	b.settle(t, cli.ExitOK, "answer", open.Items[0].ID, "--result", `{"name": "Ada"}`)
	b.work(t, "demo", shop, "--mcp", given)

	for file, want := range map[string]string{"asked": "once\n", "greeted": "Ada\n"} {
		if got, err := os.ReadFile(filepath.Join(b.dir, file)); string(got) != want {
			t.Errorf("the server has %s %q, want %q: %v", file, got, want, err)
		}
	}
	wantWords(t, b.runNow(t, cli.ExitOK, "sessions", "messages", "demo"), "hello Ada, at the door", "That was it.")
}
