// Package sqlitestore keeps sessions and events in an SQLite file. Any number of processes on one machine may share the
// file. It is in WAL mode: readers never wait, and only one writer writes at a time.
//
// A commit is on disk when it is acknowledged, unless Options.Synchronous says otherwise. Events are not flushed one by
// one: they reach the disk with the next commit. Until then they survive the death of the process.
package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const _ = driver.Version1 // the contract that this store was written for

// Store is a driver.Store in an SQLite file, with an event log of its own. It is safe for concurrent use, and any
// number of Stores and processes may share the file.
type Store struct {
	path    string
	opts    Options
	writer  *writer
	readers *readers
	poller  poller
	log     *Log
	hub     tail.Hub
	stops   backend.Signal
	known   backend.Known[*storedRow]

	closing  sync.Once
	closeErr error
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.LogProvider = (*Store)(nil)
	_ driver.StopWatcher = (*Store)(nil)
	_ driver.Scrubber    = (*Store)(nil)
	_ driver.Importer    = (*Store)(nil)
	_ driver.Gatherer    = (*Store)(nil)
	_ driver.Execer      = (*Store)(nil)
	_ driver.Log         = (*Log)(nil)
)

// Open opens the database file at path and brings its schema up to date. It creates a missing file, readable and
// writable for its owner only; the permissions of an existing file do not change. It fails with ErrSchema and changes
// nothing if the file belongs to another application, or has a schema made by an unreleased build. The same applies to
// a newer version that does not allow this build, see [driver.Migration]. The file must be on a local disk, and so must
// the two files that SQLite keeps next to it. For a file that cannot be written, the error is ErrUnavailable and wraps
// a [ReadOnlyError]; see Options.ReadOnly.
func Open(path string, opts *Options) (*Store, error) {
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
	// If a process died in the middle of a write, the write must be rolled back before the file can be read. migrate
	// checks the file again after that.
	if _, err := inspect(path, o.BusyTimeout, schema); err != nil && !readOnly(err) {
		return nil, err
	}
	if o.ReadOnly {
		s, err := openReadOnly(path, o)
		if err != nil {
			return nil, err
		}
		return s.assembled(), nil
	}
	w, err := openWriter(path, &o)
	if err != nil {
		return nil, notWritable(path, err)
	}
	if err := w.migrate(context.Background(), path, schema); err != nil {
		w.close()
		return nil, notWritable(path, err)
	}
	s := &Store{path: path, opts: o, writer: w}
	w.looking = s.looking
	s.readers = newReaders(o.ReadConnections, func() (*conn, error) {
		c, err := connect(dataSource(path, "rw"), busyPragma(o.BusyTimeout), "PRAGMA query_only = 1")
		if err == nil {
			c.clock = o.Now
		}
		return c, err
	})
	s.readers.watch, s.readers.looking = w.watch, s.looking
	return s.assembled(), nil
}

// openReadOnly opens a store that reads an existing file and changes nothing, neither in the file nor next to it.
func openReadOnly(path string, o Options) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, cairn.Errorf(cairn.ErrNotFound, "database %s not found", path)
	}
	schema, err := migrations()
	if err != nil {
		return nil, err
	}
	c, watch, err := openWatched(path, func() (*conn, error) { return connectToRead(path, o.BusyTimeout) })
	if err != nil {
		return nil, fault("open "+path, err)
	}
	id, err := identify(c)
	c.close()
	if err != nil {
		return nil, fault("open "+path, err)
	}
	pending, err := id.pending(path, schema)
	switch {
	case err != nil:
		return nil, err
	case len(pending) > 0:
		return nil, cairn.Errorf(cairn.ErrSchema, "%s has schema version %d, this program needs %d: a read-only file is not migrated; open it once for writing",
			path, len(id.applied), len(schema))
	}
	direct := func(_ context.Context, do func() error) error { return do() }
	s := &Store{path: path, opts: o, writer: &writer{watch: watch, looking: direct, refusal: errReadOnly(path, true)}}
	s.readers = newReaders(o.ReadConnections, func() (*conn, error) {
		c, err := connectToRead(path, o.BusyTimeout, "PRAGMA query_only = 1")
		if err == nil {
			// To remove what has expired would be a write, so it stays visible.
			c.clock = func() time.Time { return time.Time{} }
		}
		return c, err
	})
	s.readers.watch, s.readers.looking = watch, direct
	return s, nil
}

// assembled adds the parts that refer to the store.
func (s *Store) assembled() *Store {
	s.log = &Log{s: s}
	s.poller.s = s
	return s
}

// EventLog returns the store's event log.
func (s *Store) EventLog() driver.Log { return s.log }

// Self implements driver.Store.
func (s *Store) Self() driver.Store { return s }

// Close waits for the calls under way, ends followers with ErrClosed, and moves the contents of the write-ahead log to
// the file. Later calls fail with ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.poller.close()
		readErr := s.readers.close()
		s.hub.WakeAll()
		s.stops.Raise()
		// SQLite moves the log to the file when its last connection closes: this one, unless another process has the
		// file open.
		s.closeErr = fault("close "+s.path, s.writer.close())
		if s.closeErr == nil {
			s.closeErr = fault("close "+s.path, readErr)
		}
	})
	return s.closeErr
}

// clock returns the time as it is stored: in UTC, with microseconds.
func (s *Store) clock() time.Time { return stored(s.opts.Now()) }

// SchemaVersion returns the number of the last migration that was applied to the database.
func (s *Store) SchemaVersion(ctx context.Context) (version int, err error) {
	err = s.readers.read(ctx, func(c *conn) error {
		_, err := c.row(sqlSchemaVersion, func(cols *columns) { version = cols.int() })
		return err
	})
	return version, err
}
