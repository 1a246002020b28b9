package dboshost_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/redisstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func TestMain(m *testing.M) {
	testenv.Main(m)
}

// processes numbers the processes of all scenes.
var processes atomic.Int64

// onDBOS returns a host whose processes use the DBOS database they are given. Each has its own version, so that none
// recovers the workflows of another unless the scene has it do so.
func onDBOS(name, schema string, database func(testing.TB) string) hosttest.Host {
	return hosttest.Host{
		Name:    name,
		Crashes: testenv.Choose(2, 0),
		Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			n := strconv.FormatInt(processes.Add(1), 10)
			place := database(tb)
			eng, _ := serve(tb, place, st, agents, opts, &dboshost.Options{Schema: schema, Version: n, Executor: n, Queue: n})
			tb.Cleanup(func() { replay(tb, place, schema, n) })
			return eng
		},
	}
}

// serve starts an engine on DBOS that drives what it begins.
func serve(tb testing.TB, database string, st driver.Store, agents []*cairn.Agent, opts *engine.Options,
	own *dboshost.Options) (*engine.Engine, *dboshost.Host) {
	tb.Helper()
	h, err := dboshost.Open(context.Background(), database, own)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	hosted := *opts
	hosted.Host = h
	eng, err := engine.New(st, agents, &hosted)
	if err != nil {
		tb.Fatal(err)
	}
	if err := h.Serve(eng); err != nil {
		tb.Fatal(err)
	}
	return eng, h
}

// Each process has its own DBOS database: what they agree on is in Cairn's store.
func TestHostOnSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	create(t, "sqlite:"+filepath.Join(dir, "dbos.db"), "")
	s, err := sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	hosttest.Run(t, onDBOS("dbos-sqlite", "", func(tb testing.TB) string {
		return "sqlite:" + copied(tb, filepath.Join(dir, "dbos.db"))
	}), hosttest.Store{
		Name: "sqlitestore",
		Set:  testenv.Choose(hosttest.OnHost, hosttest.Every),
		Open: func(tb testing.TB, now func() time.Time) driver.Store {
			return openSQLite(tb, copied(tb, filepath.Join(dir, "cairn.db")), &sqlitestore.Options{Synchronous: sqlitestore.Normal, Now: now})
		},
	})
}

// create creates DBOS's tables.
func create(tb testing.TB, database, schema string) {
	tb.Helper()
	h, err := dboshost.Open(tb.Context(), database, &dboshost.Options{Schema: schema})
	if err != nil {
		tb.Fatal(err)
	}
	if err := h.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// copied returns a copy of a database file, since creating one takes long.
func copied(tb testing.TB, path string) string {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(tb.TempDir(), filepath.Base(path))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func openSQLite(tb testing.TB, path string, opts *sqlitestore.Options) driver.Store {
	tb.Helper()
	s, err := sqlitestore.Open(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// All processes and scenes share one DBOS database.
func TestHostOnPostgreSQL(t *testing.T) {
	t.Parallel()
	url, schema := testenv.FastPostgres(t), "dbos"+strconv.FormatInt(processes.Add(1), 10)
	create(t, url, schema)
	hosttest.Run(t, onDBOS("dbos-postgresql", schema, func(testing.TB) string { return url }), hosttest.Store{
		Name: "pgstore",
		Open: func(tb testing.TB, _ func() time.Time) driver.Store {
			return openPostgres(tb, url, "scene"+strconv.FormatInt(processes.Add(1), 10))
		},
		OwnClock: true,
		Set:      testenv.Choose(hosttest.OnPair, hosttest.Every),
	}, hosttest.Store{
		Name: "redisstore",
		Open: func(tb testing.TB, _ func() time.Time) driver.Store {
			s, err := redisstore.Open(context.Background(), testenv.Redis(tb), &redisstore.Options{Prefix: "scene" + strconv.FormatInt(processes.Add(1), 10)})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { s.Close() })
			return s
		},
		OwnClock: true,
		Set:      testenv.Choose(hosttest.OnPair, hosttest.Every),
	})
}

func openPostgres(tb testing.TB, url, schema string) driver.Store {
	tb.Helper()
	s, err := pgstore.Open(context.Background(), url, &pgstore.Options{Schema: schema})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
