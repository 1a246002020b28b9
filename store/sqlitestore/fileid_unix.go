//go:build unix

package sqlitestore

import "syscall"

// fileID names a file whatever its path, while it exists or is open.
type fileID struct{ device, inode uint64 }

// statFile returns a file's identity and size. It does what os.Stat does, with less memory: each commit calls it.
func statFile(path string) (id fileID, size int64, err error) {
	var st syscall.Stat_t
	for {
		err = syscall.Stat(path, &st)
		if err != syscall.EINTR {
			return fileID{uint64(st.Dev), uint64(st.Ino)}, st.Size, err
		}
	}
}

func (id fileID) same(other fileID) bool { return id == other }
