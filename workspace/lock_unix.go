//go:build unix

package workspace

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

// lockSlot makes and locks a file. The error is errLocked if it is locked already. Closing the file unlocks it.
func lockSlot(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		switch err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return f, nil
		case syscall.EINTR:
			continue
		case syscall.EWOULDBLOCK:
			err = errLocked
		}
		_ = f.Close()
		return nil, err
	}
}

// openQuietly is a flag with which opening a named pipe does not block.
const openQuietly = syscall.O_NONBLOCK

// stampOf returns the stamp of a file and when it was changed. A command can set the time of a file's contents, but not
// the time of its last change.
func stampOf(info os.FileInfo) (string, time.Time) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}
	}
	changed := changeTime(s)
	b := strconv.AppendUint(nil, s.Ino, 36)
	b = append(b, '.')
	b = strconv.AppendInt(b, changed.UnixNano(), 36)
	b = append(b, '.')
	return string(strconv.AppendInt(b, info.ModTime().UnixNano(), 36)), changed
}
