package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/work"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// hold creates a session that an owner drives for a time.
func hold(t *testing.T, st store.Store, id, agent, owner string, ttl time.Duration) {
	t.Helper()
	_, err := st.Commit(t.Context(), id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agent}, Status: cairn.SessionActive,
		StartRun: &cairn.Run{ID: "run-of-" + id, Agent: agent, Kind: cairn.RunExecute, Status: cairn.RunRunning},
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: owner, TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
}

// columns matches the space between columns of a table, which depends on the length of the machine's name.
var columns = regexp.MustCompile(`  +`)

// There are a worker, a server, and sessions of an agent that neither of them has.
func TestWorkStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	bot := &cairn.Agent{Name: "support", Model: scripted.New()}
	eng, err := engine.New(st, []*cairn.Agent{bot}, &engine.Options{NewID: b.newID, LeaseTTL: time.Hour, Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Work(ctx) }()
	owner := ""
	for owner == "" {
		for w, err := range eng.Workers(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			owner = w.Owner
		}
	}
	machine, _ := os.Hostname()
	shown := func(args ...string) (string, string) {
		t.Helper()
		stdout, stderr, code := b.run("", append([]string{"work", "status"}, args...)...)
		if code != cli.ExitOK {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		stdout = strings.ReplaceAll(stdout, fmt.Sprintf("%s:%d:", machine, os.Getpid()), "HOST:PID:")
		return columns.ReplaceAllString(stdout, "  "), stderr
	}
	const alone = `WORKER  AGENTS  HOST  VERSION  SINCE  HEARTBEAT  LEASES
HOST:PID:engine_1  support  -  v1.2.3  1m ago  1m ago  0
`
	if stdout, stderr := shown(); stdout != alone || stderr != "" {
		t.Errorf("one worker:\n%s%swant\n%s", stdout, stderr, alone)
	}

	hold(t, st, "held", "support", owner, time.Hour)
	hold(t, st, "served", "support", "web:7:engine_9", 2*time.Hour)
	hold(t, st, "left-1", "billing", "web:8:engine_8", time.Second)
	hold(t, st, "left-2", "sales", "web:8:engine_8", 2*time.Second)
	if _, err := st.Commit(t.Context(), "left-3", &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: "sales"},
		Status: cairn.SessionIdle, Outbox: true, Events: []cairn.Event{{Type: cairn.EventBranched, SessionID: "left-3", Name: "left-2"}}}); err != nil {
		t.Fatal(err)
	}
	const all = `WORKER  AGENTS  HOST  VERSION  SINCE  HEARTBEAT  LEASES
HOST:PID:engine_1  support  -  v1.2.3  2m ago  2m ago  1

LEASE OF  REGISTERED  SESSION  AGENT  RUN  UNTIL
HOST:PID:engine_1  yes  held  support  run-of-held  2026-11-20 13:01:00
web:7:engine_9  no  served  support  run-of-served  2026-11-20 14:01:00

NOT SERVED  SESSION  BECAUSE  SINCE
sales  left-3  outbox  2026-11-20 12:01:00
billing  left-1  crashed  2026-11-20 12:01:01
sales  left-2  crashed  2026-11-20 12:01:02
`
	if stdout, stderr := shown(); stdout != all || stderr != "" {
		t.Errorf("all there is:\n%s%swant\n%s", stdout, stderr, all)
	}
	stdout, stderr := shown("--limit", "1")
	if strings.Count(stdout, "run-of-") != 1 || strings.Count(stdout, "left-") != 1 || stderr != "There are more (leases, unserved): --limit 0 lists all.\n" {
		t.Errorf("one of each:\n%s%s", stdout, stderr)
	}

	var got work.WorkStatus
	stdout, _ = shown("--json", "--limit", "0")
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Workers) != 1 || got.Workers[0].Leases != 1 || !slices.Equal(got.Workers[0].Agents, []string{"support"}) ||
		len(got.Leases) != 2 || !got.Leases[0].Registered || got.Leases[1].Registered || len(got.Unserved) != 3 || got.Unserved[0].Kind != string(store.DueOutbox) || got.Unserved[1].Kind != string(store.DueCrashed) {
		t.Errorf("%v: %s", err, stdout)
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if stdout, _ := shown(); strings.Contains(stdout, "v1.2.3") || !strings.Contains(stdout, "HOST:PID:engine_1  no ") {
		t.Errorf("after the worker's end:\n%s", stdout)
	}
	if _, stderr, code := b.run("", "work", "status", "--limit", "-1"); code != cli.ExitUsage || !strings.Contains(stderr, "--limit") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A worker process is listed until it ends or, if it is killed, until its registration lapses.
func TestWorkStatusOfProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.everyday = true
	workers := func() int {
		t.Helper()
		stdout, _, code := b.run("", "work", "status", "--json")
		var got work.WorkStatus
		if err := json.Unmarshal([]byte(stdout), &got); code != cli.ExitOK || err != nil {
			t.Fatalf("exit %d: %v: %s", code, err, stdout)
		}
		return len(got.Workers)
	}
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); workers() != n; {
			if time.Now().After(deadline) {
				t.Fatalf("%d workers, want %d", workers(), n)
			}
		}
	}
	first, second := b.start(t, "work"), b.start(t, "work")
	readUntil(t, first.stderr, "Ctrl-C ends")
	readUntil(t, second.stderr, "Ctrl-C ends")
	await(2)
	first.signal(syscall.SIGTERM)
	first.end()
	if n := workers(); n != 1 {
		t.Errorf("one has ended, %d are listed", n)
	}
	second.signal(syscall.SIGKILL)
	second.end()
	await(0)
}
