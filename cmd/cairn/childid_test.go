package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// TestChildIDs gives commands the session of a sub-agent: they leave its root alone.
func TestChildIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.dir + "/cairn.db"
	seed(t, file, map[string]*driver.Commit{
		"s":     {Create: &cairn.Session{Agent: "bot"}, Messages: []cairn.Message{cairn.User(cairn.TextPart("for the root"))}, Status: cairn.SessionIdle},
		"child": {Create: &cairn.Session{Agent: "helper", ParentID: "s", RootID: "s", Kind: cairn.ChildSubAgent}},
	})
	for _, args := range [][]string{{"sessions", "delete", "child"}, {"sessions", "delete", "child", "--yes"}, {"erase", "child"}, {"erase", "child", "--yes"},
		{"sessions", "trim", "child", "--events", "1"}} {
		out, errs, code := b.run("", append(args, "--db", file)...)
		if code != cli.ExitUsage || !strings.Contains(errs, `"child" belongs to a sub-agent; its root is "s"`) {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
	if _, errs, code := b.run("", "sessions", "stop", "child", "--db", file); code != cli.ExitFailure || !strings.Contains(errs, `"child" is not running`) {
		t.Errorf("stop: exit %d: %s", code, errs)
	}
	if out, errs, code := b.run("", "sessions", "set", "child", "--title", "Of the child", "--db", file); code != cli.ExitOK {
		t.Errorf("set: exit %d: %s%s", code, out, errs)
	}
	if out, _, code := b.run("", "sessions", "show", "s", "--db", file, "--json"); code != cli.ExitOK || strings.Contains(out, "Of the child") || !strings.Contains(out, `"child"`) {
		t.Errorf("show: exit %d: %s", code, out)
	}
}

// TestDeleteBusy deletes a session whose process is gone before the lease of its run lapses, with its queue.
func TestDeleteBusy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.dir + "/cairn.db"
	seed(t, file, map[string]*driver.Commit{
		"s": {Create: &cairn.Session{Agent: "bot"}, StartRun: &cairn.Run{ID: "run_1", Agent: "bot", Kind: cairn.RunExecute, Status: cairn.RunRunning},
			Messages: []cairn.Message{cairn.User(cairn.TextPart("go"))}, Status: cairn.SessionActive,
			Enqueue: &store.QueuedTurn{ID: "run_2", Messages: []cairn.Message{cairn.User(cairn.TextPart("more"))}},
			Lease:   driver.LeaseChange{Action: driver.LeaseTake, Owner: "gone", TTL: 500 * time.Millisecond}},
	})
	if out, errs, code := b.run("", "sessions", "delete", "s", "--yes", "--db", file); code != cli.ExitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if out, _, code := b.run("", "sessions", "list", "--removed", "--db", file); code != cli.ExitOK || !strings.Contains(out, "deleted") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// seed creates sessions in a database. A root comes before its children.
func seed(t *testing.T, file string, sessions map[string]*driver.Commit) {
	t.Helper()
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range []bool{false, true} {
		for id, c := range sessions {
			if (c.Create.ParentID != "") == child {
				if _, err := st.Commit(t.Context(), id, c); err != nil {
					t.Fatal(id, err)
				}
			}
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}
