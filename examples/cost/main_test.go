package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

func TestCostOfEachUser(t *testing.T) {
	t.Parallel()
	got := process.Run(t, t.TempDir())
	for _, want := range []string{
		"ann scripted:scripted: 2 calls, 2200 tokens in, 150 out, $0.00265\n",
		"bob scripted:scripted: 4 calls, 4400 tokens in, 300 out, $0.0053\n",
		"invoke_agent support\n", "execute_tool find_order\n", "chat scripted\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if n := strings.Count(got, "chat "); n != 2 {
		t.Errorf("%d spans of model calls, want 2:\n%s", n, got)
	}
}
