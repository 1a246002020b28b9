package store

import (
	"io/fs"
	"strings"
	"time"
)

// Migration is one numbered change of the schema in which a store keeps its data.
type Migration struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	// AppliedAt is zero if the migration is not applied, or the store does not record when it was.
	AppliedAt time.Time `json:"applied_at,omitzero"`
}

// Migrations lists the numbered files of a directory, such as 0001_sessions.sql. The first applied of them count as
// applied.
func Migrations(dir fs.FS, applied int) ([]Migration, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(entries))
	for i, e := range entries {
		_, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		list[i] = Migration{Version: i + 1, Name: name, Applied: i < applied}
	}
	return list, nil
}
