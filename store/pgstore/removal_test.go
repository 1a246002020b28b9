package pgstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// rows counts the rows of every table that has something of sessions.
func rows(t *testing.T, s *Store) map[string]int {
	t.Helper()
	var tables []string
	oneValue(t, testenv.FastPostgres(t), fmt.Sprintf(`SELECT array_agg(tablename::text) FROM pg_tables
		WHERE schemaname = '%s' AND tablename NOT IN ('cairn_migrations', 'records')`, s.opts.Schema), &tables)
	counts := map[string]int{}
	for _, table := range tables {
		var n int
		oneValue(t, testenv.FastPostgres(t), s.texts.of("SELECT count(*) FROM {schema}."+table), &n)
		counts[table] = n
	}
	return counts
}

// TestPurgeLeavesNothing removes a tree with rows in every table, in some of them more than a batch, and a log. The
// removal keeps the rows, except in the tables that lookups read. After several concurrent purges none are left.
func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, id := range []string{"session", "child"} {
		row, err := s.Commit(t.Context(), id, &driver.Commit{Create: &cairn.Session{Agent: "support", RootID: "session"},
			Status: cairn.SessionActive, StartRun: &cairn.Run{ID: "run"}, Messages: make([]cairn.Message, 2*purgeBatch+10),
			State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte("1")}}},
			Checkpoint: &cairn.Checkpoint{ID: "cp", StepID: "step"}, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker"},
			Suspend: &driver.Suspend{StepID: "step"}, Calls: []driver.CallWrite{{Call: openCall(id)}},
			Enqueue: &driver.QueuedTurn{ID: "turn"}, Cache: []driver.CacheEntry{{Key: "key"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stage(t.Context(), id, row.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), id, &driver.Commit{Status: cairn.SessionPaused}); err != nil {
			t.Fatal(err)
		}
	}
	row, err := driver.Load(t.Context(), s, "session")
	if err != nil {
		t.Fatal(err)
	}
	of := driver.MemoryWrite{Scope: driver.SessionMemories(row.ID, row.Incarnation), Puts: []driver.MemoryEntry{{Key: "key", Value: []byte("value")}}}
	if _, err := s.Memories().Write(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	blobs := make([][]byte, driver.MaxBlobs)
	for i := range blobs {
		blobs[i] = fmt.Append(nil, i)
	}
	if _, err := s.Blobs().Put(t.Context(), driver.OwnerOfBlobs(row), blobs...); err != nil {
		t.Fatal(err)
	}
	before := rows(t, s)
	removed, err := s.Remove(t.Context(), "session", driver.Deleted)
	if err != nil {
		t.Fatal(err)
	}
	after := rows(t, s)
	for table, n := range before {
		want := n
		switch table {
		case "heads", "calls", "assignments", "logs", "events":
			want = 0
		case "sessions", "usage_rows", "usage_sums": // which keep the ids, and amounts
		case "removed":
			want = before["sessions"]
		case "removed_calls":
			want = before["calls"]
		default:
			if n == 0 {
				t.Errorf("there is nothing in %s to be removed", table)
			}
		}
		if after[table] != want {
			t.Errorf("%s has %d rows after the removal, want %d", table, after[table], want)
		}
	}
	var group sync.WaitGroup
	var checkpoints atomic.Int64
	for range 4 {
		group.Go(func() {
			n, err := s.Purge(t.Context(), removed.Key)
			checkpoints.Add(int64(n))
			if err != nil && !errors.Is(err, cairn.ErrNotFound) { // another one was faster
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := checkpoints.Load(); n != 2 {
		t.Errorf("%d checkpoints were purged, want 2", n)
	}
	if swept, err := s.Blobs().Sweep(t.Context(), 0); err != nil || swept.Blobs != len(blobs) {
		t.Errorf("%d blobs are swept, want %d; %v", swept.Blobs, len(blobs), err)
	}
	for table, n := range rows(t, s) {
		if n > 0 && table != "usage_rows" { // which the engine has had forget the ids
			t.Errorf("%s has %d rows after the purge", table, n)
		}
	}
}
