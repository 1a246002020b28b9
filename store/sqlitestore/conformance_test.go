package sqlitestore

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
)

// openAt opens a store that is closed when the test ends.
func openAt(tb testing.TB, path string, opts *Options) *Store {
	tb.Helper()
	s, err := Open(path, opts)
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

// openNew opens a store in a new file. Tests need not wait for the disk.
func openNew(tb testing.TB) *Store {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "cairn.db"), &Options{Synchronous: Normal})
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) driver.Store { return openNew(tb) }, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
		Second: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
		Fault:  failNth,
	})
}

func TestLogConformance(t *testing.T) {
	storetest.RunLog(t, func(tb testing.TB) driver.Log { return openNew(tb).EventLog() }, &storetest.LogOptions{
		Reopen: func(tb testing.TB, log driver.Log) driver.Log { return reopen(tb, log.(*Log).s).EventLog() },
		Second: func(tb testing.TB, log driver.Log) driver.Log { return second(tb, log.(*Log).s).EventLog() },
	})
}

func reopen(tb testing.TB, s *Store) *Store {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	return second(tb, s)
}

// second opens the file of a store once more.
func second(tb testing.TB, s *Store) *Store {
	tb.Helper()
	return openAt(tb, s.path, &s.opts)
}

// failNth makes the n-th statement in a transaction, counted from now on, or the COMMIT after it fail.
func failNth(tb testing.TB, st driver.Store, n int) (disarm func() (failed bool)) {
	failed := false
	s := st.(*Store)
	s.intercept(tb, func(text string) error {
		if text == sqlBegin || text == sqlRollback {
			return nil
		}
		if n--; n != 0 {
			return nil
		}
		failed = true
		return cairn.Errorf(cairn.ErrUnavailable, "injected fault")
	})
	return func() bool {
		s.intercept(tb, nil)
		return failed
	}
}

// intercept sets the write connection's hook.
func (s *Store) intercept(tb testing.TB, hook func(text string) error) {
	tb.Helper()
	err := s.writer.do(&job{ctx: context.Background(), alone: true, run: func(c *conn) error {
		c.intercept = hook
		return nil
	}})
	if err != nil {
		tb.Fatal(err)
	}
}
