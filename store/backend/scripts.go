package backend

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Scripts returns the texts of a directory's numbered files, such as 0001_sessions.sql, in order. The first one makes
// version 1 of the schema. Their numbers must have no gap.
func Scripts(files fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %q is not number %d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, dir+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		list[i] = string(text)
	}
	return list, nil
}
