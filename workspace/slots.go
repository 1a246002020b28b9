package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// slots are the directories of one machine, below a base. The workspace with an id has the directories base/id/0, 1 and
// so on: a second one exists only if two processes have opened the same workspace, for example because one of them has
// lost its session to the other. Each has a lock, which the kernel releases when the process ends.
type slots struct {
	base string
	uid  int // owner of the files; -1 for the process's own user
	// abandon, unless nil, ends what a process that was killed has left running in a slot, before the slot is removed.
	abandon func(context.Context, *localDirectory) error
}

// The names in a slot.
const (
	lockFile = "lock"
	filesDir = "files"
	homeDir  = "home"
)

// newSlots makes the base. If it fails, the error is ErrInvalid.
func newSlots(base string, uid int) (*slots, error) {
	if base == "" {
		return nil, cairn.Invalid("path", "is empty")
	}
	base, err := filepath.Abs(base)
	if err == nil {
		err = os.MkdirAll(base, 0o711)
	}
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "path: %w", err)
	}
	return &slots{base: base, uid: uid}, nil
}

// open locks the first free slot of an id, and makes it if necessary.
func (s *slots) open(id string) (*localDirectory, error) {
	for n := 0; ; n++ {
		slot := filepath.Join(s.base, id, strconv.Itoa(n))
		d, err := s.openSlot(slot)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrUnavailable, "open the directory of the workspace: %w", err)
		}
		return d, nil
	}
}

func (s *slots) openSlot(slot string) (*localDirectory, error) {
	for {
		if err := os.MkdirAll(slot, 0o711); err != nil {
			return nil, err
		}
		lock, err := lockSlot(filepath.Join(slot, lockFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept in the meantime
		}
		if err != nil {
			return nil, err
		}
		// The directory of a lock that was swept while this process waited for it is another one.
		if held, err := lock.Stat(); err != nil {
			return nil, errors.Join(err, lock.Close())
		} else if now, err := os.Stat(lock.Name()); err != nil || !os.SameFile(held, now) {
			_ = lock.Close()
			continue
		}
		d, err := s.use(slot, lock)
		if err != nil {
			_ = lock.Close()
		}
		return d, err
	}
}

// use opens a slot whose lock is held.
func (s *slots) use(slot string, lock *os.File) (*localDirectory, error) {
	for _, name := range []string{filesDir, homeDir} {
		if err := s.makeDir(filepath.Join(slot, name)); err != nil {
			return nil, err
		}
	}
	root, err := openRoot(filepath.Join(slot, filesDir))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(slot, now, now) // sweep goes by it
	return &localDirectory{slots: s, slot: slot, lock: lock, root: root}, nil
}

func (s *slots) makeDir(name string) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if s.uid >= 0 {
		return os.Lchown(name, s.uid, s.uid)
	}
	return nil
}

// sweep removes the slots that have not been opened for the given time and are not locked.
func (s *slots) sweep(ctx context.Context, idle time.Duration) error {
	list, err := filepath.Glob(filepath.Join(s.base, "*", "*"))
	if err != nil {
		return err
	}
	var failed []error
	for _, slot := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if info, err := os.Stat(slot); err != nil || time.Since(info.ModTime()) < idle {
			continue
		}
		lock, err := lockSlot(filepath.Join(slot, lockFile))
		if err != nil {
			continue // in use
		}
		if s.abandon != nil {
			err = s.abandon(ctx, &localDirectory{slots: s, slot: slot})
		}
		if err == nil {
			err = removeSlot(slot)
		}
		failed = append(failed, err)
		_ = lock.Close()
		_ = os.Remove(filepath.Dir(slot)) // fails if there are more
	}
	return errors.Join(failed...)
}

// removeSlot removes a slot whose lock is held. The notes go first, so that what a process leaves that is killed here
// does not count as the files that they describe, and the lock last: with it, nothing opens what is half removed.
func removeSlot(slot string) error {
	list, err := os.ReadDir(slot)
	for _, item := range list {
		if err == nil && item.Name() != filesDir && item.Name() != homeDir && item.Name() != lockFile {
			err = os.Remove(filepath.Join(slot, item.Name()))
		}
	}
	for _, name := range []string{filesDir, homeDir} {
		if err == nil {
			err = removeAll(filepath.Join(slot, name))
		}
	}
	if err == nil {
		err = os.Remove(filepath.Join(slot, lockFile))
	}
	if err == nil {
		_ = os.Remove(slot) // fails if another process has begun to use it
	}
	return err
}

// openRoot opens a directory that commands may have closed to everybody.
func openRoot(name string) (*os.Root, error) {
	root, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(name, 0o700) == nil {
		root, err = os.OpenRoot(name)
	}
	return root, err
}

// removeAll removes a directory as a localDirectory does.
func removeAll(name string) error {
	root, err := openRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d := &localDirectory{root: root}
	err = d.walk(context.Background(), root, "", 0, func(e Entry) error { return d.Remove(e.Path) })
	return errors.Join(err, root.Close(), os.RemoveAll(name))
}

var errLocked = fmt.Errorf("another process has locked the directory")
