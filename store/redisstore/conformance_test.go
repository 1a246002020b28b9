package redisstore

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
func openAt(tb testing.TB, url string, opts *Options) *Store {
	tb.Helper()
	s, err := Open(context.Background(), url, opts)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test has.
func newPrefix() string { return fmt.Sprint("test-", prefixes.Add(1)) }

// openNew opens a store under a prefix of its own.
func openNew(tb testing.TB) *Store {
	tb.Helper()
	return openAt(tb, testenv.Redis(tb), &Options{Prefix: newPrefix()})
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) driver.Store { return openNew(tb) }, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
		Second: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
		Fault:  failNth,
	})
}

func TestLogConformance(t *testing.T) {
	storetest.RunLog(t, func(tb testing.TB) driver.Log { return logOf(openNew(tb)) }, &storetest.LogOptions{
		Reopen: func(tb testing.TB, log driver.Log) driver.Log { return logOf(reopen(tb, storeOf(log))) },
		Second: func(tb testing.TB, log driver.Log) driver.Log { return logOf(second(tb, storeOf(log))) },
	})
}

// logs maps the event logs that the suite of logs uses to their stores.
var logs sync.Map

func logOf(s *Store) driver.Log {
	logs.Store(s.EventLog(), s)
	return s.EventLog()
}

func storeOf(log driver.Log) *Store {
	s, _ := logs.Load(log)
	return s.(*Store)
}

func reopen(tb testing.TB, s *Store) *Store {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	return second(tb, s)
}

// second opens another handle on the keys of a store.
func second(tb testing.TB, s *Store) *Store {
	tb.Helper()
	return openAt(tb, s.url, &s.opts)
}

// failNth makes the n-th call of a script that writes fail.
func failNth(_ testing.TB, st driver.Store, n int) (disarm func() (failed bool)) {
	failed := false
	s := st.(*Store)
	s.intercept = func(string) error {
		if n--; n != 0 {
			return nil
		}
		failed = true
		return cairn.Errorf(cairn.ErrUnavailable, "injected fault")
	}
	return func() bool {
		s.intercept = nil
		return failed
	}
}
