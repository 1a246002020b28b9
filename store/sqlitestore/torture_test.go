package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.Victim(openTortured) }

func openTortured(dir string) (store.Store, error) {
	s, err := sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestTorture(t *testing.T) { torture.Run(t, openTortured) }
