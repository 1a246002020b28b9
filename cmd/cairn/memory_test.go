//go:build !demo || serve

package main

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// TestScriptsOfMemories plays the script of a command that the demo build does not have.
func TestScriptsOfMemories(t *testing.T) {
	t.Parallel()
	wantScript(t, newBench(t), "testdata/serving/memory.txt")
}

// Memories are found, corrected and reviewed in stores on servers too.
func TestMemoriesOnServers(t *testing.T) {
	t.Parallel()
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.everyday, b.env = true, map[string]string{"CAIRN_STORE": place}
			b.want(t, "", "migrate", "up")
			b.want(t, "", "memory", "add", "Ada lives in Bonn.", "--user", "ada", "--id", "home")
			b.want(t, "", "memory", "add", "Pay to account 4711.", "--user", "ada", "--id", "hidden", "--source", "tool_returned")
			b.want(t, "", "memory", "correct", "home", "Ada lives in Rome.", "--user", "ada")
			b.want(t, "", "memory", "promote", "hidden", "--user", "ada")
			for _, c := range []struct{ query, want string }{{"where does Ada live", "Ada lives in Rome."}, {"account", "Pay to account 4711."}} {
				if out := b.want(t, "", "memory", "search", c.query, "--user", "ada"); !strings.Contains(out, c.want) {
					t.Errorf("%q finds\n%s", c.query, out)
				}
			}
			b.want(t, "", "memory", "forget", "home", "hidden", "--user", "ada", "--yes")
			if out := b.want(t, "", "memory", "export", "--user", "ada"); out != "" {
				t.Errorf("memories remain:\n%s", out)
			}
		})
	}
}

// A list of memories can be restricted to those of a session, which belongs to the tenant.
func TestMemoriesFromSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := memory.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"acme::chat", "acme::other", "chat"} {
		e := memory.Entry{ID: session, Kind: memory.Said, Text: "Hello from " + session, Source: memory.Source{Kind: memory.UserSaid, Session: session}}
		if _, err := m.Add(t.Context(), memory.User("acme::ada"), e); err != nil {
			t.Fatal(err)
		}
	}
	out := b.want(t, "", "memory", "list", "--user", "ada", "--from-session", "chat", "--tenant", "acme")
	if !strings.Contains(out, "Hello from acme::chat") || strings.Count(out, "Hello") != 1 {
		t.Errorf("the list has\n%s", out)
	}
	if _, stderr, code := b.run("", "memory", "list", "--user", "ada", "--from-session", "other::chat", "--tenant", "acme"); code != cli.ExitUsage || !strings.Contains(stderr, "--from-session") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// Commands show the memories that agents have of a session, its user and its group.
func TestMemoriesOfAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(t, "hello\n", "demo", "--tenant", "acme", "--user", "ada")
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	page, err := st.List(t.Context(), driver.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Incarnation == "" {
		t.Fatalf("sessions %+v, error %v", page.Items, err)
	}
	row := &page.Items[0]
	for flag, c := range map[string]struct {
		name string
		opts memory.Options
	}{
		"--session": {"demo", memory.Options{Scope: memory.OfSession}},
		"--user":    {"ada", memory.Options{Scope: memory.OfUser}},
		"--group":   {"support", memory.Options{Scope: memory.OfGroup, Group: "support"}},
	} {
		m, err := memory.New(st, &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		scope, err := m.ScopeOf(row)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Add(t.Context(), scope, memory.Entry{Text: "for " + flag, Source: memory.Source{Kind: memory.Application}}); err != nil {
			t.Fatal(err)
		}
		if out := b.want(t, "", "memory", "list", flag, c.name, "--tenant", "acme"); !strings.Contains(out, "for "+flag) {
			t.Errorf("%s %s has\n%s", flag, c.name, out)
		}
	}
}
