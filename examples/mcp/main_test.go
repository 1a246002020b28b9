package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/examples/internal/process"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func TestMain(m *testing.M) {
	process.Main(func() {
		switch strings.Join(os.Args[1:min(2, len(os.Args))], "") {
		case "drive":
			drive(os.Args[2])
		case "agents":
			serveAgents()
		}
		main()
	}, func() { os.Exit(m.Run()) })
}

// drive executes or resumes a turn, and waits to be killed.
func drive(verb string) {
	ctx := context.Background()
	server := must(mcp.Command("shop", []string{os.Args[0], "server"}, &mcp.Options{Approve: []string{"ship"}, Env: os.Environ(), ListTimeout: time.Minute}))
	eng := must(engine.New(must(sqlitestore.Open("mcp.db", nil)), []*cairn.Agent{clerk(server)}, &engine.Options{LeaseTTL: 3 * time.Second}))
	if verb == "ask" {
		report(eng.Execute(ctx, "session-1", "clerk", cairn.Text("Please ship order 42.")))
	}
	if verb == "resume" {
		var run *engine.Run
		var err error
		_ = testclock.Poll(ctx, func() bool { // another process holds it until its lease has lapsed
			run, err = eng.Resume(ctx, "session-1")
			return !errors.Is(err, cairn.ErrAlreadyRunning)
		})
		report(run, err)
	}
	select {}
}

func TestEachVerbIsAProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"ship"}} {
		if got := process.Fails(t, dir, 2, args...); !strings.Contains(got, "usage: ") {
			t.Errorf("%v: %q", args, got)
		}
	}
	for _, c := range []struct{ verb, want string }{
		{"ask", "suspended"},
		{"answer", `approval "": accepted`},
		{"answer", `The shop says: "order 42 is packed and on its way to Elm Street 5"`},
	} {
		if got := process.Run(t, dir, c.verb); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.verb, got, c.want)
		}
	}
	if got := effects(t, dir); len(got["packed"]) != 1 || len(got["shipped"]) != 1 {
		t.Errorf("the shop did %v", got)
	}
}

// Processes are killed while the call waits for approval, while it waits for the address, and between the request
// and its result. Only the last request is sent again, with the same key.
func TestKilledInBetween(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kill := func(verb, line string) {
		p := process.Start(t, dir, "drive", verb)
		p.Await(t, line)
		p.Kill(t)
	}
	submit := func() {
		t.Helper()
		st, err := sqlitestore.Open(filepath.Join(dir, "mcp.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		eng, err := engine.New(st, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(t.Context())
		page, err := eng.Inbox(t.Context(), store.CallQuery{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("the inbox has %v, %v", page.Items, err)
		}
		answer(t.Context(), eng)
	}
	kill("ask", "suspended")
	if got := effects(t, dir); len(got) != 0 {
		t.Fatalf("before the approval the shop did %v", got)
	}
	submit()
	kill("resume", "suspended")
	submit()
	if err := os.WriteFile(filepath.Join(dir, "slow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, dir, "drive", "resume")
	testclock.Await(t, "the order to be shipped", func() bool { return len(effects(t, dir)["shipped"]) > 0 })
	p.Kill(t)
	if err := os.Remove(filepath.Join(dir, "slow")); err != nil {
		t.Fatal(err)
	}
	kill("resume", `on its way to Elm Street 5`)
	got := effects(t, dir)
	if len(got["packed"]) != 1 || len(got["shipped"]) != 2 || got["shipped"][0] != got["shipped"][1] || got["shipped"][0] == got["packed"][0] {
		t.Errorf("the shop did %v", got)
	}
}

// effects returns the shop's effects, each with the keys of its requests.
func effects(t *testing.T, dir string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "shop.log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	done := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		var what, key string
		if _, err := fmt.Sscan(line, &what, &key); err == nil {
			done[what] = append(done[what], key)
		}
	}
	return done
}
