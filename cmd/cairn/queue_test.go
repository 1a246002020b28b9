package main

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// TestQueue lists queued turns, and removes one from the queue.
func TestQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.dir + "/cairn.db"
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []*driver.Commit{
		{Create: &cairn.Session{Agent: "bot"}, Enqueue: &store.QueuedTurn{ID: "run_1", Messages: []cairn.Message{cairn.User(cairn.TextPart("first"))}}},
		{Enqueue: &store.QueuedTurn{ID: "run_2", Messages: []cairn.Message{cairn.User(cairn.TextPart("now"))}, Steer: true}},
	} {
		if _, err := st.Commit(t.Context(), "s", c); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	out, errs, code := b.run("", "sessions", "queue", "s", "--db", file)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != cli.ExitOK || len(lines) != 3 || !strings.HasPrefix(lines[1], "run_2 ") || !strings.Contains(lines[1], "*") || !strings.HasSuffix(lines[2], "first") {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	if _, errs, code := b.run("", "sessions", "dequeue", "s", "run_1", "--db", file); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if out, errs, code := b.run("", "sessions", "queue", "s", "--db", file, "--json"); code != cli.ExitOK || strings.Contains(out, "run_1") || !strings.Contains(out, `"steer": true`) {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
}
