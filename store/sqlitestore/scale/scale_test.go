// Package scale measures what calls cost on SQLite among many sessions.
package scale

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/scale"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// TestScale compares what calls cost among 10,000 sessions and among a million. In short mode it shows that they work.
func TestScale(t *testing.T) {
	dir := t.TempDir()
	few, many := testenv.Choose(400, 10_000), testenv.Choose(1200, 1_000_000)
	open := func(name string, sessions int) *sqlitestore.Store {
		s, err := sqlitestore.Open(filepath.Join(dir, name), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		began := time.Now()
		if err := scale.Fill(t.Context(), s, sessions, 64); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d sessions in %s", sessions, time.Since(began).Round(time.Second))
		return s
	}
	scale.Compare(t, open("few.db", few), open("many.db", many), few, many, testenv.Choose(3, 200), testenv.Choose(0, 1.5))
}
