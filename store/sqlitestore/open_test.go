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
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
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
		{"another fingerprint", makeFile(t, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 1000",
			sqlCreateMigrations, "INSERT INTO cairn_migrations VALUES (1, 'x', 'abc', 1, 0)",
			"CREATE TABLE later (id)"), "made by an unreleased build (its migration 1 has fingerprint abc"},
		{"no fingerprint", makeFile(t, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 1",
			"CREATE TABLE sessions (id)"), "made by an unreleased build (its migration 1 has no fingerprint"},
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

// A process that died while it created the database leaves a journal that rolls its write back.
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
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Error(err)
	}
	err = s.readers.read(t.Context(), func(c *conn) error { return c.run("SELECT * FROM half") })
	if err == nil {
		t.Error("the half-made table is there")
	}
}

// copyFiles copies a database file and those next to it while they are in use, as a crash would leave them.
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
		{"empty path", "", nil, cairn.ErrInvalid, "path"},
		{"a directory", dir, nil, cairn.ErrSchema, "directory"},
		{"a missing directory", filepath.Join(dir, "missing", "cairn.db"), nil, cairn.ErrUnavailable, "missing"},
		{"synchronous", good, &Options{Synchronous: 9}, cairn.ErrInvalid, "synchronous"},
		{"max event", good, &Options{MaxEvent: -1}, cairn.ErrInvalid, "max_event"},
		{"poll interval", good, &Options{PollInterval: -1}, cairn.ErrInvalid, "poll_interval"},
		{"read connections", good, &Options{ReadConnections: -1}, cairn.ErrInvalid, "read_connections"},
		{"busy timeout", good, &Options{BusyTimeout: -1}, cairn.ErrInvalid, "busy_timeout"},
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

// TestFilesAreTheOwners checks the permissions of all files of a store: each has conversations in it.
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
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "s", Agent: "a"}, nil); err != nil {
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

// extended returns the migrations of a later build, each of which needs a build that knows version least, or itself if
// least is 0.
func extended(schema backend.Schema, least int, texts ...string) backend.Schema {
	schema = slices.Clone(schema)
	for _, text := range texts {
		m := backend.Migration{Text: text}
		m.Version, m.Name, m.Fingerprint, m.MinBuild = len(schema)+1, "later", backend.Fingerprint(text), least
		if least == 0 {
			m.MinBuild = m.Version
		}
		schema = append(schema, m)
	}
	return schema
}

// Opening a file with data applies the migrations that it lacks. A program that does not know the last of them refuses
// the file afterwards.
func TestMigrateAppliesWhatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	scripts := must(migrations())
	s := openAt(t, path, nil)
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantMigrations(t, path, len(scripts), len(scripts))

	w, err := openWriter(path, &Options{BusyTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	later := extended(scripts, 0, "CREATE TABLE more AS SELECT id FROM sessions;", "INSERT INTO more VALUES ('another');")
	for range 2 { // the second time nothing is missing
		if err := w.migrate(t.Context(), path, later); err != nil {
			t.Fatal(err)
		}
	}
	var rows, version int
	count := func(cols *columns) { rows = cols.int() }
	if _, err := w.conn.row(`SELECT count(*) FROM more`, count); err != nil || rows != 2 {
		t.Errorf("%d rows, %v: want the session and the one of the last script", rows, err)
	}
	broken := extended(later, 0, "INSERT INTO more VALUES ('half')", "INSERT INTO nothing VALUES (1);")
	if err := w.migrate(t.Context(), path, broken); err == nil {
		t.Error("a script that fails was applied")
	}
	must(w.conn.row(`SELECT count(*) FROM more`, count))
	must(w.conn.row(sqlSchemaVersion, func(cols *columns) { version = cols.int() }))
	if rows != 2 || version != len(later) {
		t.Errorf("after a migration that failed: %d rows, version %d, want 2 and %d", rows, version, len(later))
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, nil); !errors.Is(err, cairn.ErrSchema) {
		s.Close()
		t.Errorf("a program of before opens it: %v", err)
	}
}

func TestMigrationsOfNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	wantMigrations(t, path, 0, len(must(migrations())))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking at it made the file: %v", err)
	}
}

// wantMigrations checks that the first migrations of all are reported as applied to a file.
func wantMigrations(t *testing.T, path string, applied, all int) {
	t.Helper()
	list, err := Migrations(path, nil)
	if err != nil || len(list) != all {
		t.Fatalf("%d migrations, %v: want %d", len(list), err, all)
	}
	for i, m := range list {
		if m.Version != i+1 || m.Name == "" || m.Fingerprint == "" || m.MinBuild == 0 || m.AppliedAt.IsZero() == m.Applied || m.Applied != (i < applied) {
			t.Errorf("with %d applied: %+v", applied, m)
		}
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
			if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support"}, nil); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	all.Wait()
	s := openAt(t, path, nil)
	page, err := s.List(t.Context(), driver.SessionQuery{})
	if err != nil || len(page.Items) != 8 {
		t.Errorf("%d sessions, %v: want 8", len(page.Items), err)
	}
}

func TestClose(t *testing.T) {
	s := openNew(t)
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
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
	if _, err := driver.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("load: %v, want ErrClosed", err)
	}
	if _, err := s.Commit(t.Context(), "session", &driver.Commit{}); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("commit: %v, want ErrClosed", err)
	}
	if _, err := os.Stat(s.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the write-ahead log is still there: %v", err)
	}
}
