package crosshost

import (
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/memory/memorytest"
	"github.com/cairn-agents/cairn/store/dostore"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/redisstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// memoryStores are the stores of memories that outlast a process.
var memoryStores = []struct {
	name string
	open memorytest.Open
}{
	{"sqlite", func(tb testing.TB) driver.Store {
		st, err := sqlitestore.Open(filepath.Join(tb.TempDir(), "cairn.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
		return closing(tb, st, err)
	}},
	{"postgres", func(tb testing.TB) driver.Store {
		st, err := pgstore.Open(tb.Context(), testenv.FastPostgres(tb), &pgstore.Options{Schema: "memory_" + ids.Short()})
		return closing(tb, st, err)
	}},
	{"redis", func(tb testing.TB) driver.Store {
		st, err := redisstore.Open(tb.Context(), testenv.Redis(tb), &redisstore.Options{Prefix: "memory-" + ids.Short()})
		return closing(tb, st, err)
	}},
	{"objects", func(tb testing.TB) driver.Store {
		url := "do+insecure://" + testenv.Worker(tb) + "/memory-" + ids.Short()
		st, err := dostore.Open(tb.Context(), url, &dostore.Options{Secret: testenv.WorkerSecret})
		return closing(tb, st, err)
	}},
}

// closing closes a store when the test ends.
func closing(tb testing.TB, st driver.Store, err error) driver.Store {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}

func TestMemoriesOnStores(t *testing.T) {
	t.Parallel()
	for _, s := range memoryStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			memorytest.Run(t, s.open)
		})
	}
}
