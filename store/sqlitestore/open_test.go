package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// makeFile makes a database file with statements and closes it.
func makeFile(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	c, err := connect(dataSource(path, "rwc"), statements...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// contents returns the bytes of all files in a directory by name.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestOpenRefusesWhatIsNotOurs(t *testing.T) {
	file := func(raw []byte) string {
		path := filepath.Join(t.TempDir(), "garbage.db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct {
		name, path, says string
	}{
		{"garbage", file(bytes.Repeat([]byte("not a database. "), 1000)), "not an SQLite database"},
		{"one byte", file([]byte("x")), "not an SQLite database"},
		{"a short text", file(bytes.Repeat([]byte("text "), 20)), "not an SQLite database"},
		{"less than a page", file(bytes.Repeat([]byte("text "), 200)), "not an SQLite database"},
		{"a page of zeros", file(make([]byte, 4096)), "not an SQLite database"},
		{"tables of others", makeFile(t, "CREATE TABLE orders (id)"), "another application"},
		{"tables of others in WAL mode", makeFile(t, "PRAGMA journal_mode = WAL", "CREATE TABLE orders (id)"), "another application"},
		{"another application id", makeFile(t, "PRAGMA application_id = 7", "CREATE TABLE orders (id)"), "another application"},
		{"another application id and no tables", makeFile(t, "PRAGMA application_id = 7"), "another application"},
		{"a version and no tables", makeFile(t, "PRAGMA user_version = 7"), "another application"},
		{"newer version", makeFile(t, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 1000",
			"CREATE TABLE later (id)"), "schema version 1000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := contents(t, filepath.Dir(test.path))
			s, err := Open(test.path, nil)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.path) {
				t.Errorf("error %q: want a schema error that names the file and says %q", err, test.says)
			}
			after := contents(t, filepath.Dir(test.path))
			for name, was := range before {
				if !bytes.Equal(was, after[name]) {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}

// A database in WAL mode whose process died has its newest content in a second file.
func TestOpenLeavesAnotherApplicationsLogAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	c, err := connect(dataSource(path, "rwc"), "PRAGMA journal_mode = WAL", "CREATE TABLE orders (id)", "INSERT INTO orders VALUES (42)")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	orphan := copyFiles(t, path, "", "-wal")
	before := contents(t, filepath.Dir(orphan))
	if _, err := Open(orphan, nil); !errors.Is(err, cairn.ErrSchema) {
		t.Fatalf("open: %v, want a schema error", err)
	}
	after := contents(t, filepath.Dir(orphan))
	for name, was := range before {
		if !bytes.Equal(was, after[name]) {
			t.Errorf("%s was changed: %d bytes, now %d", name, len(was), len(after[name]))
		}
	}
}

// A process that died while it made the database leaves a journal that takes its write back.
func TestOpenAfterDeathWhileInitialising(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	c, err := connect(dataSource(path, "rwc"), "PRAGMA cache_size = 1", sqlBegin, "CREATE TABLE half (n)",
		"INSERT INTO half SELECT randomblob(100000) FROM json_each('[1,2,3,4,5,6,7,8]')")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	orphan := copyFiles(t, path, "", "-journal")
	if info, err := os.Stat(orphan); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v: nothing was written that could be taken back", info, err)
	}
	s := openAt(t, orphan, nil)
	if _, err := store.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Error(err)
	}
	err = s.readers.read(t.Context(), func(c *conn) error { return c.run("SELECT * FROM half") })
	if err == nil {
		t.Error("the half-made table is there")
	}
}

// copyFiles copies a database file and those beside it while they are in use, as a crash would leave them.
func copyFiles(t *testing.T, path string, suffixes ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "orphan.db")
	for _, suffix := range suffixes {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestOpenRefusesBadArguments(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "cairn.db")
	for _, test := range []struct {
		name, path string
		opts       *Options
		code       cairn.Code
		says       string
	}{
		{"empty path", "", nil, cairn.CodeInvalid, "path"},
		{"a directory", dir, nil, cairn.CodeSchema, "directory"},
		{"a missing directory", filepath.Join(dir, "missing", "cairn.db"), nil, cairn.CodeUnavailable, "missing"},
		{"synchronous", good, &Options{Synchronous: 9}, cairn.CodeInvalid, "synchronous"},
		{"max event", good, &Options{MaxEvent: -1}, cairn.CodeInvalid, "max_event"},
		{"poll interval", good, &Options{PollInterval: -1}, cairn.CodeInvalid, "poll_interval"},
		{"read connections", good, &Options{ReadConnections: -1}, cairn.CodeInvalid, "read_connections"},
		{"busy timeout", good, &Options{BusyTimeout: -1}, cairn.CodeInvalid, "busy_timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(test.path, test.opts)
			var e *cairn.Error
			if !errors.As(err, &e) || e.Code != test.code || !strings.Contains(e.Message, test.says) {
				t.Errorf("error %v: want code %s that says %q", err, test.code, test.says)
			}
			if _, err := os.Stat(good); err == nil {
				t.Error("the file was made")
			}
		})
	}
}

// TestFilesAreTheOwners looks at the permissions of the files of a store, of which all have conversations in them.
func TestFilesAreTheOwners(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("its permissions are no bits")
	}
	path := filepath.Join(t.TempDir(), "cairn.db")
	s, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := store.Create(t.Context(), s, &cairn.Session{ID: "s", Agent: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", info.Name(), mode)
		}
	}
}

func TestOpenInitialisesAnEmptyFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "a b%20c?d#e.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"no bytes": empty, "no tables": makeFile(t, "CREATE TABLE t (id)", "DROP TABLE t")} {
		t.Run(name, func(t *testing.T) {
			scripts, err := migrations()
			if err != nil {
				t.Fatal(err)
			}
			s := openAt(t, path, nil)
			version, err := s.SchemaVersion(t.Context())
			if err != nil || version != len(scripts) {
				t.Errorf("schema version %d, %v: want %d", version, err, len(scripts))
			}
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v, %v: want the database in it", path, info, err)
			}
		})
	}
}

// firstRows are two sessions with a run each and one whose time is over, in the columns of version 1.
const firstRows = `
	INSERT INTO sessions (key, id, agent, user_id, tags, metadata, expires_at, trace_parent, parent_id, root_id, created_at)
	VALUES (1, 'old', 'support', 'ann', '["t"]', '{"k":"v"}', 0, '', '', 'old', 1700000000000000),
		(2, 'child', 'support', '', '[]', '{}', 1700000000000000, '', 'old', 'old', 1700000000000001),
		(3, 'over', 'support', '', '[]', '{}', 1700000000000000, '', '', 'over', 1700000000000001);
	INSERT INTO heads (session, status, version, epoch, message_count, run_id, turn, step, recoveries, checkpoint_id,
		checkpoints, log_sequence, lease_owner, lease_token, lease_until, state_position, keyframe_bytes, change_bytes,
		usage, run_usage, stop, updated_at)
	VALUES (1, 'paused', 7, 0, 1, 'run', 2, 1, 0, 'cp', 1, 3, '', 1, 0, 0, 13, 0, '{}', '{}', '', 1700000000000002),
		(2, 'active', 1, 0, 0, 'run', 1, 0, 0, '', 0, 0, 'dead', 1, 1700000000000003, 0, 2, 0, '{}', '{}', '', 1700000000000002),
		(3, 'completed', 1, 0, 0, '', 0, 0, 0, '', 0, 0, '', 0, 0, 0, 2, 0, '{}', '{}', '', 1700000000000002);
	INSERT INTO messages VALUES (1, 0, '{"role":"user","parts":[{"type":"text","text":"hello"}]}');
	INSERT INTO state VALUES (1, 0, 1, '{"kept":true}'), (2, 0, 1, '{}'), (3, 0, 1, '{}');
	INSERT INTO runs (session, turn, id, started_at, start_sequence, first_message, data)
	VALUES (1, 2, 'run', 1700000000000000, 2, 0, '{"agent":"support","status":"failed","steps":1}'),
		(2, 1, 'run', 1700000000000000, 2, 0, '{"agent":"support","status":"running"}');
	INSERT INTO checkpoints VALUES (1, 1, 'cp', 'step', 'run', 2, 1, '', 1, 0, 3, 1700000000000002);`

// thirdRows is what version 3 has of the sessions beside that.
const thirdRows = `UPDATE sessions SET secret = 'secret of the session ' || id || ', of some length';`

// secondRows and fourthRows are what those versions have beside that: a log whose writers are fenced, and when it is worth
// looking whether a session has expired.
const (
	secondRows = `
		INSERT INTO logs (key, name, first, last) VALUES (1, 'old', 1, 0);
		INSERT INTO fences (log, session, token) VALUES (1, 'old', 5);`
	fourthRows = `UPDATE sessions SET sweep_at = expires_at WHERE parent_id = '' AND expires_at > 0;`
)

// Each version that ever was is brought up to date, with what is in it.
func TestMigrateFromEachVersion(t *testing.T) {
	scripts, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version < len(scripts); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cairn.db")
			w, err := openWriter(path, &Options{BusyTimeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.migrate(t.Context(), path, scripts[:version]); err != nil {
				t.Fatal(err)
			}
			rows := firstRows
			for since, more := range map[int]string{2: secondRows, 3: thirdRows, 4: fourthRows} {
				if version >= since {
					rows += more
				}
			}
			if err := w.conn.run(rows); err != nil {
				t.Fatal(err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}

			wantMigrations(t, path, version, len(scripts))
			s := openAt(t, path, nil)
			wantMigrations(t, path, len(scripts), len(scripts))
			if got, err := s.SchemaVersion(t.Context()); err != nil || got != len(scripts) {
				t.Errorf("schema version %d, %v: want %d", got, err, len(scripts))
			}
			checkFirstRows(t, s)
			log, ev := s.EventLog().(*Log), cairn.Event{Type: cairn.EventCustom}
			if _, err := log.Append(t.Context(), "old", 0, ev); err != nil {
				t.Errorf("append: %v", err)
			}
			for range 2 { // the second time it is there
				if last, err := log.AppendFenced(t.Context(), "old", 1, store.Writer{Session: "old", Token: 5, Batch: 1}, ev); err != nil || last != 2 {
					t.Errorf("append of a batch: ends at %d, %v", last, err)
				}
			}
			_, err = log.AppendFenced(t.Context(), "old", 2, store.Writer{Session: "old", Token: 4, Batch: 1}, ev)
			if !errors.Is(err, cairn.ErrFenced) {
				t.Errorf("append under an old token: %v", err)
			}
		})
	}
}

func TestMigrationsOfNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	wantMigrations(t, path, 0, len(must(migrations())))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking at it made the file: %v", err)
	}
}

// wantMigrations checks that the first migrations of all are told to be applied to a file.
func wantMigrations(t *testing.T, path string, applied, all int) {
	t.Helper()
	list, err := Migrations(path, nil)
	if err != nil || len(list) != all {
		t.Fatalf("%d migrations, %v: want %d", len(list), err, all)
	}
	for i, m := range list {
		if m.Version != i+1 || m.Name == "" || m.Applied != (i < applied) {
			t.Errorf("with %d applied: %+v", applied, m)
		}
	}
}

// checkFirstRows checks that the sessions of firstRows are what they were, and that they can do what is new.
func checkFirstRows(t *testing.T, s *Store) {
	t.Helper()
	snap, err := s.Read(t.Context(), "old", store.ToDrive(0))
	if err != nil {
		t.Fatal(err)
	}
	row := snap.Session
	if row.Status != cairn.SessionPaused || row.Version != 7 || row.UserID != "ann" || row.Metadata["k"] != "v" || row.CheckpointID != "cp" ||
		row.Name != "" || row.SuspendedStep != "" || row.Queued != 0 || string(snap.State) != `{"kept":true}` || snap.Messages[0].Text() != "hello" {
		t.Errorf("%+v", snap)
	}
	child := must(store.Load(t.Context(), s, "child"))
	if len(row.Secret) < 32 || len(child.Secret) < 32 || row.Secret == child.Secret {
		t.Errorf("the secrets are %q and %q, want two that cannot be guessed", row.Secret, child.Secret)
	}
	if again := must(store.Load(t.Context(), s, "old")); again.Secret != row.Secret {
		t.Errorf("the secret was %q and is %q", row.Secret, again.Secret)
	}
	if due := must(s.Due(t.Context(), store.DueQuery{})).Items; len(due) != 1 || due[0].SessionID != "child" || due[0].Kind != store.DueCrashed {
		t.Errorf("due: %+v, want the session that crashed", due)
	}
	if run := must(store.FindRun(t.Context(), s, "old", "run")); run.Steps != 1 || run.Before != (cairn.RunOrigin{}) {
		t.Errorf("run %+v", run)
	}
	// They are never idle too long; only a root whose expiry somebody has set expires.
	if stale := must(s.Stale(t.Context(), store.PageQuery{})).Items; !slices.Equal(stale, []string{"over"}) || row.TTL != 0 {
		t.Errorf("stale: %q, and the TTL is %s", stale, row.TTL)
	}
	must(s.Remove(t.Context(), "over", store.Expired))
	// Where a run of then began is not known, so it cannot be taken back.
	if _, err := s.Commit(t.Context(), "old", &store.Commit{RewindRun: "run"}); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("rewind of an old run: %v, want ErrInvalid", err)
	}
	row, err = s.Commit(t.Context(), "old", &store.Commit{
		Suspend: &store.Suspend{StepID: "step", OpenCalls: 1},
		Calls:   []store.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call"}, StepID: "step", Status: cairn.CallOpen}}},
		Enqueue: &store.QueuedTurn{ID: "next"}, StartRun: &cairn.Run{ID: "second", Status: cairn.RunRunning}})
	if err != nil || row.Queued != 1 {
		t.Fatalf("%+v, %v", row, err)
	}
	if row, err = s.Commit(t.Context(), "old", &store.Commit{RewindRun: "second"}); err != nil || row.CheckpointID != "cp" || row.MessageCount != 1 {
		t.Errorf("rewind of a new run: %+v, %v", row, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s, err := Open(path, nil)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer s.Close()
			if _, err := store.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support"}, nil); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	all.Wait()
	s := openAt(t, path, nil)
	page, err := s.List(t.Context(), store.SessionQuery{})
	if err != nil || len(page.Items) != 8 {
		t.Errorf("%d sessions, %v: want 8", len(page.Items), err)
	}
}

func TestClose(t *testing.T) {
	s := openNew(t)
	if _, err := store.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	started := make(chan struct{})
	go func() {
		for ev, err := range s.EventLog().Follow(t.Context(), "log", 0) {
			if ev.Type == cairn.EventCustom {
				close(started)
				continue
			}
			ended <- err
		}
	}()
	go func() {
		for _, err := range s.WatchStops(t.Context()) {
			ended <- err
		}
	}()
	if _, err := s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
		t.Fatal(err)
	}
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, cairn.ErrClosed) {
			t.Errorf("a follower ended with %v, want ErrClosed", err)
		}
	}
	if _, err := store.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("load: %v, want ErrClosed", err)
	}
	if _, err := s.Commit(t.Context(), "session", &store.Commit{}); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("commit: %v, want ErrClosed", err)
	}
	if _, err := os.Stat(s.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the write-ahead log is still there: %v", err)
	}
}
