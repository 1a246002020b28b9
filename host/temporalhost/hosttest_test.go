package temporalhost_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/redisstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func TestMain(m *testing.M) { testenv.Main(m, startServer) }

// connect returns a client of the test server. Compression is off: it would take a tenth of the time.
func connect(tb testing.TB) client.Client {
	tb.Helper()
	c, err := client.Dial(client.Options{HostPort: testenv.Temporal(tb), Identity: "test", Logger: silent,
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// silent is the logger of workers, whose processes are killed all the time.
var silent = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

var processes atomic.Int64

// onTemporal returns a host whose processes share a client. Each has its own task queue, since the suite chooses the
// process that carries out each effect.
func onTemporal(name string, c client.Client) hosttest.Host {
	replayed := &replays{c: c}
	return hosttest.Host{Name: name, Crashes: testenv.Choose(2, 0), Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		few := &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 3}
		o := &temporalhost.Options{
			TaskQueue: tb.Name() + "#" + strconv.FormatInt(processes.Add(1), 10),
			Prefix:    plain(tb.Name()),
			Activity:  workflow.ActivityOptions{RetryPolicy: few},
			Commit:    workflow.LocalActivityOptions{RetryPolicy: few},
		}
		h, err := temporalhost.New(c, o)
		if err != nil {
			tb.Fatal(err)
		}
		replayed.of(tb, o.Prefix, h)
		own := *opts
		// No other worker serves the queue of a dead process, so the server cannot recover its runs and must not be
		// asked whether it does.
		own.Host = struct{ host.Host }{h}
		eng, err := engine.New(st, agents, &own)
		if err != nil {
			tb.Fatal(err)
		}
		w := h.Worker(eng, worker.Options{})
		if err := w.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(w.Stop)
		return eng
	}}
}

func TestHostOnSQLite(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, onTemporal("temporal", connect(t)), hosttest.Store{Name: "sqlitestore", Open: openFile,
		Set: testenv.Choose(hosttest.OnHost, hosttest.Every)})
}

// The servers are shared by all scenes.
func TestHostOnServers(t *testing.T) {
	t.Parallel()
	set := testenv.Choose(hosttest.OnPair, hosttest.Every)
	hosttest.Run(t, onTemporal("temporal", connect(t)),
		hosttest.Store{Name: "pgstore", Open: openPostgres, OwnClock: true, Set: set},
		hosttest.Store{Name: "redisstore", Open: openRedis, OwnClock: true, Set: set})
}

func openFile(tb testing.TB, now func() time.Time) driver.Store {
	st, err := sqlitestore.Open(filepath.Join(tb.TempDir(), "cairn.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}

func openPostgres(tb testing.TB, _ func() time.Time) driver.Store {
	st, err := pgstore.Open(context.Background(), testenv.FastPostgres(tb), &pgstore.Options{Schema: scene()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}

func openRedis(tb testing.TB, _ func() time.Time) driver.Store {
	st, err := redisstore.Open(context.Background(), testenv.Redis(tb), &redisstore.Options{Prefix: scene()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}

// scene returns a unique name.
func scene() string { return "scene" + strconv.FormatInt(processes.Add(1), 10) }
