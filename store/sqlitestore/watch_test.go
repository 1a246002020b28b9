package sqlitestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// replacements are the ways to take a database away from the process that has it open. Each returns the file at fault.
var replacements = map[string]func(t *testing.T, path string) string{
	"deleted":             func(t *testing.T, path string) string { return remove(t, path) },
	"moved":               func(t *testing.T, path string) string { return rename(t, path, path+".old") },
	"emptied":             func(t *testing.T, path string) string { return overwrite(t, path, nil) },
	"log deleted":         func(t *testing.T, path string) string { return remove(t, path+"-wal") },
	"log's index deleted": func(t *testing.T, path string) string { return remove(t, path+"-shm") },
	"all files deleted": func(t *testing.T, path string) string {
		remove(t, path) // first: a follower looks while they are deleted
		remove(t, path+"-wal")
		remove(t, path+"-shm")
		return path
	},
	"log replaced": func(t *testing.T, path string) string {
		remove(t, path+"-wal")
		return overwrite(t, path+"-wal", nil)
	},
	"replaced by an empty file": func(t *testing.T, path string) string {
		remove(t, path)
		return overwrite(t, path, nil)
	},
	"replaced by a copy": func(t *testing.T, path string) string {
		raw := must(os.ReadFile(path))
		remove(t, path)
		return overwrite(t, path, raw)
	},
	"replaced by another database": func(t *testing.T, path string) string {
		other := openNew(t)
		must(driver.Create(t.Context(), other, &cairn.Session{ID: "session", Agent: "other"}, nil))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		rename(t, other.path, path)
		return path
	},
	"directory moved": func(t *testing.T, path string) string {
		rename(t, filepath.Dir(path), filepath.Dir(path)+"-old")
		return path
	},
}

func remove(t *testing.T, path string) string {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func rename(t *testing.T, from, to string) string {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	return from
}

func overwrite(t *testing.T, path string, raw []byte) string {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantReplaced checks that an error names the file that was taken away.
func wantReplaced(t *testing.T, what string, err error, s *Store, file string) {
	t.Helper()
	var e *ReplacedError
	if !errors.As(err, &e) || !errors.Is(err, cairn.ErrUnavailable) || e.Path != s.path || e.File != file || !strings.Contains(err.Error(), file) {
		t.Errorf("%s: %v, want an unavailable error that names %s", what, err, file)
	}
}

func TestReplacedFileRefusesEverything(t *testing.T) {
	t.Parallel()
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data", "cairn.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			s := must(Open(path, &Options{Synchronous: Normal}))
			defer s.Close()
			must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
			must(s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom}))
			followed, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				for _, err := range s.EventLog().Follow(t.Context(), "log", 0) {
					if err != nil {
						ended <- err
						return
					}
					close(followed)
				}
			}()
			<-followed

			file := replace(t, path)
			wantReplaced(t, "a follower", <-ended, s, file)
			for range 2 {
				_, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1})
				wantReplaced(t, "commit", err, s, file)
				_, err = driver.Create(t.Context(), s, &cairn.Session{ID: "another", Agent: "support"}, nil)
				wantReplaced(t, "create", err, s, file)
				_, err = s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom})
				wantReplaced(t, "append", err, s, file)
				_, err = driver.Load(t.Context(), s, "session")
				wantReplaced(t, "load", err, s, file)
				_, err = s.Records().Put(t.Context(), driver.RecordWrite{Namespace: "n", Key: "k", Value: []byte("1"), Seen: driver.AnyVersion})
				wantReplaced(t, "put", err, s, file)
			}
			wantReplaced(t, "close", s.Close(), s, file)
		})
	}
}

// A write that finds its file gone is not in the file: neither in the moved one nor in the one of its name.
func TestReplacedFileIsNotWritten(t *testing.T) {
	t.Parallel()
	s := must(Open(filepath.Join(t.TempDir(), "cairn.db"), nil))
	defer s.Close()
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	rename(t, s.path, s.path+".old")
	_, err := driver.Create(t.Context(), s, &cairn.Session{ID: "lost", Agent: "support"}, nil)
	wantReplaced(t, "create", err, s, s.path)
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of the name was made: %v", err)
	}
	rename(t, s.path+".old", s.path)
	_, err = s.Commit(t.Context(), "session", &driver.Commit{Step: 1})
	wantReplaced(t, "a commit after the file was put back", err, s, s.path)
	again := openAt(t, s.path, nil)
	if _, err := driver.Load(t.Context(), again, "session"); err != nil {
		t.Errorf("the session of before, in the file that was put back: %v", err)
	}
	if _, err := driver.Load(t.Context(), again, "lost"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the refused session: %v, want ErrNotFound", err)
	}
}

// A commit that a file is taken away from in the middle is not acknowledged either.
func TestFileReplacedDuringCommit(t *testing.T) {
	t.Parallel()
	s := must(Open(filepath.Join(t.TempDir(), "cairn.db"), nil))
	defer s.Close()
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	s.intercept(t, func(text string) error {
		if text == sqlCommit {
			remove(t, s.path)
		}
		return nil
	})
	_, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1})
	wantReplaced(t, "commit", err, s, s.path)
}

// Every acknowledged write of many writers is in the file that was moved.
func TestAcknowledgedWritesAreInTheMovedFile(t *testing.T) {
	t.Parallel()
	s := must(Open(filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal}))
	defer s.Close()
	const writers = 8
	var acknowledged [writers]int
	var total atomic.Int64
	enough := make(chan struct{})
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			id := string(rune('a' + i))
			_, err := driver.Create(t.Context(), s, &cairn.Session{ID: id, Agent: "support"}, nil)
			for ; err == nil; acknowledged[i]++ {
				if total.Add(1) == 100 {
					close(enough)
				}
				_, err = s.Commit(t.Context(), id, &driver.Commit{Step: 1})
			}
			wantReplaced(t, "writer "+id, err, s, s.path)
		})
	}
	<-enough
	moved := s.path + ".old"
	rename(t, s.path, moved)
	all.Wait()
	for _, suffix := range []string{"-wal", "-shm"} {
		rename(t, s.path+suffix, moved+suffix)
	}
	again := openAt(t, moved, nil)
	for i, n := range acknowledged {
		if row, err := driver.Load(t.Context(), again, string(rune('a'+i))); err != nil || row.Version < int64(n) {
			t.Errorf("writer %d: %d writes were acknowledged, and the file has %+v, %v", i, n, row, err)
		}
	}
}

func TestLinkToDatabaseLedElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link.db"), filepath.Join(dir, "cairn.db")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	overwrite(t, target, nil)
	s := must(Open(link, nil))
	defer s.Close()
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	other := openNew(t)
	remove(t, link)
	if err := os.Symlink(other.path, link); err != nil {
		t.Fatal(err)
	}
	_, err := s.Commit(t.Context(), "session", &driver.Commit{Step: 1})
	wantReplaced(t, "commit", err, s, link)
}

// Closing a store whose file was replaced leaves the files of the other database alone.
func TestCloseLeavesTheOtherDatabaseAlone(t *testing.T) {
	t.Parallel()
	s := must(Open(filepath.Join(t.TempDir(), "cairn.db"), nil))
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "old", Agent: "support"}, nil))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		rename(t, s.path+suffix, s.path+".old"+suffix)
	}
	other := openAt(t, s.path, nil)
	must(driver.Create(t.Context(), other, &cairn.Session{ID: "new", Agent: "support"}, nil))
	wantReplaced(t, "close", s.Close(), s, s.path)
	if _, err := driver.Load(context.WithoutCancel(t.Context()), s, "old"); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("load after Close: %v, want ErrClosed", err)
	}
	crashed := openAt(t, copyFiles(t, s.path, "", "-wal"), nil)
	if _, err := driver.Load(t.Context(), crashed, "new"); err != nil {
		t.Errorf("the other database lost its session: %v", err)
	}
}
