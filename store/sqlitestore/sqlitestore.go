// Package sqlitestore keeps sessions and events in an SQLite file. Any number of processes on one machine may share the
// file: it is in WAL mode, readers never wait, and writers take turns.
//
// A commit is on disk when it is acknowledged, unless Options.Synchronous says otherwise. Events are not flushed one by
// one: they are on disk with the next commit, and survive the death of the process before that.
package sqlitestore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
)

// Synchronous says when a commit counts as done.
type Synchronous int

const (
	// Full acknowledges a commit when it is on disk.
	Full Synchronous = iota
	// Normal acknowledges a commit when the operating system has it: it survives the death of the process, but the last
	// ones may be lost when the machine loses power. The file stays consistent.
	Normal
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Synchronous is when a commit counts as done; the default is Full.
	Synchronous Synchronous
	// Now is the store's clock; nil means time.Now. Processes that share a file should agree on the time.
	Now func() time.Time
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means store.DefaultMaxEvent.
	MaxEvent int
	// PollInterval is how often the file is looked at for what other processes wrote, while a caller follows a log or
	// watches stop requests; 0 means 20 ms. While a log is followed and another process writes it is ten times as
	// often.
	PollInterval time.Duration
	// ReadConnections is how many reads may run concurrently; 0 means 4.
	ReadConnections int
	// BusyTimeout is how long a write waits for other processes before it fails with ErrUnavailable; 0 means 10 s.
	BusyTimeout time.Duration
	// ExecTimeout bounds the statements that the tools of one step have recorded with [Exec], together; 0 means 5 s.
	// Meanwhile no other session of the file is committed to, in any process.
	ExecTimeout time.Duration
}

// withDefaults returns a copy of o with its zero fields filled in, or what is wrong with it.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case out.Synchronous != Full && out.Synchronous != Normal:
		return out, cairn.Invalid("synchronous", "%d is neither Full nor Normal", out.Synchronous)
	case out.MaxEvent < 0:
		return out, cairn.Invalid("max_event", "%d is negative", out.MaxEvent)
	case out.PollInterval < 0:
		return out, cairn.Invalid("poll_interval", "%s is negative", out.PollInterval)
	case out.ReadConnections < 0:
		return out, cairn.Invalid("read_connections", "%d is negative", out.ReadConnections)
	case out.BusyTimeout < 0:
		return out, cairn.Invalid("busy_timeout", "%s is negative", out.BusyTimeout)
	case out.ExecTimeout < 0:
		return out, cairn.Invalid("exec_timeout", "%s is negative", out.ExecTimeout)
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	setDefault(&out.MaxEvent, store.DefaultMaxEvent)
	setDefault(&out.PollInterval, 20*time.Millisecond)
	setDefault(&out.ReadConnections, 4)
	setDefault(&out.BusyTimeout, 10*time.Second)
	setDefault(&out.ExecTimeout, 5*time.Second)
	return out, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store is a store.Store in an SQLite file, with an event log of its own. It is safe for concurrent use, and so is the
// file by several Stores in any number of processes.
type Store struct {
	path    string
	opts    Options
	writer  *writer
	readers *readers
	poller  poller
	log     *Log
	hub     tail.Hub
	stops   backend.Signal
	known   backend.Known[*record]

	closing  sync.Once
	closeErr error
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.LogProvider = (*Store)(nil)
	_ store.StopWatcher = (*Store)(nil)
	_ store.Importer    = (*Store)(nil)
	_ store.Execer      = (*Store)(nil)
	_ store.Log         = (*Log)(nil)
)

// Open opens the database file at path and brings its schema up to date. If there is none it is made, readable and
// writable for its owner alone; the permissions of a file that is there stay as they are. A file that is not ours or
// from a newer version is an ErrSchema error and nothing in it is changed. The file must be on a local disk, and so
// must the two files that SQLite keeps next to it.
func Open(path string, opts *Options) (*Store, error) {
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
	// Where a process died in the middle of a write, that has to be rolled back before the file can be read; migrate
	// looks again.
	if _, err := inspect(path, o.BusyTimeout, len(scripts)); err != nil && !readOnly(err) {
		return nil, err
	}
	w, err := openWriter(path, &o)
	if err != nil {
		return nil, err
	}
	if err := w.migrate(context.Background(), path, scripts); err != nil {
		w.close()
		return nil, err
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
	s.readers.looking = s.looking
	s.log = &Log{s: s}
	s.poller.s = s
	return s, nil
}

func absolute(path string) (string, error) {
	if path == "" {
		return "", cairn.Invalid("path", "is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", cairn.Invalid("path", "%v", err)
	}
	return path, nil
}

// creating is held while a file is made: closing one ends all locks that this process has on it.
var creating sync.Mutex

// create makes the file for its owner alone, if there is none, and so the files that SQLite keeps next to it: they have
// conversations and secrets. SQLite reports an error when it opens the file.
func create(path string) {
	creating.Lock()
	defer creating.Unlock()
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		f.Close()
	}
}

// openWriter opens the write connection.
func openWriter(path string, o *Options) (*writer, error) {
	create(path)
	c, err := connect(dataSource(path, "rwc"), busyPragma(o.BusyTimeout), "PRAGMA journal_size_limit = 67108864", sqlNormal)
	if err != nil {
		return nil, fault("open "+path, err)
	}
	if o.Now != nil {
		c.clock = o.Now
	}
	return &writer{conn: c, durable: o.Synchronous == Full, busyTimeout: o.BusyTimeout,
		looking: func(_ context.Context, do func() error) error { return do() }}, nil
}

// dataSource returns the URI of a file; mode is ro, rw or rwc.
func dataSource(path, mode string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	if u.Path[0] != '/' {
		u.Path = "/" + u.Path // a drive letter
	}
	u.RawQuery = url.Values{"mode": {mode}, "_error_rc": {"1"}}.Encode()
	return u.String()
}

func busyPragma(d time.Duration) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds())
}

// EventLog returns the store's event log.
func (s *Store) EventLog() store.Log { return s.log }

// Close waits for the calls under way, ends followers with ErrClosed, and moves what is in the write-ahead log to the
// file. Later calls fail with ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.poller.close()
		readErr := s.readers.close()
		s.hub.WakeAll()
		s.stops.Raise()
		// SQLite moves the log to the file when the last connection to it closes, which is this one unless another
		// process has the file.
		s.closeErr = fault("close "+s.path, s.writer.close())
		if s.closeErr == nil {
			s.closeErr = fault("close "+s.path, readErr)
		}
	})
	return s.closeErr
}

// clock returns the time as it is stored: in UTC, with microseconds.
func (s *Store) clock() time.Time { return stored(s.opts.Now()) }
