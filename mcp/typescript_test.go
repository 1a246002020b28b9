package mcp_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A server with the official TypeScript SDK is killed in the middle of a conversation, and asks in the middle of a
// call.
func TestTypeScriptServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lost atomic.Bool
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) {
		if strings.Contains(string(p), "connection to an MCP server lost") {
			lost.Store(true)
		}
	}), nil))
	s, err := mcp.Command("shop", testenv.NodeCommand(t, "testdata/server.mjs", dir), &mcp.Options{ListTimeout: testWait, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k := newTalk(t, []cairn.Toolset{s}, asks("shop_echo", text{"hello"}), asks("shop_pid", none{}), scripted.Text("So far."), asks("shop_greet", none{}))
	k.turn("go")
	var pid string
	if err := json.Unmarshal([]byte(k.last()), &pid); err != nil {
		t.Fatalf("the calls came to %+v", k.results())
	}
	if got := string(k.results()[0].Output); got != `"you said hello"` {
		t.Errorf("the call came to %s", got)
	}
	kill(t, pid)
	testclock.Await(t, "the connection to be lost", lost.Load)

	res := k.turn("and now?")
	if res.Suspended == nil || res.Suspended.Calls[0].Prompt != "Who is it?" {
		t.Fatalf("the call came to %+v", k.results())
	}
	if err := s.Close(); err != nil { // as if days had passed
		t.Fatal(err)
	}
	again, err := mcp.Command("shop", testenv.NodeCommand(t, "testdata/server.mjs", dir), &mcp.Options{ListTimeout: testWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	other := newTalkIn(t, k.st, []cairn.Toolset{again})
	other.answer(res.Suspended.Calls[0], map[string]string{"name": "Ada"})
	if other.last() != `"hello Ada, at the door"` {
		t.Errorf("the call came to %s", other.last())
	}
	if asked, greeted := notes(dir, "asked"), notes(dir, "greeted"); len(asked) != 1 || len(greeted) != 1 {
		t.Errorf("the server was asked %d times and greeted %d times", len(asked), len(greeted))
	}
}

// kill ends a process that the test has started.
func kill(t *testing.T, pid string) {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(pid), &n); err != nil || n < 2 {
		t.Fatalf("%q is not a process: %v", pid, err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A client with the official TypeScript SDK starts a program that serves an agent over its standard input and
// output.
func TestTypeScriptClientOverPipes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"auto", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := testenv.Node(t, "testdata/client.mjs", self, dir, "refund it", mode)
			var got struct {
				Tools   []string
				IsError bool
				Text    string
			}
			if err := json.Unmarshal(out, &got); err != nil || got.IsError || strings.Join(got.Tools, " ") != "clerk" || got.Text != `it came to "refunded"` {
				t.Errorf("the client got %s, %v", out, err)
			}
			if n := len(notes(dir, "refunds")); n != 1 {
				t.Errorf("%d refunds were made", n)
			}
		})
	}
}

// A client with the official TypeScript SDK drives an agent. In the current revision it is asked; in the previous
// one it is directed to the inbox.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"auto": `it came to "refunded"`, "legacy": "in the inbox"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eng, _ := clerk(t)
			out := testenv.Node(t, "testdata/client.mjs", office(t, eng), "ada", "refund it", mode)
			var got struct {
				Tools   []string
				IsError bool
				Text    string
			}
			if err := json.Unmarshal(out, &got); err != nil || strings.Join(got.Tools, " ") != "clerk" || !strings.Contains(got.Text, want) {
				t.Errorf("the client got %s, %v", out, err)
			}
		})
	}
}
