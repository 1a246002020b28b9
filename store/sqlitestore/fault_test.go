package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// pragma runs a PRAGMA on the write connection and returns its number.
func (s *Store) pragma(tb testing.TB, text string) (n int64) {
	tb.Helper()
	err := s.writer.do(&job{ctx: context.Background(), alone: true, run: func(c *conn) error {
		return c.search(context.Background(), text, func(cols *columns) bool {
			n = cols.int64()
			return false
		})
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// fill makes the disk full for everything that needs more than some pages, until the returned function is called.
func (s *Store) fill(tb testing.TB, pages int64) (empty func()) {
	tb.Helper()
	s.pragma(tb, fmt.Sprintf("PRAGMA max_page_count = %d", s.pragma(tb, "PRAGMA page_count")+pages))
	return func() {
		tb.Helper()
		s.pragma(tb, "PRAGMA max_page_count = 1000000")
	}
}

func large(n int) []cairn.Message {
	return []cairn.Message{cairn.User(cairn.TextPart("small")), cairn.User(cairn.TextPart(strings.Repeat("x", n)))}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	before, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := s.fill(t, 2)
	_, err = s.Commit(t.Context(), "session", &driver.Commit{Messages: large(100_000)})
	if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("commit: %v, want an unavailable error that says that the disk is full", err)
	}
	_, err = s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom, Text: strings.Repeat("x", 100_000)})
	if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("append: %v, want an unavailable error that says that the disk is full", err)
	}
	snap, err := s.Read(t.Context(), "session", driver.ToDrive(0))
	if err != nil || snap.Session.Version != before.Version || len(snap.Messages) != 0 {
		t.Errorf("after the failed commit: %+v, %v", snap, err)
	}
	if _, last, err := s.EventLog().Bounds(t.Context(), "log"); err != nil || last != 0 {
		t.Errorf("after the failed append the log ends at %d, %v", last, err)
	}
	empty()
	row, err := s.Commit(t.Context(), "session", &driver.Commit{Messages: large(100_000)})
	if err != nil || row.Version <= before.Version || row.MessageCount != 2 {
		t.Errorf("commit when there is room again: %+v, %v", row, err)
	}
}

// When the disk is full, only those writes of a shared transaction fail that need room.
func TestDiskFullForSomeOfMany(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	const writers = 16
	for i := range writers {
		if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint(i), Agent: "support"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	empty := s.fill(t, 20)
	release := s.hold(t)
	var all sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		all.Go(func() {
			size := 10
			if i%4 == 0 {
				size = 200_000
			}
			_, errs[i] = s.Commit(t.Context(), fmt.Sprint(i), &driver.Commit{Messages: large(size)})
		})
	}
	s.waitQueue(writers)
	release()
	all.Wait()
	empty()
	for i := range writers {
		messages, err := driver.AllMessages(t.Context(), s, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i%4 == 0 && (!errors.Is(errs[i], cairn.ErrUnavailable) || len(messages) != 0):
			t.Errorf("large commit %d: %v, %d messages", i, errs[i], len(messages))
		case i%4 != 0 && (errs[i] != nil || len(messages) != 2):
			t.Errorf("small commit %d: %v, %d messages", i, errs[i], len(messages))
		}
	}
}

// lockFile holds the write lock on a store's file, as another process would.
func lockFile(t *testing.T, s *Store) (unlock func()) {
	t.Helper()
	c, err := connect(dataSource(s.path, "rw"), busyPragma(time.Second), sqlBegin)
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { c.close() })
	t.Cleanup(unlock)
	return unlock
}

func TestAnotherProcessKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal, BusyTimeout: 30 * time.Millisecond})
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	unlock := lockFile(t, s)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1})
			if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "another process") {
				t.Errorf("commit: %v, want an unavailable error that names another process", err)
			}
		})
	}
	all.Wait()
	if row, err := driver.Load(t.Context(), s, "session"); err != nil || row.Version != 1 {
		t.Errorf("reading meanwhile: %+v, %v", row, err)
	}
	unlock()
	if row, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1}); err != nil || row.Version < 2 {
		t.Errorf("commit afterwards: %+v, %v", row, err)
	}
}

func TestCancelWhileAnotherProcessKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	unlock := lockFile(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 { // the one that waits for the lock and two behind it
		all.Go(func() {
			if _, err := s.Commit(ctx, "session", &driver.Commit{Step: 1}); !errors.Is(err, context.Canceled) {
				t.Errorf("commit: %v, want that its context was cancelled", err)
			}
		})
	}
	s.waitQueue(2)
	patient := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 2})
		patient <- err
	}()
	s.waitQueue(3)
	cancel()
	all.Wait()
	unlock()
	if err := <-patient; err != nil {
		t.Errorf("the commit that kept waiting: %v", err)
	}
	if row, err := driver.Load(t.Context(), s, "session"); err != nil || row.Version < 2 || row.Step != 2 {
		t.Errorf("%+v, %v: want the one commit that was not cancelled", row, err)
	}
}

func TestCorruptData(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, damage string
		read         func(context.Context, *Store) error
	}{
		{"message", `UPDATE messages SET data = '{'`, func(ctx context.Context, s *Store) error {
			_, err := driver.Messages(ctx, s, "session", 0, 0)
			return err
		}},
		{"keyframe", `UPDATE state SET data = '[1' WHERE keyframe = 1`, func(ctx context.Context, s *Store) error {
			_, err := driver.State(ctx, s, "session", "")
			return err
		}},
		{"state change", `UPDATE state SET data = 'null' WHERE keyframe = 0; UPDATE state SET data = '{' WHERE keyframe = 0`,
			func(ctx context.Context, s *Store) error {
				_, err := s.Read(ctx, "session", driver.ToDrive(0))
				return err
			}},
		{"state change that does not fit", `UPDATE state SET data = '[{"op":"append","path":""}]' WHERE keyframe = 0`,
			func(ctx context.Context, s *Store) error {
				_, err := driver.State(ctx, s, "session", "")
				return err
			}},
		{"missing keyframe", `DELETE FROM state WHERE keyframe = 1`, func(ctx context.Context, s *Store) error {
			_, err := driver.State(ctx, s, "session", "")
			return err
		}},
		{"run", `UPDATE runs SET data = '"run"'`, func(ctx context.Context, s *Store) error {
			_, err := driver.FindRun(ctx, s, "session", "run")
			return err
		}},
		{"runs", `UPDATE runs SET data = ''`, func(ctx context.Context, s *Store) error {
			_, err := s.Runs(ctx, "session", driver.PageQuery{})
			return err
		}},
		{"tags", `UPDATE sessions SET tags = '{}'`, func(ctx context.Context, s *Store) error {
			_, err := driver.Load(ctx, s, "session")
			return err
		}},
		{"metadata", `UPDATE sessions SET metadata = '[1]'`, func(ctx context.Context, s *Store) error {
			_, err := s.Commit(ctx, "session", &driver.Commit{Step: 1})
			return err
		}},
		{"usage", `UPDATE heads SET usage = '?'`, func(ctx context.Context, s *Store) error {
			_, err := s.List(ctx, driver.SessionQuery{})
			return err
		}},
		{"stop request", `UPDATE heads SET stop = '?'`, func(ctx context.Context, s *Store) error {
			row, err := driver.Load(ctx, s, "session")
			if err == nil {
				_, err = s.Renew(ctx, "session", row.Lease.Token, time.Minute)
			}
			return err
		}},
		{"wait", `UPDATE heads SET wait = '?'`, func(ctx context.Context, s *Store) error {
			_, err := driver.Load(ctx, s, "session")
			return err
		}},
		{"call", `UPDATE calls SET data = '?'`, func(ctx context.Context, s *Store) error {
			_, err := driver.FindCall(ctx, s, "session", "call")
			return err
		}},
		{"calls", `UPDATE calls SET data = '[]'`, func(ctx context.Context, s *Store) error {
			_, err := s.Calls(ctx, driver.CallQuery{})
			return err
		}},
		{"calls of a snapshot", `UPDATE calls SET data = ''`, func(ctx context.Context, s *Store) error {
			_, err := s.Read(ctx, "session", driver.ToDrive(0))
			return err
		}},
		{"queued turn", `UPDATE queue SET data = '[]'`, func(ctx context.Context, s *Store) error {
			_, err := driver.Queue(ctx, s, "session")
			return err
		}},
		{"cached result", `UPDATE cache SET data = '1'`, func(ctx context.Context, s *Store) error {
			_, err := s.Read(ctx, "session", driver.ToDrive(0))
			return err
		}},
		{"event", `UPDATE events SET data = CAST('?' AS BLOB)`, func(ctx context.Context, s *Store) error {
			_, err := s.EventLog().Read(ctx, "session", 0, 0)
			return err
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := openNew(t)
			_, err := s.Commit(t.Context(), "session", &driver.Commit{
				Create:   &cairn.Session{Agent: "support", Tags: []string{"tag"}, Metadata: cairn.Metadata{"key": "value"}},
				StartRun: &cairn.Run{ID: "run", Status: cairn.RunRunning},
				Messages: large(1),
				State:    &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte("1")}}},
				Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Minute},
				Usage:    cairn.Usage{ModelCalls: 1},
				Suspend:  &driver.Suspend{StepID: "step", OpenCalls: 1},
				Calls:    []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call"}, StepID: "step"}}},
				Enqueue:  &driver.QueuedTurn{ID: "next"},
				Cache:    []driver.CacheEntry{{Key: "key"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.EventLog().Append(t.Context(), "session", 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
				t.Fatal(err)
			}
			if err := test.read(t.Context(), s); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			if err := s.writer.do(&job{ctx: t.Context(), alone: true, run: func(c *conn) error { return c.run(test.damage) }}); err != nil {
				t.Fatal(err)
			}
			var e *cairn.Error
			if err := test.read(t.Context(), s); !errors.As(err, &e) || e.Code != cairn.ErrCorrupt {
				t.Errorf("error %v, want code %s", err, cairn.ErrCorrupt)
			}
		})
	}
}
