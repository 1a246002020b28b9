package dostore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// openAt opens a store that is closed when the test ends.
func openAt(tb testing.TB, url string) *Store {
	tb.Helper()
	s, err := Open(context.Background(), url, &Options{Secret: testenv.WorkerSecret})
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	urls.Store(s, url)
	urls.Store(s.log, s)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

var (
	stores atomic.Int64 // number of stores so far
	urls   sync.Map     // of stores, and the stores of their logs
)

// openNew opens a store of its own.
func openNew(tb testing.TB) *Store {
	tb.Helper()
	return openAt(tb, fmt.Sprintf("do+insecure://%s/test-%d", testenv.Worker(tb), stores.Add(1)))
}

// second opens another handle on a store's data, as another process would.
func second(tb testing.TB, s *Store) *Store {
	tb.Helper()
	url, _ := urls.Load(s)
	return openAt(tb, url.(string))
}

// storeOf returns the store of a log.
func storeOf(log driver.Log) *Store {
	s, _ := urls.Load(log)
	return s.(*Store)
}

// reopen closes a store and opens it again.
func reopen(tb testing.TB, s *Store) *Store {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Errorf("close: %v", err)
	}
	return second(tb, s)
}

// failNth makes the n-th write of a store from now on fail.
func failNth(_ testing.TB, st driver.Store, n int) func() bool {
	s := st.(*Store)
	failed := false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = func() error {
		if n--; n == 0 {
			failed = true
			return cairn.Errorf(cairn.ErrUnavailable, "the connection was lost")
		}
		return nil
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fails = nil
		return failed
	}
}

// The runtime creates a database for each session tree. What the costly tests show of this store is shown by others: the
// races by those of two handles, large and odd values by TestLargeValues and by the rest of their chapters, the copies by
// imports and by the tests of other stores.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(tb testing.TB) driver.Store { return openNew(tb) }, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
		Second: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
		Fault:  failNth, BlobsOfTrees: true,
		Brief: !testenv.Soak(), Without: testenv.Choose(storetest.Costly, nil),
	})
}

func TestLogConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLog(t, func(tb testing.TB) driver.Log { return openNew(tb).log }, &storetest.LogOptions{
		Reopen: func(tb testing.TB, log driver.Log) driver.Log { return reopen(tb, storeOf(log)).log },
		Second: func(tb testing.TB, log driver.Log) driver.Log { return second(tb, storeOf(log)).log },
		Brief:  !testenv.Soak(),
	})
}
