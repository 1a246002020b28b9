package crosshost_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
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
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// lives are what the test binary does instead of tests if the variable is set, with the variable's value.
var lives = map[string]func(string) error{callsVar: calls, servesVar: serves, codesVar: codes, spendsVar: spends, tracedVar: traced}

func TestMain(m *testing.M) {
	for name, live := range lives {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		if err := live(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.Main(m)
}

// startLife starts the test binary as another process, with variables such as those of lives, and returns a function that
// kills it.
func startLife(t *testing.T, variables ...string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), variables...), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	return kill
}

// patience bounds the wait for an expected event, however slow the machine.
const patience = 2 * time.Minute

// processes numbers the processes of all tests.
var processes atomic.Int64

func number() string { return strconv.FormatInt(processes.Add(1), 10) }

// hosts returns all hosts.
func hosts(t *testing.T) []hosttest.Host {
	t.Helper()
	return []hosttest.Host{{Name: "inprocess", Start: inProcess}, {Name: "temporal", Start: onTemporal(t)}, {Name: "dbos", Start: onDBOS(t)}}
}

type start = func(testing.TB, driver.Store, []*cairn.Agent, *engine.Options) *engine.Engine

func inProcess(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
	tb.Helper()
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return eng
}

// dial returns a client of the test's Temporal server.
func dial(t *testing.T) client.Client {
	t.Helper()
	silent := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.Dial(client.Options{HostPort: testenv.Temporal(t), Identity: "test", Logger: silent,
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// onTemporal starts each process with its own task queue.
func onTemporal(t *testing.T) start {
	t.Helper()
	c := dial(t)
	few := &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 3}
	return func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		tb.Helper()
		h, err := temporalhost.New(c, &temporalhost.Options{
			TaskQueue: tb.Name() + "#" + number(),
			Prefix:    tb.Name(),
			Activity:  workflow.ActivityOptions{RetryPolicy: few},
			Commit:    workflow.LocalActivityOptions{RetryPolicy: few},
		})
		if err != nil {
			tb.Fatal(err)
		}
		hosted := *opts
		// No other process has its queue, so the server cannot continue what it leaves behind.
		hosted.Host = struct{ host.Host }{h}
		eng := inProcess(tb, st, agents, &hosted)
		w := h.Worker(eng, worker.Options{})
		if err := w.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(w.Stop)
		return eng
	}
}

// onDBOS starts each process with its own database. The databases are copies, since creating one takes a while.
func onDBOS(t *testing.T) start {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "dbos.db")
	h, err := dboshost.Open(t.Context(), "sqlite:"+empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		tb.Helper()
		h, err := dboshost.Open(context.Background(), "sqlite:"+copied(tb, empty), nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := h.Close(context.Background()); err != nil {
				tb.Errorf("close: %v", err)
			}
		})
		hosted := *opts
		hosted.Host = struct{ host.Host }{h} // no other process has its database
		eng := inProcess(tb, st, agents, &hosted)
		if err := h.Serve(eng); err != nil {
			tb.Fatal(err)
		}
		return eng
	}
}

// files opens stores in files, which are copies of one file.
func files(t *testing.T) hosttest.Store {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "cairn.db")
	st, err := sqlitestore.Open(empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	type file struct {
		path string
		now  func() time.Time
	}
	var open sync.Map // files by store
	return hosttest.Store{
		Name: "sqlitestore",
		Open: func(tb testing.TB, now func() time.Time) driver.Store {
			f := file{copied(tb, empty), now}
			st := handle(tb, f.path, f.now)
			open.Store(st, f)
			return st
		},
		Another: func(tb testing.TB, st driver.Store) driver.Store {
			f, _ := open.Load(st)
			return handle(tb, f.(file).path, f.(file).now)
		},
	}
}

// handle opens a file as a process does.
func handle(tb testing.TB, path string, now func() time.Time) driver.Store {
	tb.Helper()
	st, err := sqlitestore.Open(path, &sqlitestore.Options{Synchronous: sqlitestore.Normal, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

// copied returns a copy of a database file.
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
