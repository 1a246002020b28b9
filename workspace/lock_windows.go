package workspace

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// lockSlot makes and locks a file. The error is errLocked if it is locked already. Closing the file unlocks it: the
// system removes no file that is open.
func lockSlot(name string) (*os.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errLocked
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = errLocked
	}
	return f, err
}

const openQuietly = 0

func stampOf(os.FileInfo) (string, time.Time) { return "", time.Time{} }

func bootID() string { return processID }
