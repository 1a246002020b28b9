package pgstore

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/scale"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/jackc/pgx/v5"
)

// stored returns the bytes of each table with its indexes after a VACUUM. The one head and the one log have as many
// dead versions as there were commits and appends since the last, so their tables are written anew.
func stored(t *testing.T, url string, s *Store) map[string]int64 {
	t.Helper()
	if err := execAt(t, url, "SET search_path TO "+s.opts.Schema, "VACUUM", "VACUUM FULL heads, logs"); err != nil {
		t.Fatal(err)
	}
	rows, err := s.pool.Query(t.Context(), `SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = $1::regnamespace`, s.opts.Schema)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	var name string
	var size int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error { out[name] = size; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStorageOfAConversation makes turns of one session, each of two steps with a tool between them, and compares the
// space they take with the size of their text. It has a database of its own, since rows that transactions of other
// tests can still see would count as well.
func TestStorageOfAConversation(t *testing.T) {
	t.Parallel()
	server := testenv.FastPostgres(t)
	if err := execAt(t, server, "CREATE DATABASE conversation"); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server, "/postgres?", "/conversation?", 1)
	s := openAt(t, url, &Options{Schema: newSchema()})
	const turns = 2500
	talk := scale.NewConversation(t, s)
	talk.Turn()
	before, begun := stored(t, url, s), talk.Bytes
	for i := range turns {
		if talk.Turn(); i%100 == 0 { // as the server does by itself when there is more
			if err := execAt(t, url, "VACUUM "+s.opts.Schema+".runs"); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := stored(t, url, s)
	said := float64(talk.Bytes - begun)
	var session, all float64
	for name, size := range after {
		grown := float64(size-before[name]) / said
		if all += grown; name != "events" && name != "logs" {
			session += grown
		}
		if grown > 0.01 {
			t.Logf("%.2f bytes of %s per byte of conversation", grown, name)
		}
	}
	t.Logf("%.2f bytes per byte of conversation, and %.2f with the event log", session, all)
	// A machine that is busy with other tests appends more often, fewer events at once: the layout does not cause that.
	var batches float64
	if err := s.pool.QueryRow(t.Context(), s.texts.of("SELECT count(*) FROM {schema}.events")).Scan(&batches); err != nil {
		t.Fatal(err)
	}
	all -= max(0, batches-5.1*turns) * 150 / said
	if session > 2.65 || all > 4.2 {
		t.Errorf("%.2f bytes are stored per byte of conversation, at most 2.65 are allowed, and with the event log %.2f, at most 4.2",
			session, all)
	}
}

// BenchmarkColdResume takes up sessions in new handles: see [scale.BenchResume].
func BenchmarkColdResume(b *testing.B) {
	url, opts := testenv.Postgres(b), &Options{Schema: newSchema()}
	scale.BenchResume(b, func(tb testing.TB) scale.Handle {
		s, err := Open(context.Background(), url, opts)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

// BenchmarkCopy copies sessions from memory: see [scale.BenchCopy].
func BenchmarkCopy(b *testing.B) {
	scale.BenchCopy(b, memstore.New(nil), func(tb testing.TB) driver.Importer { return openNew(tb) })
}

// BenchmarkCopyFrom copies sessions to memory: see [scale.BenchCopyFrom].
func BenchmarkCopyFrom(b *testing.B) { scale.BenchCopyFrom(b, openNew(b)) }
