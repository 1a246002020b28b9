package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
)

// ReplacedError reports that a file of the database was deleted, moved or replaced while a [Store] had it open. SQLite
// itself does not notice: it would write on to a file that no other process ever opens. So the store refuses everything
// from then on, with an ErrUnavailable error that wraps a ReplacedError, until the process opens the database again.
type ReplacedError struct {
	// Path is the path of the database.
	Path string
	// File is the file at fault: the database itself, its write-ahead log (Path-wal) or that log's index (Path-shm).
	File string
	// Missing reports whether there is no file of that name now; otherwise it is another file, or was emptied.
	Missing bool
}

// Error describes the fault and its remedy.
func (e *ReplacedError) Error() string {
	what := "replaced"
	if e.Missing {
		what = "deleted or moved"
	}
	if e.File != e.Path {
		return fmt.Sprintf("%s, which belongs to the open database %s, was %s: this process stops writing, and recent commits may be "+
			"missing from the database file; stop every process that has it open, check the file or restore a backup, then start them again", e.File, e.Path, what)
	}
	return fmt.Sprintf("the database %s was %s while this process had it open: nothing was written to the new file; "+
		"stop this process, put the file back or restore a backup, then start it again", e.Path, what)
}

// watch compares the files that SQLite has open with those of their names now. Its checks are safe for concurrent use.
type watch struct {
	path  string
	files []watchedFile
	lost  atomic.Pointer[cairn.Error]
}

type watchedFile struct {
	name string
	id   fileID
}

// openWatched opens a connection and watches the database file that it was opened on.
func openWatched(path string, open func() (*conn, error)) (*conn, *watch, error) {
	before, _, missing := statFile(path)
	c, err := open()
	if err != nil {
		return nil, nil, err
	}
	if missing != nil {
		c.close()
		return nil, nil, cairn.Errorf(cairn.ErrUnavailable, "open database: %w", missing)
	}
	w := &watch{path: path, files: []watchedFile{{path, before}}}
	if err := w.check(); err != nil {
		c.close()
		return nil, nil, err
	}
	return c, w, nil
}

// addLog adds the write-ahead log and its index, which exist once a connection has read a database in WAL mode. It must
// not run concurrently with checks.
func (w *watch) addLog() error {
	target, err := filepath.EvalSymlinks(w.path) // SQLite keeps them next to the file that a link leads to
	if err != nil {
		return cairn.Errorf(cairn.ErrUnavailable, "open database: %w", err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		id, _, err := statFile(target + suffix)
		if err != nil {
			return cairn.Errorf(cairn.ErrUnavailable, "open database: %w", err)
		}
		w.files = append(w.files, watchedFile{target + suffix, id})
	}
	return w.check()
}

// err returns the error of a database that is known to be lost.
func (w *watch) err() error {
	if lost := w.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// check looks at all files. It costs a stat of each.
func (w *watch) check() error { return w.checkFirst(len(w.files)) }

// checkDatabase looks at the database file only.
func (w *watch) checkDatabase() error { return w.checkFirst(1) }

func (w *watch) checkFirst(n int) error {
	if err := w.err(); err != nil {
		return err
	}
	for i := range w.files[:n] {
		lost, err := w.look(i)
		if lost != nil && i > 0 { // the database may have been taken away with it since it was looked at
			if first, err := w.look(0); first != nil && err == nil {
				lost = first
			}
		}
		switch {
		case err != nil:
			return err
		case lost != nil:
			return w.lose(lost)
		}
	}
	return nil
}

// look compares a file with that of its name now.
func (w *watch) look(i int) (*ReplacedError, error) {
	f := &w.files[i]
	id, size, err := statFile(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &ReplacedError{Path: w.path, File: f.name, Missing: true}, nil
	case err != nil:
		return nil, cairn.Errorf(cairn.ErrUnavailable, "check the files of the database: %w", err)
	case !f.id.same(id), i == 0 && len(w.files) > 1 && size < minFile:
		return &ReplacedError{Path: w.path, File: f.name}, nil
	}
	return nil, nil
}

// lose records that the database is lost. The first reason counts.
func (w *watch) lose(e *ReplacedError) error {
	w.lost.CompareAndSwap(nil, cairn.Errorf(cairn.ErrUnavailable, "%w", e))
	return w.err()
}
