package sqlitestore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// migrateAs brings a file to the schema of another build.
func migrateAs(t *testing.T, path string, schema backend.Schema) error {
	t.Helper()
	w, err := openWriter(path, &Options{BusyTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	return w.migrate(t.Context(), path, schema)
}

// A build uses the file of a newer build if that allows it, as during a rolling deployment.
func TestOpenNewerFile(t *testing.T) {
	t.Parallel()
	known := must(migrations())
	for _, c := range []struct {
		name  string
		least int
		says  string // of the error
	}{
		{"allowed", len(known), ""},
		{"refused", 0, "use a newer program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cairn.db")
			old := openAt(t, path, nil)
			must(driver.Create(t.Context(), old, &cairn.Session{ID: "before", Agent: "support"}, nil))
			if err := migrateAs(t, path, extended(known, c.least, "CREATE TABLE more (n);")); err != nil {
				t.Fatal(err)
			}
			if _, err := old.Commit(t.Context(), "before", &driver.Commit{Step: 1}); err != nil {
				t.Errorf("a process that has it open: %v", err)
			}
			s, err := Open(path, nil)
			if c.says != "" {
				if !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("open: %v, want a schema error that says %q", err, c.says)
				}
				_, err = Migrations(path, nil)
				if !errors.Is(err, cairn.ErrSchema) {
					t.Errorf("migrations: %v, want a schema error", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "after", Agent: "support"}, nil); err != nil {
				t.Error(err)
			}
			list, err := Migrations(path, nil)
			if last := list[len(list)-1]; err != nil || len(list) != len(known)+1 || !last.Applied || last.Name != "later" || last.MinBuild != c.least {
				t.Errorf("migrations %+v, %v", list, err)
			}
			if version, err := s.SchemaVersion(t.Context()); err != nil || version != len(known)+1 {
				t.Errorf("schema version %d, %v", version, err)
			}
		})
	}
}

// A file whose migration was changed under its number since is refused and stays as it is.
func TestOpenRefusesChangedMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	changed := must(migrations())
	changed[0].Text += "CREATE TABLE dropped_since (n);"
	changed[0].Fingerprint = backend.Fingerprint(changed[0].Text)
	if err := migrateAs(t, path, changed); err != nil {
		t.Fatal(err)
	}
	before := contents(t, filepath.Dir(path))
	_, err := Open(path, nil)
	if !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), "unreleased build") || !strings.Contains(err.Error(), "export it with that build and import it here") {
		t.Errorf("open: %v, want a schema error that says what to do", err)
	}
	after := contents(t, filepath.Dir(path))
	for name, was := range before {
		if !bytes.Equal(was, after[name]) {
			t.Errorf("%s was changed", name)
		}
	}
}

// Processes that open an old file at once migrate it once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	known := must(migrations())
	if err := migrateAs(t, path, known); err != nil {
		t.Fatal(err)
	}
	later := extended(known, 0, "CREATE TABLE more (n);", "INSERT INTO more VALUES (1);")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := migrateAs(t, path, later); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := must(connect(dataSource(path, "ro")))
	defer c.close()
	rows := 0
	must(c.row("SELECT count(*) FROM more", func(cols *columns) { rows = cols.int() }))
	if id := must(identify(c)); rows != 1 || len(id.applied) != len(later) {
		t.Errorf("%d rows, %d migrations: want each script to run once", rows, len(id.applied))
	}
}

// The file of a process that died in the middle of a migration has nothing of it, and is migrated by the next one.
func TestMigrateAfterDeathInMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	known := must(migrations())
	if err := migrateAs(t, path, known); err != nil {
		t.Fatal(err)
	}
	later := extended(known, 0, "CREATE TABLE more (n);")
	c := must(connect(dataSource(path, "rw"), "PRAGMA cache_size = 1", sqlBegin))
	defer c.close()
	if err := c.apply(&later[len(known)]); err != nil {
		t.Fatal(err)
	}
	if err := c.run("INSERT INTO more SELECT randomblob(100000) FROM json_each('[1,2,3,4,5,6,7,8]')"); err != nil {
		t.Fatal(err)
	}
	orphan := copyFiles(t, path, "", "-wal")
	if info := must(os.Stat(orphan + "-wal")); info.Size() == 0 {
		t.Fatal("nothing was written that could be left over")
	}
	wantMigrations(t, orphan, len(known), len(known))
	if err := migrateAs(t, orphan, later); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(orphan, nil); !errors.Is(err, cairn.ErrSchema) {
		s.Close()
		t.Errorf("open by the build of before: %v, want ErrSchema", err)
	}
}
