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
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
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
	sqlUseWAL        = `PRAGMA journal_mode = WAL`
)

// migrations returns the scripts in order; the first one makes version 1.
func migrations() ([]string, error) { return backend.Scripts(migrationFiles, "migrations") }

// identity is what a database file says about itself: its application, schema version and number of objects.
type identity struct {
	application, version, objects int64
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
	return id, nil
}

// check returns the error for a file that cannot be used. An empty database can be used.
func (id identity) check(path string, newest int) error {
	switch {
	case id.objects == 0 && id.application == 0 && id.version == 0:
		return nil
	case id.application != applicationID:
		return cairn.Errorf(cairn.CodeSchema, "%s is an SQLite database of another application", path)
	case id.version > int64(newest):
		return cairn.Errorf(cairn.CodeSchema, "%s has schema version %d, this program knows up to %d: use a newer program",
			path, id.version, newest)
	}
	return nil
}

// inspect checks a file without changing it. A missing file counts as an empty database.
func inspect(path string, busyTimeout time.Duration, newest int) (id identity, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, nil
	case err != nil:
		return id, cairn.Errorf(cairn.CodeUnavailable, "open database: %w", err)
	case info.IsDir():
		return id, cairn.Errorf(cairn.CodeSchema, "%s is a directory, not a database file", path)
	case info.Size() == 0:
		return id, nil
	case info.Size() < minFile: // SQLite would take it for an empty database
		return id, cairn.Errorf(cairn.CodeSchema, "open %s: not an SQLite database", path)
	}
	c, err := connect(dataSource(path, "ro"), busyPragma(busyTimeout))
	if err != nil {
		return id, fault("open "+path, err)
	}
	defer c.close()
	if id, err = identify(c); err != nil {
		return id, fault("open "+path, err)
	}
	return id, id.check(path, newest)
}

// Migrations reports which migrations are applied to the database file at path, and changes nothing. A missing file has
// none. For a file of another application or of a newer version, the error is that of Open.
func Migrations(path string, opts *Options) ([]store.Migration, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if path, err = absolute(path); err != nil {
		return nil, err
	}
	scripts, err := migrations()
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeInternal, "%w", err)
	}
	id, err := inspect(path, o.BusyTimeout, len(scripts))
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return store.Migrations(dir, int(id.version))
}

// migrate brings the database up to date. Any number of processes may do so concurrently: each checks again when it
// holds the write lock.
func (w *writer) migrate(ctx context.Context, path string, scripts []string) error {
	err := w.write(ctx, true, func(c *conn) error {
		id, err := identify(c)
		if err != nil {
			return fault("open "+path, err)
		}
		if err := id.check(path, len(scripts)); err != nil {
			return err
		}
		for i := int(id.version); i < len(scripts); i++ {
			stamp := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, i+1)
			if err := c.run(scripts[i] + stamp); err != nil {
				return fault(fmt.Sprintf("migrate %s to schema version %d", path, i+1), err)
			}
			c.wrote = true
		}
		return nil
	})
	if err != nil {
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
			return cairn.Errorf(cairn.CodeUnavailable, "%s cannot use write-ahead logging; its journal mode stays %q", path, mode)
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
