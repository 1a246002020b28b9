package sqlitestore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// applicationID marks a database file as Cairn's: "Crn1".
const applicationID = 0x43726e31

// minFile is the size of the smallest SQLite database in bytes.
const minFile = 512

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Statements on the database as a whole.
const (
	sqlApplicationID = `PRAGMA application_id`
	sqlSchemaVersion = `PRAGMA user_version`
	sqlCountObjects  = `SELECT count(*) FROM sqlite_schema`
	sqlHasMigrations = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'cairn_migrations'`
	sqlMigrations    = `SELECT version, name, fingerprint, min_build, applied_at FROM cairn_migrations ORDER BY version`
	sqlUseWAL        = `PRAGMA journal_mode = WAL`

	// sqlCreateMigrations makes the record of what was applied. It comes before the first migration, so that any build
	// can read it.
	sqlCreateMigrations = `
		CREATE TABLE IF NOT EXISTS cairn_migrations (
			version     INTEGER PRIMARY KEY,
			name        TEXT    NOT NULL,
			fingerprint TEXT    NOT NULL, -- see backend.Fingerprint
			min_build   INTEGER NOT NULL, -- the lowest version that a build must know to use the file
			applied_at  INTEGER NOT NULL
		) STRICT`

	sqlInsertMigration = `
		INSERT INTO cairn_migrations (version, name, fingerprint, min_build, applied_at) VALUES (?1, ?2, ?3, ?4, ?5)`
)

// migrations returns the migrations that this build knows.
func migrations() (backend.Schema, error) {
	schema, err := backend.Migrations(migrationFiles, "migrations")
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	return schema, nil
}

// identity is what a database file says about itself: its application, schema version, number of objects, and the
// migrations applied to it.
type identity struct {
	application, version, objects int64
	applied                       []driver.Migration
}

func identify(c *conn) (id identity, err error) {
	for _, q := range []struct {
		text string
		into *int64
	}{{sqlApplicationID, &id.application}, {sqlSchemaVersion, &id.version}, {sqlCountObjects, &id.objects}} {
		if _, err := c.row(q.text, func(cols *columns) { *q.into = cols.int64() }); err != nil {
			return id, err
		}
	}
	if id.application != applicationID {
		return id, nil
	}
	recorded, err := c.row(sqlHasMigrations, func(*columns) {})
	if err != nil {
		return id, err
	}
	if !recorded { // a file from before migrations were recorded
		for i := range id.version {
			id.applied = append(id.applied, driver.Migration{Version: int(i) + 1})
		}
		return id, nil
	}
	return id, c.query(context.Background(), sqlMigrations, func(cols *columns) bool {
		id.applied = append(id.applied, driver.Migration{Version: cols.int(), Name: cols.text(), Fingerprint: cols.text(), MinBuild: cols.int(), AppliedAt: cols.time()})
		return true
	})
}

// pending returns the migrations that a file lacks, or the error for a file that cannot be used. An empty database lacks
// all of them.
func (id identity) pending(path string, schema backend.Schema) (backend.Schema, error) {
	switch {
	case id.objects == 0 && id.application == 0 && id.version == 0:
		return schema, nil
	case id.application != applicationID:
		return nil, cairn.Errorf(cairn.ErrSchema, "%s is an SQLite database of another application", path)
	}
	return schema.Pending(path, id.applied)
}

// inspect checks a file without changing it. A missing file counts as an empty database.
func inspect(path string, busyTimeout time.Duration, schema backend.Schema) (id identity, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, nil
	case err != nil:
		return id, cairn.Errorf(cairn.ErrUnavailable, "open database: %w", err)
	case info.IsDir():
		return id, cairn.Errorf(cairn.ErrSchema, "%s is a directory, not a database file", path)
	case info.Size() == 0:
		return id, nil
	case info.Size() < minFile: // SQLite would take it for an empty database
		return id, cairn.Errorf(cairn.ErrSchema, "open %s: not an SQLite database", path)
	}
	c, err := connectToRead(path, busyTimeout)
	if err != nil {
		return id, fault("open "+path, err)
	}
	defer c.close()
	if id, err = identify(c); err != nil {
		return id, fault("open "+path, err)
	}
	_, err = id.pending(path, schema)
	return id, err
}

// Migrations reports which migrations are applied to the database file at path, and changes nothing. A missing file has
// none. For a file that Open refuses with ErrSchema, the error is the same.
func Migrations(path string, opts *Options) ([]driver.Migration, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if path, err = absolute(path); err != nil {
		return nil, err
	}
	schema, err := migrations()
	if err != nil {
		return nil, err
	}
	id, err := inspect(path, o.BusyTimeout, schema)
	if err != nil {
		return nil, err
	}
	return schema.Status(id.applied), nil
}

// errWritable rolls back a write that only had to show that the file can be written.
var errWritable = errors.New("the file can be written")

// migrate brings the database up to date. Any number of processes may do so concurrently: each checks again when it
// holds the write lock.
func (w *writer) migrate(ctx context.Context, path string, schema backend.Schema) error {
	err := w.write(ctx, true, func(c *conn) error {
		id, err := identify(c)
		if err != nil {
			return fault("open "+path, err)
		}
		pending, err := id.pending(path, schema)
		if err != nil {
			return err
		}
		for i := range pending {
			if err := c.apply(&pending[i]); err != nil {
				return fault(fmt.Sprintf("migrate %s to schema version %d", path, pending[i].Version), err)
			}
		}
		if len(pending) > 0 {
			return nil
		}
		// SQLite begins a write transaction on a read-only file without an error. The first write has it.
		c.wrote = true
		if err := c.run(fmt.Sprintf("PRAGMA user_version = %d", id.version)); err != nil {
			return fault("open "+path, err)
		}
		return errWritable
	})
	if err != nil && !errors.Is(err, errWritable) {
		return err
	}
	if err := w.useWAL(ctx, path); err != nil {
		return err
	}
	if _, err := identify(w.conn); err != nil { // the first read makes the log
		return fault("open "+path, err)
	}
	if err := w.watch.addLog(); err != nil {
		return err
	}
	// Until the file is in WAL mode, a COMMIT has to wait for readers, and SQLite does that waiting. From now on only
	// the begin of a transaction waits, and the writer does that itself, so that its callers' contexts count.
	return fault("open "+path, w.conn.run(busyPragma(0)))
}

// apply runs and records a migration, in the transaction of c.
func (c *conn) apply(m *backend.Migration) error {
	c.wrote = true
	stamp := fmt.Sprintf("\n; PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, m.Version)
	if err := c.run(sqlCreateMigrations + ";" + m.Text + stamp); err != nil {
		return err
	}
	_, err := c.exec(sqlInsertMigration, m.Version, m.Name, m.Fingerprint, m.MinBuild, micros(c.clock()))
	return err
}

// useWAL switches the file to write-ahead logging, which the file remembers. This needs exclusive access, so it waits
// for other processes as a write does.
func (w *writer) useWAL(ctx context.Context, path string) error {
	started := time.Now()
	for {
		var mode string
		_, err := w.conn.row(sqlUseWAL, func(cols *columns) { mode = cols.text() })
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return cairn.Errorf(cairn.ErrUnavailable, "cannot enable write-ahead logging for %s: its journal mode stays %q", path, mode)
		case !busy(err) || time.Since(started) > w.busyTimeout:
			return fault("open "+path, err)
		}
		timer := time.NewTimer(maxLockWait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
