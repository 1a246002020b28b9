package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sweep := func(want string, flags ...string) {
		t.Helper()
		stdout, stderr, code := b.run("", append([]string{"sweep"}, flags...)...)
		lines := strings.Split(stdout, "\n")
		if code != cli.ExitOK || stderr != "" || len(lines) != 3 || strings.Join(strings.Fields(lines[1]), " ") != want {
			t.Fatalf("sweep: exit %d, %s\n%swant %s", code, stderr, stdout, want)
		}
	}
	b.run("hello\n", "demo")
	b.run("hello\n", "demo", "--session", "other")
	if stdout, _, code := b.run("", "sessions", "delete", "other", "--yes"); code != cli.ExitOK {
		t.Fatal(stdout)
	}
	sweep("0 0 0 0 0 0")
	b.advance(7 * 24 * time.Hour)
	sweep("1 1 0 0 0 0")
	if _, _, code := b.run("", "sessions", "show", "demo"); code != cli.ExitNotFound {
		t.Errorf("the session has not expired: exit %d", code)
	}
	sweep("0 0 1 1 0 0", "--retention", "168h") // the other session was deleted longer ago
	b.advance(30 * 24 * time.Hour)
	stdout, _, code := b.run("", "sweep", "--json")
	var swept map[string]int
	want := map[string]int{
		"detected": 0, "expired": 0, "purged": 1, "snapshots_deleted": 1, "trimmed": 0, "events_trimmed": 0,
		"blobs_deleted": 0, "bytes_deleted": 0, "usage_trimmed": 1, "failed": 0, // the newest row of usage stays
	}
	if err := json.Unmarshal([]byte(stdout), &swept); err != nil || !maps.Equal(swept, want) || code != cli.ExitOK {
		t.Errorf("exit %d, %s", code, stdout)
	}
	b.run("hello\n", "demo")
	b.run("", "sessions", "delete", "demo", "--yes")
	sweep("0 0 1 1 0 0", "--retention", "0s")
	for _, bad := range [][]string{{"--retention", "-1s"}, {"--retention", "long"}, {"more"}, {"--events", "-1"}, {"--event-age", "59m"}} {
		if _, stderr, code := b.run("", append([]string{"sweep"}, bad...)...); code != cli.ExitUsage || stderr == "" {
			t.Errorf("sweep %q: exit %d, %s", bad, code, stderr)
		}
	}
	if _, _, code := b.run("", "sweep", "--db", filepath.Join(b.dir, "none.db")); code != cli.ExitNotFound {
		t.Errorf("sweep of no database: exit %d", code)
	}
}

// sweep trims the events of all sessions, sessions trim those of one. events prints what is left.
func TestTrim(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	events := func(session string, flags ...string) (lines []string) {
		t.Helper()
		stdout, stderr, code := b.run("", append([]string{"sessions", "events", session}, flags...)...)
		if code != cli.ExitOK {
			t.Fatalf("events: exit %d, %s", code, stderr)
		}
		return strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	}
	for range 3 {
		b.run("hello\n", "demo")
	}
	b.run("hello\nhello\n", "demo", "--session", "other")
	all := events("demo")
	if stdout, stderr, code := b.run("", "sessions", "trim", "demo", "--events", "1"); code != cli.ExitOK || stdout != "Trimmed 0 events of session demo.\n" {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	b.advance(2 * time.Hour)
	if stdout, _, code := b.run("", "sessions", "trim", "demo", "--events", "1", "--json"); code != cli.ExitOK || !strings.Contains(stdout, `"events_trimmed": `) || strings.Contains(stdout, ": 0") {
		t.Fatalf("exit %d, %s", code, stdout)
	}
	left := events("demo")
	if n := len(all) - len(left); n <= 0 || left[0] != all[n] || !slices.Equal(left, all[n:]) {
		t.Errorf("of\n%s\nthere is left\n%s", strings.Join(all, "\n"), strings.Join(left, "\n"))
	}
	if _, stderr, code := b.run("", "sessions", "events", "demo", "--after", "1"); code != cli.ExitFailure || !strings.Contains(stderr, "trimmed; the first one left is") {
		t.Errorf("events after one that was trimmed: exit %d, %s", code, stderr)
	}
	if stdout, stderr, code := b.run("", "sweep", "--event-age", "1h"); code != cli.ExitOK || strings.HasSuffix(strings.TrimSpace(stdout), " 0               0") {
		t.Errorf("sweep: exit %d, %s%s", code, stdout, stderr)
	}
	if _, stderr, code := b.run("", "sessions", "events", "other", "--after", "1"); code != cli.ExitFailure || !strings.Contains(stderr, "trimmed") {
		t.Errorf("events of a log that was swept: exit %d, %s", code, stderr)
	}
	for _, bad := range [][]string{{"demo"}, {"demo", "--events", "-1"}, {"demo", "--event-age", "59m"}, {"--events", "1"}} {
		if _, stderr, code := b.run("", append([]string{"sessions", "trim"}, bad...)...); code != cli.ExitUsage || stderr == "" {
			t.Errorf("trim %q: exit %d, %s", bad, code, stderr)
		}
	}
	if _, _, code := b.run("", "sessions", "trim", "none", "--events", "1"); code != cli.ExitNotFound {
		t.Errorf("trim of no session: exit %d", code)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("hello\n", "demo")
	if _, stderr, code := b.run("", "erase", "demo"); code != cli.ExitUsage || !strings.Contains(stderr, "--yes") {
		t.Errorf("erase without a terminal: exit %d, %s", code, stderr)
	}
	if stdout, stderr, code := b.run("", "erase", "demo", "--yes"); code != cli.ExitOK || stdout != "Erased session demo.\n" {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if _, _, code := b.run("", "erase", "demo", "--yes"); code != cli.ExitNotFound {
		t.Errorf("erase of no session: exit %d", code)
	}
	if stdout, _, _ := b.run("", "sweep", "--retention", "0s", "--json"); !strings.Contains(stdout, `"purged": 0`) {
		t.Errorf("something was left: %s", stdout)
	}
	b.run("hello\n", "demo")
	if stdout, _, code := b.run("", "erase", "demo", "--yes", "--json"); code != cli.ExitOK || !strings.Contains(stdout, `"id": "demo"`) {
		t.Errorf("exit %d, %s", code, stdout)
	}
}
