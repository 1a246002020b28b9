package sqlitestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Each process has its own store on one file.
func TestHost(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, hosttest.Host{
		Name:    "inprocess",
		Crashes: testenv.Choose(4, 0),
		Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			eng, err := engine.New(st, agents, opts)
			if err != nil {
				tb.Fatal(err)
			}
			return eng
		},
	}, onFile(emptyFile(t)))
}

// FuzzDoors writes arbitrary values through an engine into a file.
func FuzzDoors(f *testing.F) { hosttest.FuzzDoors(f, onFile(emptyFile(f))) }

// onFile returns a test's store, in a file with the given content.
func onFile(empty []byte) hosttest.Store {
	return hosttest.Store{
		Name: "sqlitestore",
		Set:  testenv.Choose(hosttest.OnStore, hosttest.Every),
		Open: func(tb testing.TB, now func() time.Time) driver.Store {
			path := filepath.Join(tb.TempDir(), "cairn.db")
			if err := os.WriteFile(path, empty, 0o600); err != nil {
				tb.Fatal(err)
			}
			return openAt(tb, path, &Options{Synchronous: Normal, Now: now})
		},
		Another: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
	}
}

// emptyFile returns the content of a file with only the schema, since creating one takes a while.
func emptyFile(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.db")
	s, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWrites(t *testing.T) {
	t.Parallel()
	hosttest.RunWrites(t, onFile(emptyFile(t)))
}
