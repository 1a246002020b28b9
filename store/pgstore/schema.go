package pgstore

import (
	"context"
	"embed"
	"hash/fnv"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
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
				WHERE n.nspname = $1 AND c.relname = 'sessions')`

	sqlVersion = `SELECT coalesce(max(version), 0) FROM {schema}.cairn_migrations`

	// sqlLockMigrations locks until the transaction ends, so that it also works through a proxy.
	sqlLockMigrations = `SELECT pg_advisory_xact_lock($1)::text`

	sqlCreateSchema = `CREATE SCHEMA {schema}`

	sqlCreateMigrations = `
		CREATE TABLE {schema}.cairn_migrations (
			version    integer     PRIMARY KEY,
			applied_at timestamptz NOT NULL DEFAULT now()
		)`

	sqlInsertMigration = `INSERT INTO {schema}.cairn_migrations (version) VALUES ($1)`
)

// oldestServer is the oldest version of PostgreSQL that is known to work.
const oldestServer = 130000

// migrations returns the scripts in order; the first one makes version 1 of the schema.
func migrations() ([]string, error) { return backend.Scripts(migrationFiles, "migrations") }

// surroundings is what a database reports about itself and the schema.
type surroundings struct {
	server                          int
	encoding                        string
	readOnly, schema, ours, foreign bool
	version                         int
}

func (c *conn) inspect(ctx context.Context) (at surroundings, err error) {
	_, err = c.row(ctx, sqlInspect, []any{&at.server, &at.encoding, &at.readOnly, &at.schema, &at.ours, &at.foreign}, c.db.opts.Schema)
	if err == nil && at.ours {
		_, err = c.row(ctx, sqlVersion, []any{&at.version})
	}
	return at, err
}

// check reports why the database cannot be used.
func (at *surroundings) check(schema string, newest int) error {
	switch {
	case at.server < oldestServer:
		return cairn.Errorf(cairn.CodeSchema, "the server is PostgreSQL %d, at least %d is needed", at.server/10000, oldestServer/10000)
	case at.encoding != "UTF8":
		return cairn.Errorf(cairn.CodeSchema, "the database keeps texts in %s, it must be UTF8", at.encoding)
	case at.readOnly:
		return cairn.Errorf(cairn.CodeUnavailable, "the server only reads; a replica cannot hold the store")
	case !at.ours && at.foreign:
		return cairn.Errorf(cairn.CodeSchema, "schema %q has the tables of another application", schema)
	case at.version > newest:
		return cairn.Errorf(cairn.CodeSchema, "schema %q has version %d, this program knows up to %d: use a newer program",
			schema, at.version, newest)
	}
	return nil
}

// prepareSchema checks that the schema is up to date, and migrates it if that is allowed.
func (d *database) prepareSchema(ctx context.Context) error {
	scripts, err := migrations()
	if err != nil {
		return cairn.Errorf(cairn.CodeInternal, "%w", err)
	}
	c := &conn{db: d, q: d.pool}
	at, err := c.inspect(ctx)
	if err != nil {
		return fault("open", err)
	}
	if err := at.check(d.opts.Schema, len(scripts)); err != nil {
		return err
	}
	switch {
	case at.version == len(scripts):
		return nil
	case !d.opts.NoMigrate:
		return fault("migrate schema "+strconv.Quote(d.opts.Schema), c.migrate(ctx, scripts))
	case !at.ours:
		return cairn.Errorf(cairn.CodeSchema, "schema %q is not there: migrate first", d.opts.Schema)
	}
	return cairn.Errorf(cairn.CodeSchema, "schema %q has version %d, this program needs %d: migrate first", d.opts.Schema, at.version, len(scripts))
}

// migrate brings the schema up to date in one transaction, one process at a time.
func (c *conn) migrate(ctx context.Context, scripts []string) error {
	return c.transact(ctx, func(c *conn) error {
		var none string
		if _, err := c.row(ctx, sqlLockMigrations, []any{&none}, lockKey(c.db.opts.Schema)); err != nil {
			return err
		}
		at, err := c.inspect(ctx) // another process may have been faster
		if err != nil {
			return err
		}
		if err := at.check(c.db.opts.Schema, len(scripts)); err != nil {
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
		for i := at.version; i < len(scripts); i++ {
			if err := c.script(ctx, scripts[i]); err != nil {
				return err
			}
			if _, err := c.exec(ctx, sqlInsertMigration, i+1); err != nil {
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
