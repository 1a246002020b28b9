package pgstore

import (
	"context"
	"embed"
	"hash/fnv"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// sqlInspect reads the server's settings and which tables exist. It reads the catalogue's tables, because the
	// catalogue's functions may report a state from before the lock.
	sqlInspect = `
		SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
			current_setting('transaction_read_only')::boolean,
			EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
			EXISTS (
				SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND c.relname = 'cairn_migrations'),
			EXISTS (
				SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND c.relname = 'sessions'),
			EXISTS (
				SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND c.relname = 'cairn_migrations' AND a.attname = 'min_build')`

	sqlMigrations = `
		SELECT version, name, fingerprint, min_build, applied_at FROM {schema}.cairn_migrations ORDER BY version`

	sqlVersion = `SELECT coalesce(max(version), 0) FROM {schema}.cairn_migrations`

	// sqlLockMigrations locks until the transaction ends, so that it also works through a proxy.
	sqlLockMigrations = `SELECT pg_advisory_xact_lock($1)::text`

	sqlCreateSchema = `CREATE SCHEMA {schema}`

	sqlCreateMigrations = `
		CREATE TABLE {schema}.cairn_migrations (
			version     integer     PRIMARY KEY,
			name        text        NOT NULL,
			fingerprint text        NOT NULL, -- see backend.Fingerprint
			min_build   integer     NOT NULL, -- the lowest version that a build must know to use the schema
			applied_at  timestamptz NOT NULL DEFAULT now()
		)`

	sqlInsertMigration = `
		INSERT INTO {schema}.cairn_migrations (version, name, fingerprint, min_build) VALUES ($1, $2, $3, $4)`
)

// oldestServer is the oldest version of PostgreSQL that is known to work.
const oldestServer = 130000

// migrations returns the migrations that this build knows.
func migrations() (backend.Schema, error) {
	schema, err := backend.Migrations(migrationFiles, "migrations")
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	return schema, nil
}

// surroundings is what a database reports about itself and the schema.
type surroundings struct {
	server                                    int
	encoding                                  string
	readOnly, schema, ours, foreign, recorded bool
	applied                                   []driver.Migration
}

func (c *conn) inspect(ctx context.Context) (at surroundings, err error) {
	_, err = c.row(ctx, sqlInspect, []any{&at.server, &at.encoding, &at.readOnly, &at.schema, &at.ours, &at.foreign, &at.recorded}, c.db.opts.Schema)
	if err != nil || !at.ours {
		return at, err
	}
	if !at.recorded { // a schema from before migrations had fingerprints
		var version int
		_, err = c.row(ctx, sqlVersion, []any{&version})
		for i := range version {
			at.applied = append(at.applied, driver.Migration{Version: i + 1})
		}
		return at, err
	}
	err = c.query(ctx, sqlMigrations, func(rows pgx.Rows) error {
		var m driver.Migration
		err := rows.Scan(&m.Version, &m.Name, &m.Fingerprint, &m.MinBuild, &m.AppliedAt)
		m.AppliedAt = m.AppliedAt.UTC()
		at.applied = append(at.applied, m)
		return err
	})
	return at, err
}

// pending returns the migrations that the schema lacks, or the error for a database that cannot be used.
func (at *surroundings) pending(name string, schema backend.Schema) (backend.Schema, error) {
	if err := at.check(name); err != nil {
		return nil, err
	}
	return schema.Pending("schema "+strconv.Quote(name), at.applied)
}

// check reports why the database cannot be used, whatever the schema's version.
func (at *surroundings) check(schema string) error {
	switch {
	case at.server < oldestServer:
		return cairn.Errorf(cairn.ErrSchema, "the server is PostgreSQL %d, need at least %d", at.server/10000, oldestServer/10000)
	case at.encoding != "UTF8":
		return cairn.Errorf(cairn.ErrSchema, "the database encoding is %s, must be UTF8", at.encoding)
	case at.readOnly:
		return cairn.Errorf(cairn.ErrUnavailable, "the server is a read-only replica")
	case !at.ours && at.foreign:
		return cairn.Errorf(cairn.ErrSchema, "schema %q has the tables of another application", schema)
	}
	return nil
}

// prepareSchema checks that the schema is up to date, and migrates it if that is allowed.
func (d *database) prepareSchema(ctx context.Context) error {
	schema, err := migrations()
	if err != nil {
		return err
	}
	c := &conn{db: d, q: d.pool}
	at, err := c.inspect(ctx)
	if err != nil {
		return fault("open", err)
	}
	pending, err := at.pending(d.opts.Schema, schema)
	if err != nil {
		return err
	}
	switch {
	case len(pending) == 0:
		return nil
	case !d.opts.NoMigrate:
		return fault("migrate schema "+strconv.Quote(d.opts.Schema), c.migrate(ctx, schema))
	case !at.ours:
		return cairn.Errorf(cairn.ErrSchema, "schema %q not found: migrate first", d.opts.Schema)
	}
	return cairn.Errorf(cairn.ErrSchema, "schema %q has version %d, this program needs %d: migrate first", d.opts.Schema, len(at.applied), len(schema))
}

// migrate brings the schema up to date in one transaction, one process at a time.
func (c *conn) migrate(ctx context.Context, schema backend.Schema) error {
	return c.transact(ctx, func(c *conn) error {
		var none string
		if _, err := c.row(ctx, sqlLockMigrations, []any{&none}, lockKey(c.db.opts.Schema)); err != nil {
			return err
		}
		at, err := c.inspect(ctx) // another process may have been faster
		if err != nil {
			return err
		}
		pending, err := at.pending(c.db.opts.Schema, schema)
		if err != nil {
			return err
		}
		if !at.schema {
			if _, err := c.exec(ctx, sqlCreateSchema); err != nil {
				return err
			}
		}
		if !at.ours {
			if _, err := c.exec(ctx, sqlCreateMigrations); err != nil {
				return err
			}
		}
		for _, m := range pending {
			if err := c.script(ctx, m.Text); err != nil {
				return err
			}
			if _, err := c.exec(ctx, sqlInsertMigration, m.Version, m.Name, m.Fingerprint, m.MinBuild); err != nil {
				return err
			}
		}
		return nil
	})
}

// script runs statements that are separated by semicolons, in the transaction of c.
func (c *conn) script(ctx context.Context, text string) error {
	if err := c.check(text); err != nil {
		return err
	}
	_, err := c.q.(pgx.Tx).Conn().PgConn().Exec(ctx, c.db.texts.of(text)).ReadAll()
	return err
}

// lockKey returns the key of the advisory lock that guards a schema's migrations.
func lockKey(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("cairn migrations of " + schema))
	return int64(h.Sum64())
}
