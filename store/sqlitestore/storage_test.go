package sqlitestore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/scale"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// sum returns the result of a query for one number.
func (s *Store) sum(t *testing.T, text string, args ...any) (n int64) {
	t.Helper()
	err := s.readers.read(t.Context(), func(c *conn) error {
		_, err := c.row(text, func(cols *columns) { n = cols.int64() }, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The size of a long conversation on disk is compared with its text: that of the whole file with the event log, and
// that of the rest without it.
func TestStorageOfAConversation(t *testing.T) {
	t.Parallel()
	const turns = 2500
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := openAt(t, path, &Options{Synchronous: Normal})
	if err := s.writer.conn.run("PRAGMA synchronous = OFF"); err != nil {
		t.Fatal(err)
	}
	talk := scale.NewConversation(t, s)
	for range turns {
		talk.Turn()
	}
	perByte := func(n int64) float64 { return float64(n) / float64(talk.Bytes) }
	err := s.readers.read(t.Context(), func(c *conn) error {
		const sizes = `SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING count(*) > 10 ORDER BY 2 DESC`
		return c.query(t.Context(), sizes, func(cols *columns) bool {
			t.Logf("%s: %.2f bytes per byte", cols.text(), perByte(cols.int64()))
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	events := s.sum(t, `SELECT sum(pgsize) FROM dbstat WHERE name = 'events'`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := perByte(must(os.Stat(path)).Size())
	t.Logf("%.2f bytes are stored per byte of conversation, %.2f outside the event log", whole, whole-perByte(events))
	if whole > 4.2 || whole-perByte(events) > 2.65 {
		t.Errorf("%.2f bytes per byte of conversation, %.2f outside the event log: at most 4.2 and 2.65 are allowed",
			whole, whole-perByte(events))
	}
}

// A copied session keeps the texts of its runs once, too.
func TestStorageOfACopiedConversation(t *testing.T) {
	t.Parallel()
	from, to := openNew(t), openNew(t)
	talk := scale.NewConversation(t, from)
	for range 30 {
		talk.Turn()
	}
	if copied, err := store.Copy(t.Context(), from, to, "session"); err != nil || !copied {
		t.Fatalf("copied: %t, %v", copied, err)
	}
	const runs = `SELECT sum(length(data)) FROM runs`
	if size, want := to.sum(t, runs), from.sum(t, runs); size != want {
		t.Errorf("the runs of the copy take %d bytes, those of the original %d", size, want)
	}
}

// Text that is streamed a few words at a time takes little more space than the text.
func TestStorageOfStreamedText(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	const appends, text = 1000, "a few more words "
	w := driver.Writer{Session: "session", Token: 1, ID: "writer"}
	at := time.Now()
	for range appends {
		w.Batch++
		at = at.Add(20 * time.Millisecond)
		must(s.log.AppendFenced(t.Context(), "log", driver.AnySequence, w, cairn.Event{Type: cairn.EventTextDelta, Time: at,
			SessionID: "session-0123456789", RunID: "run_0123456789", Agent: "support", Step: 1, Text: text}))
	}
	rows, size := s.sum(t, `SELECT count(*) FROM events`), s.sum(t, `SELECT sum(length(data)) FROM events`)
	if size > appends*(int64(len(text))+10) || rows > appends/25 {
		t.Errorf("%d appends of %d bytes take %d bytes in %d rows", appends, len(text), size, rows)
	}
}

// A thousand steps each add 100 bytes to a state of 100 KB: the size of checkpoints and state grows with the changes,
// not with the state.
func TestStorageFollowsTheChanges(t *testing.T) {
	t.Parallel()
	const steps, added, size = 1000, 100, 100 << 10
	st := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal})
	state := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
	row, err := driver.Create(t.Context(), st, &cairn.Session{ID: "session", Agent: "agent"}, state)
	if err != nil {
		t.Fatal(err)
	}
	item, changes := json.RawMessage(`"`+strings.Repeat("y", added-2)+`"`), int64(0)
	for n := range steps {
		op := cairn.Op{Kind: cairn.OpAppend, Path: "/list", Items: []json.RawMessage{item}}
		change := &driver.StateChange{Ops: []cairn.Op{op}}
		text := must(json.Marshal(change.Ops))
		changes += int64(len(text))
		if driver.KeyframeDue(row.State, len(text)) {
			change.Keyframe = must(driver.FoldState(must(driver.State(t.Context(), st, "session", "")), [][]cairn.Op{change.Ops}))
		}
		row, err = st.Commit(t.Context(), "session", &driver.Commit{
			Guard: driver.Guard{Version: row.Version}, State: change, Step: n + 1,
			Checkpoint: &cairn.Checkpoint{ID: fmt.Sprint("cp", n), RunID: "run", StepID: fmt.Sprint("run/", n), Step: n + 1},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keyframes := st.sum(t, `SELECT sum(length(data)) FROM state WHERE keyframe = 1`)
	total := st.sum(t, `SELECT sum(length(data)) FROM state`) +
		st.sum(t, `SELECT sum(length(id) + length(step_id) + length(run_id) + length(parent_id) + 8 * 8) FROM checkpoints`)
	if limit := 3 * (changes + keyframes); total > limit {
		t.Errorf("%d bytes for %d bytes of changes and %d of keyframes, at most %d are allowed", total, changes, keyframes, limit)
	}
	if whole := int64(steps * size); total > whole/50 {
		t.Errorf("%d bytes: whole states would have taken %d", total, whole)
	}
	if n := st.sum(t, `SELECT count(*) FROM state WHERE keyframe = 1`); n < 2 || n > 4 {
		t.Errorf("%d keyframes, want the first one and one or two more", n)
	}
	last := must(driver.State(t.Context(), st, "session", fmt.Sprint("cp", steps-1)))
	if n := strings.Count(string(last), string(item)); n != steps {
		t.Errorf("the last checkpoint's state has %d items, want %d", n, steps)
	}
	if first := must(driver.State(t.Context(), st, "session", "cp0")); strings.Count(string(first), string(item)) != 1 {
		t.Errorf("the first checkpoint's state is %d bytes", len(first))
	}
}

// ownerTables are the tables of what a session owns, except for its event log.
var ownerTables = []string{"sessions", "heads", "messages", "state", "runs", "checkpoints", "staged", "calls", "assignments", "queue", "cache"}

// withEverything makes a session that has a row in each of ownerTables.
func withEverything(t *testing.T, s *Store, id string) {
	t.Helper()
	newStepper(t, s, id, nil).step()
	if err := s.Stage(t.Context(), id, must(driver.Load(t.Context(), s, id)).Lease.Token, driver.Staged{StepID: "step", Key: "reply", Data: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	must(s.Commit(t.Context(), id, &driver.Commit{Status: cairn.SessionPaused,
		State:   &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: json.RawMessage(`1`)}}},
		Calls:   []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Reviewers: []string{"ann"}}, Status: cairn.CallOpen}}},
		Enqueue: &driver.QueuedTurn{ID: "next"}, Cache: []driver.CacheEntry{{Key: "key"}}}))
	for _, table := range ownerTables {
		if s.sum(t, `SELECT count(*) FROM `+table) == 0 {
			t.Errorf("the test leaves %s empty", table)
		}
	}
}

func (s *Store) wantEmpty(t *testing.T, tables ...string) {
	t.Helper()
	for _, table := range tables {
		if n := s.sum(t, `SELECT count(*) FROM `+table); n > 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// A deleted session leaves no row in any table.
func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	withEverything(t, s, "session")
	if err := s.Delete(t.Context(), "session"); err != nil {
		t.Fatal(err)
	}
	s.wantEmpty(t, ownerTables...)
	// In total there are these, the five of removed sessions, four of the event log, that of records, two of memories,
	// three of usage, three of blobs and SQLite's own.
	if n := s.sum(t, `SELECT count(*) FROM sqlite_schema WHERE type = 'table'`); n != int64(len(ownerTables))+5+4+1+2+3+3+1+1 {
		t.Errorf("the database has %d tables: teach this test the new ones", n)
	}
}

// A removed tree keeps what it owns until it is purged, in several writes if it is large. Then nothing is left.
func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	withEverything(t, s, "session")
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "child", Agent: "support", ParentID: "session", RootID: "session"}, nil))
	must(driver.AppendMessages(t.Context(), s, "child", slices.Repeat([]cairn.Message{cairn.User(cairn.TextPart("hello"))}, purgeBatch+1)...))
	blobs := make([][]byte, 300)
	for i := range blobs {
		blobs[i] = fmt.Append(nil, i)
	}
	must(s.Blobs().Put(t.Context(), driver.OwnerOfBlobs(must(driver.Load(t.Context(), s, "session"))), blobs...))
	removed := must(s.Remove(t.Context(), "session", driver.Deleted))
	s.wantEmpty(t, "sessions", "heads", "calls", "assignments")
	for table, want := range map[string]int64{"removed": 2, "removed_sessions": 2, "removed_heads": 2, "removed_calls": 1,
		"removed_assignments": 1, "messages": purgeBatch + 3, "state": 3, "runs": 1, "checkpoints": 1, "staged": 1, "queue": 1,
		"cache": 1, "blob_owners": 1, "blob_names": 300, "blobs": 300} {
		if n := s.sum(t, `SELECT count(*) FROM `+table); n != want {
			t.Errorf("%d rows in %s until the purge, want %d", n, table, want)
		}
	}
	commits := 0
	s.intercept(t, func(text string) error {
		if text == sqlCommit {
			commits++
		}
		return nil
	})
	if n := must(s.Purge(t.Context(), removed.Key)); n != 1 || commits < 3 {
		t.Errorf("%d checkpoints in %d writes, want 1 in three or more", n, commits)
	}
	if swept := must(s.Blobs().Sweep(t.Context(), 0)); swept.Blobs != len(blobs) {
		t.Errorf("%d blobs are swept, want %d", swept.Blobs, len(blobs))
	}
	s.wantEmpty(t, append([]string{"blobs", "blob_names", "blob_owners", "removed", "removed_sessions", "removed_heads", "removed_calls", "removed_assignments"}, ownerTables...)...)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkColdResume resumes sessions in new handles: see [scale.BenchResume].
func BenchmarkColdResume(b *testing.B) {
	path := filepath.Join(b.TempDir(), "cairn.db")
	scale.BenchResume(b, func(tb testing.TB) scale.Handle {
		s, err := Open(path, nil)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

// BenchmarkCopy copies sessions from one file to another, which is on disk when it is copied: see [scale.BenchCopy].
func BenchmarkCopy(b *testing.B) {
	scale.BenchCopy(b, openNew(b), func(tb testing.TB) driver.Importer { return openAt(tb, filepath.Join(tb.TempDir(), "copy.db"), nil) })
}
