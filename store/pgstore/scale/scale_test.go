// Package scale measures what calls cost on PostgreSQL among many sessions.
package scale

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/scale"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestScale compares what calls cost among 10,000 sessions and among a million. In short mode it shows that they work.
func TestScale(t *testing.T) {
	url := testenv.LargePostgres(t)
	few, many := testenv.Choose(400, 10_000), testenv.Choose(1200, 1_000_000)
	open := func(schema string, sessions int) *pgstore.Store {
		s, err := pgstore.Open(t.Context(), url, &pgstore.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		began := time.Now()
		if err := scale.Fill(t.Context(), s, sessions, 64); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("%d sessions in %s, %d bytes each", sessions, took.Round(time.Second), stored(t, url, schema)/int64(sessions))
		return s
	}
	scale.Compare(t, open("few", few), open("many", many), few, many, testenv.Choose(3, 200), testenv.Choose(0, 1.5))
}

// stored does what the server does by itself in time, and returns the bytes of a schema's tables and indexes.
func stored(t *testing.T, url, schema string) (bytes int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	err = c.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
		WHERE relkind = 'r' AND relnamespace = $1::regnamespace`, schema).Scan(&bytes)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
