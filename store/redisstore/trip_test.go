package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Each method that a turn uses takes one round trip, even in a process that has not seen the session before.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	p := newProxy(t, testenv.Redis(t))
	s := openAt(t, p.url, &Options{Prefix: newPrefix()})
	ctx := t.Context()
	begin := &driver.Commit{Guard: driver.Guard{Idle: true}, Create: &cairn.Session{Agent: "support"},
		StartRun: &cairn.Run{ID: "run", Agent: "support", Status: cairn.RunRunning},
		Messages: []cairn.Message{cairn.User(cairn.TextPart("hello"))}, Status: cairn.SessionActive,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}}
	row, err := s.Commit(ctx, "warm up", begin) // the server gets the script
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range []*script{scriptStep, scriptStage, scriptRenew, scriptStop, scriptRead, scriptAppend, scriptEvents, scriptList, scriptDue, scriptCalls} {
		if err := sc.script.Load(ctx, s.client).Err(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	var events []cairn.Event
	step := func() error {
		n++
		row, err = s.Commit(ctx, "session", &driver.Commit{Events: events, Guard: driver.Guard{Token: row.Lease.Token, Version: row.Version},
			Messages: []cairn.Message{cairn.User(cairn.TextPart("reply")), cairn.User(cairn.TextPart("result"))}, Step: n,
			State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: fmt.Append(nil, n)}}},
			Checkpoint: &cairn.Checkpoint{ID: fmt.Sprint("cp-", n), RunID: "run", StepID: fmt.Sprint("step-", n), Step: n},
			Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour}, DropStaged: true})
		return err
	}
	log := s.EventLog()
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"begin", func() error { row, err = s.Commit(ctx, "session", begin); return err }},
		{"step", step},
		{"another step", step},
		{"step with events", func() error {
			events = []cairn.Event{{Type: cairn.EventCustom}}
			return step()
		}},
		{"begin with events", func() error {
			own := *begin
			own.Events = events
			_, err := s.Commit(ctx, "another session", &own)
			return err
		}},
		{"stage", func() error {
			return s.Stage(ctx, "session", row.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte(`1`)})
		}},
		{"renew", func() error { _, err := s.Renew(ctx, "session", row.Lease.Token, time.Hour); return err }},
		{"stop", func() error {
			return s.RequestStop(ctx, "session", cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt})
		}},
		{"load", func() error { _, err := driver.Load(ctx, s, "session"); return err }},
		{"snapshot", func() error { _, err := s.Read(ctx, "session", driver.ToDrive(0)); return err }},
		{"messages", func() error { _, err := driver.Messages(ctx, s, "session", 0, 0); return err }},
		{"append", func() error {
			_, err := log.Append(ctx, "session", 0, cairn.Event{Type: cairn.EventCustom})
			return err
		}},
		{"read", func() error { _, err := log.Read(ctx, "session", 0, 0); return err }},
		{"list", func() error { _, err := s.List(ctx, driver.SessionQuery{}); return err }},
		{"due", func() error { _, err := s.Due(ctx, driver.DueQuery{Agents: []string{"support"}}); return err }},
		{"calls", func() error { _, err := s.Calls(ctx, driver.CallQuery{}); return err }},
	} {
		var err error
		if trips := p.count(func() { err = call.do() }); trips != 1 || err != nil {
			t.Errorf("%s: %d round trips, want 1: %v", call.name, trips, err)
		}
	}
}

// A script that the server does not have is sent once.
func TestScriptIsSentAgainToAServerThatLostIt(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no")
	s := openAt(t, server.URL(), &Options{Prefix: newPrefix()})
	create := func(id string) {
		t.Helper()
		if _, err := driver.Create(context.Background(), s, &cairn.Session{ID: id, Agent: "support"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	create("one")
	if err := s.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	create("two")
}
