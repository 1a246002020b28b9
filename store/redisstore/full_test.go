package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// fill sets a limit on a server's memory and writes sessions of a user, big, until it refuses more. It returns the
// error.
func fill(t *testing.T, s *Store) (refusal error) {
	t.Helper()
	text, err := s.client.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var used int64
	fmt.Sscan(readFacts(text)["used_memory"], &used)
	if err := s.client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used+4<<20)).Err(); err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		id := fmt.Sprint("big-", n)
		if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: id, Agent: "support", UserID: "big"}, nil); err != nil {
			return err
		}
		if _, err := driver.AppendMessages(t.Context(), s, id, cairn.User(cairn.TextPart(strings.Repeat("full ", 10_000)))); err != nil {
			return err
		}
	}
	t.Fatal("the server does not fill")
	return nil
}

// full returns a store on a server that is full after prepare has run.
func full(t *testing.T, prepare func(s *Store)) *Store {
	t.Helper()
	s := openAt(t, testenv.RedisServer(t, "--appendonly", "no", "--enable-debug-command", "local").URL(), nil)
	prepare(s)
	wantError(t, fill(t, s), cairn.ErrUnavailable, "out of memory")
	s.client.ConfigSet(t.Context(), "maxmemory", "1") // it stays full, whatever is removed
	return s
}

// A full server refuses each write as a whole. Writes that remove things, or end what is under way, it takes.
func TestFullServer(t *testing.T) {
	t.Parallel()
	takes := map[string]bool{"end": true, "end with events": true, "renew": true, "stop": true, "fenced append": true, "trim": true, "drop": true, "delete a record": true, "drop memories": true, "drop blobs": true, "sweep blobs": true, "remove": true, "delete": true}
	s := full(t, func(s *Store) {
		for _, w := range writings {
			if err := w.prepare(t.Context(), s, w.name); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, w := range writings {
		if takes[w.name] {
			continue
		}
		before := s.client.Do(t.Context(), "DEBUG", "DIGEST").Val()
		wantError(t, w.do(t.Context(), s, w.name), cairn.ErrUnavailable, "out of memory")
		if after := s.client.Do(t.Context(), "DEBUG", "DIGEST").Val(); after != before {
			t.Errorf("%s: an error, and something was written", w.name)
		}
	}
	for _, w := range writings {
		if takes[w.name] {
			if err := w.do(t.Context(), s, w.name); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	}
}

// An operator reads and empties a full server with a new process, until it takes writes again.
func TestFullServerCanBeReadAndEmptied(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type refund struct {
		Cents int `json:"cents"`
	}
	agent := &cairn.Agent{Name: "support", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Call("refund", refund{100})
	}), Tools: []cairn.Tool{cairn.Func("refund", "Refunds money.", func(context.Context, *cairn.Call, refund) (string, error) {
		return "refunded", nil
	}, cairn.RequireApproval())}}
	start := func(s *Store) *engine.Engine {
		eng, err := engine.New(s, []*cairn.Agent{agent}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { eng.Close(context.Background()) })
		return eng
	}
	first := full(t, func(s *Store) {
		eng := start(s)
		for _, id := range []string{"paused", "erased", "deleted"} {
			run, err := eng.Execute(ctx, id, "support", cairn.Text("Refund me."), engine.WithUser(id))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		dead := runningCommit()
		dead.Lease.TTL = time.Millisecond
		if _, err := s.Commit(ctx, "dead", dead); err != nil {
			t.Fatal(err)
		}
		if err := putRecord(ctx, s, "notes"); err != nil {
			t.Fatal(err)
		}
	})
	s := openAt(t, first.url, nil)
	eng := start(s)

	page, err := eng.Sessions(ctx, driver.SessionQuery{UserID: "paused"})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("sessions: %+v, %v", page.Items, err)
	}
	for what, read := range map[string]func() error{
		"snapshot":    func() error { _, err := eng.Snapshot(ctx, "paused"); return err },
		"messages":    func() error { _, err := eng.Messages(ctx, "paused", 0, 10); return err },
		"checkpoints": func() error { _, err := eng.Checkpoints(ctx, "paused", driver.PageQuery{}); return err },
		"runs":        func() error { _, err := eng.Runs(ctx, "paused", driver.PageQuery{}); return err },
		"state":       func() error { _, err := eng.State(ctx, "paused", ""); return err },
		"events":      func() error { _, err := eng.History(ctx, "paused", cairn.Cursor{}, 10); return err },
		"inbox":       func() error { _, err := eng.Inbox(ctx, driver.CallQuery{}); return err },
		"due":         func() error { _, err := s.Due(ctx, driver.DueQuery{}); return err },
		"records":     func() error { _, err := s.Records().List(ctx, driver.RecordQuery{Namespace: "notes"}); return err },
		"whole":       func() error { _, err := s.Inside(ctx, "paused", 0, 10); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("read %s: %v", what, err)
		}
	}
	for what, remove := range map[string]func() error{
		"end a paused run": func() error { return eng.Abort(ctx, "paused", "no memory") },
		"end a dead run":   func() error { return eng.Interrupt(ctx, "dead", "no memory") },
		"delete":           func() error { return eng.Delete(ctx, "deleted") },
		"erase a user":     func() error { _, err := eng.EraseUser(ctx, "erased"); return err },
		"trim events":      func() error { return s.log.Trim(ctx, "erased", 2) },
		"sweep":            func() error { _, err := eng.Sweep(ctx); return err },
	} {
		if err := remove(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, id := range []string{"paused", "dead"} {
		if row, err := eng.Session(ctx, id); err != nil || row.Status == cairn.SessionActive || row.Status == cairn.SessionPaused {
			t.Errorf("session %s: %+v, %v", id, row, err)
		}
	}
	if _, err := eng.EraseUser(ctx, "big"); err != nil {
		t.Errorf("erase the user who has filled the server: %v", err)
	}
	var limit int64
	text, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(readFacts(text)["used_memory"], &limit)
	s.client.ConfigSet(ctx, "maxmemory", fmt.Sprint(limit+2<<20))
	if _, err := driver.Create(ctx, s, &cairn.Session{ID: "new", Agent: "support"}, nil); err != nil {
		t.Errorf("a write after the server was emptied: %v", err)
	}
}
