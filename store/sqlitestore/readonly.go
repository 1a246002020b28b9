package sqlitestore

import (
	"fmt"
	"os"
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
		return fmt.Sprintf("%s is open read-only", e.Path)
	}
	return fmt.Sprintf("cannot write %s: the file, its directory or the disk is read-only; open it read-only", e.Path)
}

func errReadOnly(path string, asked bool) error {
	return cairn.Errorf(cairn.ErrUnavailable, "%w", &ReadOnlyError{Path: path, Asked: asked})
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
