package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cairn-agents/cairn"
	lib "modernc.org/sqlite/lib"
)

// ReadOnlyError reports a write to a database that may only be read: its [Store] was opened with Options.ReadOnly, or the
// file, its directory or the disk does not permit writes. It is the cause of an ErrUnavailable error.
type ReadOnlyError struct {
	// Path is the path of the database.
	Path string
	// Asked reports whether Options.ReadOnly is the reason.
	Asked bool
}

// Error names the file.
func (e *ReadOnlyError) Error() string {
	if e.Asked {
		return fmt.Sprintf("%s is open for reading only: nothing can be written", e.Path)
	}
	return fmt.Sprintf("%s cannot be written: the file, its directory or the disk is read-only; it can only be opened for reading", e.Path)
}

func errReadOnly(path string, asked bool) error {
	return cairn.Errorf(cairn.CodeUnavailable, "%w", &ReadOnlyError{Path: path, Asked: asked})
}

// notWritable returns a ReadOnlyError in place of an error with which SQLite reports that it may not write a file that
// is there, or next to it.
func notWritable(path string, err error) error {
	switch resultCode(err) {
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		if info, statErr := os.Stat(path); statErr == nil && !info.IsDir() {
			return errReadOnly(path, false)
		}
	}
	return err
}

// openReadOnly opens a store that reads an existing file and changes nothing, neither in the file nor next to it.
func openReadOnly(path string, o Options) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, cairn.Errorf(cairn.CodeNotFound, "there is no database %s", path)
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
		return nil, cairn.Errorf(cairn.CodeSchema, "%s has schema version %d, this program needs %d: a file that is only read is not migrated; open it once where it can be written",
			path, len(id.applied), len(schema))
	}
	s := &Store{path: path, opts: o, writer: &writer{watch: watch, refusal: errReadOnly(path, true)}}
	s.readers = newReaders(o.ReadConnections, func() (*conn, error) {
		c, err := connectToRead(path, o.BusyTimeout, "PRAGMA query_only = 1")
		if err == nil {
			// To remove what has expired would be a write, so it stays visible.
			c.clock = func() time.Time { return time.Time{} }
		}
		return c, err
	})
	s.readers.watch = watch
	s.readers.looking = func(_ context.Context, do func() error) error { return do() }
	return s, nil
}

// connectToRead opens a connection that only reads and leaves no file behind. If another process has the database open,
// the connection takes part in its locking. Otherwise it works without locks, and is valid until a file changes.
func connectToRead(path string, busyTimeout time.Duration, setup ...string) (*conn, error) {
	seen, err := stampOf(path)
	if err != nil {
		return nil, err
	}
	dsn, unlocked := dataSource(path, "ro"), true
	switch {
	case seen.files["-journal"] != nil || seen.files["-shm"] != nil && seen.files["-wal"] != nil:
		unlocked = false
	case seen.files["-wal"] == nil || seen.files["-wal"].Size() == 0:
		dsn += "&immutable=1"
	case runtime.GOOS == "windows":
		unlocked = false
	default:
		// A process that died, or a copy, has left a log without its index. SQLite keeps the index in memory for a
		// connection that needs no locks.
		dsn += "&vfs=unix-none"
		setup = append([]string{"PRAGMA locking_mode = EXCLUSIVE"}, setup...)
	}
	c, err := connect(dsn, append([]string{busyPragma(busyTimeout)}, setup...)...)
	if err != nil {
		return nil, err
	}
	if unlocked {
		c.seen = seen
	}
	return c, nil
}

// stamp is what the files of a database look like at one moment.
type stamp struct {
	path  string // the database file, without symbolic links
	files map[string]os.FileInfo
}

func stampOf(path string) (*stamp, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeUnavailable, "open database: %w", err)
	}
	s := &stamp{path: target, files: map[string]os.FileInfo{}}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(target + suffix)
		switch {
		case err == nil && suffix == "-journal" && info.Size() == 0: // a journal that is done
		case err == nil:
			s.files[suffix] = info
		case !errors.Is(err, fs.ErrNotExist):
			return nil, cairn.Errorf(cairn.CodeUnavailable, "open database: %w", err)
		}
	}
	return s, nil
}

// changed reports whether the files look different now.
func (s *stamp) changed() bool {
	now, err := stampOf(s.path)
	if err != nil || len(now.files) != len(s.files) {
		return true
	}
	for suffix, was := range s.files {
		is := now.files[suffix]
		if is == nil || !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) || was.Size() != is.Size() {
			return true
		}
	}
	return false
}

// version returns a number that is different after most changes of the files.
func (s *stamp) version() (n int64) {
	for _, info := range s.files {
		n += info.ModTime().UnixNano() + info.Size()
	}
	return n
}
