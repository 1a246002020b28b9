package sqlitestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cairn-agents/cairn"
)

// stamp is what the files of a database look like at one moment.
type stamp struct {
	path  string // the database file, without symbolic links
	files map[string]os.FileInfo
}

func stampOf(path string) (*stamp, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "open database: %w", err)
	}
	s := &stamp{path: target, files: map[string]os.FileInfo{}}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(target + suffix)
		switch {
		case err == nil && suffix == "-journal" && info.Size() == 0: // a journal that is done
		case err == nil:
			s.files[suffix] = info
		case !errors.Is(err, fs.ErrNotExist):
			return nil, cairn.Errorf(cairn.ErrUnavailable, "open database: %w", err)
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
