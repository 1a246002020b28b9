package crosshost_test

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/redisstore"
)

// Sessions are on PostgreSQL and their events on Redis, so no write changes both.
func TestLogBesideTheStore(t *testing.T) {
	t.Parallel()
	postgres, redis := testenv.FastPostgres(t), testenv.Redis(t)
	hosttest.Run(t, hosttest.Host{Name: "inprocess", Start: inProcess, Crashes: testenv.Choose(4, 0)}, hosttest.Store{
		Name: "pgstore-redisstore",
		Open: func(tb testing.TB, _ func() time.Time) driver.Store {
			st, err := pgstore.Open(tb.Context(), postgres, &pgstore.Options{Schema: "split" + number()})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { st.Close() })
			return st
		},
		Log: func(tb testing.TB) driver.Log {
			st, err := redisstore.Open(tb.Context(), redis, &redisstore.Options{Prefix: "split" + number()})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { st.Close() })
			return st.EventLog()
		},
		OwnClock: true,
		Set:      testenv.Choose(hosttest.OnSplit, hosttest.Every),
	})
}

// In memory the suite is fast enough for every scenario.
func TestLogBesideTheStoreInMemory(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, hosttest.Host{Name: "inprocess", Start: inProcess, Crashes: testenv.Choose(8, 0)}, hosttest.Store{
		Name: "memstore-memstore",
		Open: func(_ testing.TB, now func() time.Time) driver.Store {
			return memstore.New(&memstore.Options{Now: now})
		},
		Log:    func(testing.TB) driver.Log { return memstore.New(nil).EventLog() },
		Bubble: true,
	})
}
