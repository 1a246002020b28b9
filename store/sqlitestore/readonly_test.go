package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// protect takes the write permissions from a database's files, and from their directory if dir is set.
func protect(t *testing.T, path string, dir bool) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o444); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil { // t.TempDir makes it for its owner only
		t.Fatal(err)
	}
	if dir {
		t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o755) })
		if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the names of a directory's files.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	for name := range contents(t, dir) {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// files returns the path of a database with one session, a message and an event, from a store that has them.
		files func(t *testing.T, s *Store) string
	}{
		{"closed", func(t *testing.T, s *Store) string {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return s.path
		}},
		{"of a dead process", func(t *testing.T, s *Store) string { return copyFiles(t, s.path, "", "-wal", "-shm") }},
		{"copied with its log", func(t *testing.T, s *Store) string { return copyFiles(t, s.path, "", "-wal") }},
		{"in use by another process", func(t *testing.T, s *Store) string { return s.path }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openNew(t)
			must(s.Commit(t.Context(), "session", &driver.Commit{Create: &cairn.Session{Agent: "support"}, Messages: large(10)}))
			must(s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom}))
			path := c.files(t, s)
			protect(t, path, true)
			before := names(t, filepath.Dir(path))
			testenv.AsReader(t, func() {
				var e *ReadOnlyError
				if _, err := Open(path, nil); !errors.As(err, &e) || !errors.Is(err, cairn.ErrUnavailable) || e.Path != path || e.Asked {
					t.Errorf("open to write: %v, want an error that says that %s is read-only", err, path)
				}
				wantMigrations(t, path, 1, 1)
				reader := must(Open(path, &Options{ReadOnly: true}))
				defer reader.Close()
				wantReadable(t, reader)
				wantUnwritable(t, reader)
			})
			if after := names(t, filepath.Dir(path)); !slices.Equal(before, after) {
				t.Errorf("the directory has %q, before it had %q", after, before)
			}
		})
	}
}

// wantReadable checks that a store shows the session of TestReadOnlyFile.
func wantReadable(t *testing.T, s *Store) {
	t.Helper()
	if page, err := s.List(t.Context(), driver.SessionQuery{}); err != nil || len(page.Items) != 1 {
		t.Errorf("list: %d sessions, %v", len(page.Items), err)
	}
	if messages, err := driver.AllMessages(t.Context(), s, "session"); err != nil || len(messages) != 2 {
		t.Errorf("%d messages, %v", len(messages), err)
	}
	if events, err := s.EventLog().Read(t.Context(), "log", 0, 10); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	for _, err := range store.Export(t.Context(), s, "session") {
		if err != nil {
			t.Errorf("export: %v", err)
		}
	}
}

// wantUnwritable checks that writes, and verbs of an engine that write, say that the file is only read.
func wantUnwritable(t *testing.T, s *Store) {
	t.Helper()
	eng := must(engine.New(s, []*cairn.Agent{echo()}, nil))
	defer eng.Close(t.Context())
	for name, write := range map[string]func() error{
		"commit": func() error { _, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1}); return err },
		"append": func() error {
			_, err := s.EventLog().Append(t.Context(), "log", 1, cairn.Event{Type: cairn.EventCustom})
			return err
		},
		"remove": func() error { _, err := s.Remove(t.Context(), "session", driver.Deleted); return err },
		"scrub":  func() error { return s.Scrub(t.Context()) },
		"renew":  func() error { _, err := s.Renew(t.Context(), "session", 1, time.Minute); return err },
		"stage": func() error {
			return s.Stage(t.Context(), "session", 1, driver.Staged{StepID: "run/1", Key: "k", Data: []byte("{}")})
		},
		"restore": func() error { _, err := s.Restore(t.Context(), "session"); return err },
		"trim":    func() error { return s.EventLog().Trim(t.Context(), "log", 1) },
		"put a record": func() error {
			_, err := s.Records().Put(t.Context(), driver.RecordWrite{Namespace: "n", Key: "k", Value: []byte("{}")})
			return err
		},
		"delete a record": func() error { return s.Records().Delete(t.Context(), "n", "k", 1) },
		"write memories": func() error {
			_, err := s.Memories().Write(t.Context(), driver.MemoryWrite{Scope: driver.UserMemories("ada"), Puts: []driver.MemoryEntry{{Key: "k"}}})
			return err
		},
		"drop memories": func() error { _, err := s.Memories().Drop(t.Context(), driver.UserMemories("ada")); return err },
		"put blobs": func() error {
			_, err := s.Blobs().Put(t.Context(), driver.BlobOwner{Root: "session"}, []byte("a"))
			return err
		},
		"drop blobs": func() error {
			return s.Blobs().Drop(t.Context(), driver.BlobOwner{Root: "session"}, driver.BlobKey(nil))
		},
		"sweep blobs": func() error { _, err := s.Blobs().Sweep(t.Context(), 0); return err },
		"Execute": func() error {
			_, err := eng.Execute(t.Context(), "session", "support", cairn.Text("hello"))
			return err
		},
		"Delete": func() error { return eng.Delete(t.Context(), "session") },
	} {
		var e *ReadOnlyError
		if err := write(); !errors.As(err, &e) || !e.Asked || !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "is open read-only") {
			t.Errorf("%s: %v, want an error that says that the file is only read", name, err)
		}
	}
	if row, err := eng.Session(t.Context(), "session"); err != nil || row.ID != "session" {
		t.Errorf("the engine's session: %+v, %v", row, err)
	}
}

// A file that was opened without locks, since no other process had it open, shows what processes write to it later.
func TestReadOnlyFileThatIsWrittenLater(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "first", Agent: "support"}, nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader := openAt(t, s.path, &Options{ReadOnly: true})
	for i, id := range []string{"second", "third"} {
		wantSessions(t, reader, i+1)
		writer := must(Open(s.path, nil))
		must(driver.Create(t.Context(), writer, &cairn.Session{ID: id, Agent: "support"}, nil))
		wantSessions(t, reader, i+2)
		if i == 1 {
			defer writer.Close()
		} else if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantSessions(t *testing.T, s *Store, n int) {
	t.Helper()
	if page, err := s.List(t.Context(), driver.SessionQuery{}); err != nil || len(page.Items) != n {
		t.Errorf("%d sessions, %v, want %d", len(page.Items), err, n)
	}
}

func TestReadOnlyRefusesMissingAndOlderFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "cairn.db")
	if _, err := Open(missing, &Options{ReadOnly: true}); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("missing file: %v, want ErrNotFound", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	empty := makeFile(t, "CREATE TABLE t (id)", "DROP TABLE t")
	if _, err := Open(empty, &Options{ReadOnly: true}); !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), "not migrated") {
		t.Errorf("file without the schema: %v, want ErrSchema", err)
	}
}
