//go:build !unix

package sqlitestore

import "os"

// fileID names a file whatever its path, while it exists or is open.
type fileID struct{ info os.FileInfo }

// statFile returns a file's identity and size.
func statFile(path string) (id fileID, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return id, 0, err
	}
	return fileID{info}, info.Size(), nil
}

func (id fileID) same(other fileID) bool { return os.SameFile(id.info, other.info) }
