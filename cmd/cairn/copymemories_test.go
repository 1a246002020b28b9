package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// Memories are copied scope by scope. A scope that differs is left alone and does not keep others from being copied.
func TestMemoriesAreCopied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from, to := filepath.Join(b.dir, "from.db"), filepath.Join(b.dir, "to.db")
	open := func(file string) *memory.Memory {
		st, err := sqlitestore.Open(file, &sqlitestore.Options{Now: b.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		m, err := memory.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	add := func(m *memory.Memory, scope memory.Scope, text string) {
		t.Helper()
		e := memory.Entry{ID: "fact", Text: text, Source: memory.Source{Kind: memory.Application}}
		if _, err := m.Add(t.Context(), scope, e); err != nil {
			t.Fatal(err)
		}
	}
	check := func(wantCode int, want string, args ...string) {
		t.Helper()
		stdout, stderr, code := b.run("", append([]string{"store", "copy", from, to}, args...)...)
		if !strings.Contains(stdout+stderr, want) || code != wantCode {
			t.Fatalf("exit %d, want %d; printed\n%s%swant\n%s", code, wantCode, stdout, stderr, want)
		}
	}
	source := open(from)
	add(source, memory.User("ada"), "Ada lives in Bonn")
	add(source, memory.User("bob"), "Bob lives in Rome")
	add(source, memory.Group("support"), "Refunds take two days")
	check(cli.ExitOK, "memories of groups  1        1       0       to be copied\nmemories of users   2        2       0       to be copied\n", "--dry-run")
	target := open(to)
	add(target, memory.User("ada"), "Ada lives elsewhere")
	check(cli.ExitFailure, "memories of users   2        1       1       failed: already_exists: memories of user \"ada\" already exist and differ\n")
	check(cli.ExitFailure, "memories of groups  1        0       0       exists\n")
	for scope, want := range map[memory.Scope]string{memory.User("bob"): "Bob lives in Rome", memory.User("ada"): "Ada lives elsewhere"} {
		hits, err := target.Search(t.Context(), scope, memory.Query{Text: "lives"})
		if err != nil || len(hits) != 1 || hits[0].Text != want {
			t.Errorf("the copy of %v has %+v, error %v", scope, hits, err)
		}
	}
}
