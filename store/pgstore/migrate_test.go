package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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

// migrateAs brings a schema to that of another build.
func migrateAs(t testing.TB, name string, schema backend.Schema) error {
	t.Helper()
	s := &Store{database: database{opts: Options{Schema: name}, pool: must(pgxpool.New(t.Context(), testenv.FastPostgres(t)))}}
	defer s.pool.Close()
	s.texts.schema = pgx.Identifier{name}.Sanitize()
	return s.once(t.Context(), once, func(ctx context.Context, c *conn) error { return c.migrate(ctx, schema) })
}

// A build uses the schema of a newer build if that allows it, as during a rolling deployment.
func TestOpenNewerSchema(t *testing.T) {
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
			opts := &Options{Schema: newSchema(), NoMigrate: true}
			if err := migrateAs(t, opts.Schema, extended(known, c.least, "CREATE TABLE {schema}.more (n int)")); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), testenv.FastPostgres(t), opts)
			if c.says != "" {
				if !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("open: %v, want a schema error that says %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
				t.Error(err)
			}
			list, err := Migrations(t.Context(), testenv.FastPostgres(t), opts)
			if last := list[len(list)-1]; err != nil || len(list) != len(known)+1 || !last.Applied || last.Name != "later" || last.MinBuild != c.least {
				t.Errorf("migrations %+v, %v", list, err)
			}
		})
	}
}

// A schema of which a migration was changed under its number since is refused, and one from before fingerprints, too.
func TestOpenRefusesChangedMigration(t *testing.T) {
	t.Parallel()
	changed := slices.Clone(must(migrations()))
	changed[1].Text += ";CREATE TABLE {schema}.dropped_since (n int)"
	changed[1].Fingerprint = backend.Fingerprint(changed[1].Text)
	for name, c := range map[string]struct {
		schema backend.Schema
		after  string
		says   string
	}{
		"changed":           {changed, "SELECT 1", "its migration 2 has fingerprint " + changed[1].Fingerprint},
		"older and changed": {changed[:2], "SELECT 1", "its migration 2 has fingerprint " + changed[1].Fingerprint},
		"no fingerprint": {must(migrations()), "ALTER TABLE %s.cairn_migrations DROP COLUMN fingerprint, DROP COLUMN min_build, DROP COLUMN name",
			"its migration 1 has no fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := &Options{Schema: newSchema()}
			if err := migrateAs(t, opts.Schema, c.schema); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.after, "%s") {
				c.after = fmt.Sprintf(c.after, opts.Schema)
			}
			if err := execAt(t, testenv.FastPostgres(t), c.after); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), testenv.FastPostgres(t), opts)
			if !errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "export it with that build and import it here") {
				t.Errorf("open: %v, want a schema error that says %q and what to do", err, c.says)
			}
			if _, err := Migrations(t.Context(), testenv.FastPostgres(t), opts); !errors.Is(err, cairn.ErrSchema) {
				t.Errorf("migrations: %v, want a schema error", err)
			}
		})
	}
}

// A migration whose process dies in the middle leaves nothing, and the processes after it apply it once.
func TestMigrateAfterDeathInMigration(t *testing.T) {
	t.Parallel()
	name, known := newSchema(), must(migrations())
	if err := migrateAs(t, name, known); err != nil {
		t.Fatal(err)
	}
	die := "CREATE TABLE {schema}.more (n int); SELECT pg_terminate_backend(pg_backend_pid())"
	if err := migrateAs(t, name, extended(known, 0, die)); err == nil {
		t.Fatal("the migration whose connection died succeeded")
	}
	wantMigrations(t, &Options{Schema: name}, len(known), len(known))
	later := extended(known, 0, "CREATE TABLE {schema}.more (n int)", "INSERT INTO {schema}.more VALUES (1)")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := migrateAs(t, name, later); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var rows int
	if oneValue(t, testenv.FastPostgres(t), "SELECT count(*) FROM "+name+".more", &rows); rows != 1 {
		t.Errorf("%d rows: want the script to run once", rows)
	}
}
