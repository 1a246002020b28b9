package sqlitestore

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/released"
	"github.com/cairn-agents/cairn/store/driver"
)

// Files that releases have written are used by this build.
func TestReleased(t *testing.T) {
	released.Run(t, released.Store{
		Name:   "sqlitestore",
		File:   "cairn.db.gz",
		Schema: must(migrations()).Status(nil),
		Open:   func(tb testing.TB) driver.Store { return openNew(tb) },
		Save: func(tb testing.TB, st driver.Store) []byte {
			s := st.(*Store)
			for _, table := range s.tables(tb) {
				if s.count(tb, table) == 0 {
					tb.Errorf("the fixture has no row of table %s", table)
				}
			}
			if err := s.Close(); err != nil { // the file then has all of the write-ahead log
				tb.Fatal(err)
			}
			data := must(os.ReadFile(s.path))
			var packed bytes.Buffer
			w := must(gzip.NewWriterLevel(&packed, gzip.BestCompression))
			must(w.Write(data))
			if err := w.Close(); err != nil {
				tb.Fatal(err)
			}
			return packed.Bytes()
		},
		Restore: func(tb testing.TB, data []byte, _ []driver.Migration) driver.Store {
			path := filepath.Join(tb.TempDir(), "cairn.db")
			file := must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(data)))))
			if err := os.WriteFile(path, file, 0o600); err != nil {
				tb.Fatal(err)
			}
			later := func() time.Time { return time.Now().AddDate(30, 0, 0) } // fixtures are read for years
			return openAt(tb, path, &Options{Synchronous: Normal, Now: later})
		},
	})
}

// tables returns the names of the tables of a file.
func (s *Store) tables(tb testing.TB) (names []string) {
	tb.Helper()
	err := s.readers.read(tb.Context(), func(c *conn) error {
		const text = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
		return c.query(tb.Context(), text, func(cols *columns) bool {
			names = append(names, cols.text())
			return true
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// count returns the number of rows of a table.
func (s *Store) count(tb testing.TB, table string) (n int) {
	tb.Helper()
	err := s.readers.read(tb.Context(), func(c *conn) error {
		_, err := c.row("SELECT count(*) FROM "+table, func(cols *columns) { n = cols.int() })
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
