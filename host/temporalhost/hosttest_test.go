package temporalhost_test

import (
	"flag"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
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
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func TestMain(m *testing.M) { testenv.Main(m, startServer) }

// connect returns a client of the test server.
func connect(tb testing.TB) client.Client {
	tb.Helper()
	c, err := client.Dial(client.Options{HostPort: testenv.Temporal(tb), Identity: "test", Logger: silent})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// silent is the logger of workers, whose processes are killed all the time.
var silent = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

var processes atomic.Int64

// onTemporal returns a host whose processes share a client. Each has a task queue of its own, since the suite says which
// of them is to carry out what.
func onTemporal(name string, c client.Client) hosttest.Host {
	return hosttest.Host{Name: name, Stride: 173, Start: func(tb testing.TB, st store.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		few := &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 3}
		o := &temporalhost.Options{
			TaskQueue: tb.Name() + "#" + strconv.FormatInt(processes.Add(1), 10),
			Prefix:    strings.ReplaceAll(tb.Name(), "/", "."),
			Activity:  workflow.ActivityOptions{RetryPolicy: few},
			Commit:    workflow.LocalActivityOptions{RetryPolicy: few},
		}
		h, err := temporalhost.New(c, o)
		if err != nil {
			tb.Fatal(err)
		}
		own := *opts
		own.Host = h
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

// TestHost keeps sessions in memory, since it is the host that is tried here; that stores keep what hosts stage is shown by
// the tests of stores. With -sqlite it keeps them in files, which takes longer.
func TestHost(t *testing.T) {
	t.Parallel()
	place := hosttest.Store{
		Name: "memstore",
		Open: func(_ testing.TB, now func() time.Time) store.Store { return memstore.New(&memstore.Options{Now: now}) },
	}
	if *sqlite {
		place = hosttest.Store{Name: "sqlitestore", Open: openFile}
	}
	hosttest.Run(t, onTemporal("temporal", connect(t)), place)
}

var sqlite = flag.Bool("sqlite", false, "keep the sessions of TestHost in SQLite files")

func openFile(tb testing.TB, now func() time.Time) store.Store {
	st, err := sqlitestore.Open(filepath.Join(tb.TempDir(), "cairn.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}
