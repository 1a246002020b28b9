package pgstore

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.PostgresIn("DATABASE_URL")) }

var schemas atomic.Int64

// emptied are schemas that tests no longer use. Their tables are empty.
var emptied struct {
	sync.Mutex
	conn  *pgx.Conn // to the server; nil before it is needed
	names []string
}

// emptySchema returns the name of an existing schema with empty tables, or of a new one. Creating a schema takes the
// server longer than most tests take. The test must not change the tables themselves; the rows that it adds are deleted
// after it.
func emptySchema(tb testing.TB) string {
	tb.Helper()
	emptied.Lock()
	defer emptied.Unlock()
	name := ""
	if n := len(emptied.names); n > 0 {
		name, emptied.names = emptied.names[n-1], emptied.names[:n-1]
	} else {
		name = newSchema()
	}
	url := testenv.FastPostgres(tb)
	tb.Cleanup(func() {
		emptied.Lock()
		defer emptied.Unlock()
		if err := empty(url, name); err != nil {
			tb.Errorf("empty schema %s: %v", name, err)
			return
		}
		emptied.names = append(emptied.names, name)
	})
	return name
}

// empty deletes all rows of a schema's tables, except its version. The caller holds the lock.
func empty(url, schema string) (err error) {
	ctx := context.Background() // that of the test has ended
	if emptied.conn == nil {
		if emptied.conn, err = pgx.Connect(ctx, url); err != nil {
			return err
		}
	}
	_, err = emptied.conn.Exec(ctx, `
		DO $$
		DECLARE name text;
		BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '`+schema+`' AND tablename <> 'cairn_migrations' LOOP
				EXECUTE format('DELETE FROM `+schema+`.%I', name);
			END LOOP;
		END $$`)
	return err
}

// newSchema returns the name of a schema that nothing else uses.
func newSchema() string { return fmt.Sprintf("test_%d", schemas.Add(1)) }

// openAt opens a store that is closed when the test ends.
func openAt(tb testing.TB, url string, opts *Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), url, opts)
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

// openNew opens a store in a new schema. Tests need not wait for the disk.
func openNew(tb testing.TB) *Store {
	tb.Helper()
	return openAt(tb, testenv.FastPostgres(tb), &Options{Schema: newSchema()})
}

// protocols are the ways in which statements are sent.
var protocols = []struct {
	name   string
	simple bool
}{{"prepared", false}, {"simple", true}}

// place returns where stores are opened. With the simple protocol there is a pooler on the way, which all of them
// share.
func place(tb testing.TB, simple bool) (open func(testing.TB) *Store) {
	tb.Helper()
	url := testenv.FastPostgres(tb)
	if simple {
		url = newPooler(tb, url).url()
	}
	return func(tb testing.TB) *Store {
		tb.Helper()
		return openAt(tb, url, &Options{Schema: emptySchema(tb), SimpleProtocol: simple})
	}
}

func TestConformance(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			open := place(t, p.simple)
			var without []string
			if p.simple && !testenv.Soak() {
				without = storetest.Costly
			}
			storetest.Run(t, func(tb testing.TB) driver.Store { return open(tb) }, &storetest.Options{
				Reopen:  func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
				Second:  func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
				Fault:   failNth,
				Brief:   p.simple && !testenv.Soak(), // every statement is sent in another way; who wins a race is the same
				Without: without,
			})
		})
	}
}

func TestLogConformance(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			open := place(t, p.simple)
			var stores sync.Map // by their logs
			logOf := func(s *Store) driver.Log {
				stores.Store(s.EventLog(), s)
				return s.EventLog()
			}
			storeOf := func(log driver.Log) *Store {
				s, _ := stores.Load(log)
				return s.(*Store)
			}
			storetest.RunLog(t, func(tb testing.TB) driver.Log { return logOf(open(tb)) }, &storetest.LogOptions{
				Reopen: func(tb testing.TB, log driver.Log) driver.Log { return logOf(reopen(tb, storeOf(log))) },
				Second: func(tb testing.TB, log driver.Log) driver.Log { return logOf(second(tb, storeOf(log))) },
				Brief:  p.simple && !testenv.Soak(),
			})
		})
	}
}

func reopen(tb testing.TB, s *Store) *Store {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	return second(tb, s)
}

// second opens the schema of a store again.
func second(tb testing.TB, s *Store) *Store {
	tb.Helper()
	// Hundreds may be open at the end of a test, most of which are not used any more.
	return openAt(tb, s.pool.Config().ConnString()+"&pool_max_conn_idle_time=1s&pool_health_check_period=1s", &s.opts)
}

// writes matches the statements that write.
var writes = regexp.MustCompile(`INSERT|UPDATE|DELETE|COMMIT`)

// failNth makes the n-th statement that writes from now on fail before it is sent, or the COMMIT after it.
func failNth(_ testing.TB, st driver.Store, n int) (disarm func() (failed bool)) {
	var left atomic.Int64
	left.Store(int64(n))
	s := st.(*Store)
	hook := func(text string) error {
		if writes.MatchString(text) && left.Add(-1) == 0 {
			return cairn.Errorf(cairn.ErrUnavailable, "injected fault")
		}
		return nil
	}
	s.intercept.Store(&hook)
	return func() bool {
		s.intercept.Store(nil)
		return left.Load() <= 0
	}
}
