package temporalhost_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.VictimOn(startTortured, openTortured) }

// pace is the factor by which a step takes longer than in process.
const pace = 5

// serverVariable names the environment variable with the server that killed processes share.
const serverVariable = "CAIRN_TEMPORALHOST_TORTURE_SERVER"

// startTortured starts a process with a worker. Leases are longer than Temporal needs to detect a dead worker, so
// activities are retried under the lease of a process that is dead, or only seems to be. Where the engine has default
// settings, so have the host and the worker.
func startTortured(_, _ string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	c, err := eventually(func() (client.Client, error) {
		return client.Dial(client.Options{HostPort: os.Getenv(serverVariable), Logger: silent})
	})
	if err != nil {
		return nil, nil, err
	}
	var options temporalhost.Options
	var of worker.Options
	if opts.LeaseTTL > 0 {
		soon := &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumInterval: 100 * time.Millisecond}
		options = temporalhost.Options{
			TaskQueue: "torture",
			Activity:  workflow.ActivityOptions{HeartbeatTimeout: min(opts.LeaseTTL/2, 5*time.Second), RetryPolicy: soon},
			Commit:    workflow.LocalActivityOptions{RetryPolicy: soon},
		}
		of = worker.Options{StickyScheduleToStartTimeout: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute}
	}
	h, err := temporalhost.New(c, &options)
	if err != nil {
		return nil, nil, err
	}
	opts.Host = h
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		return nil, nil, err
	}
	w, err := eventually(func() (worker.Worker, error) {
		w := h.Worker(eng, of)
		return w, w.Start()
	})
	leave := func(ctx context.Context) error {
		w.Stop()
		defer c.Close()
		return eng.Close(ctx)
	}
	return eng, leave, err
}

// eventually retries until there is a server. After a kill it starts slowly on a busy machine.
func eventually[T any](try func() (T, error)) (v T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_ = testclock.Poll(ctx, func() bool { v, err = try(); return err == nil })
	return v, err
}

// openTortured opens a store that does not sync to disk: the test kills processes, not the machine.
func openTortured(dir string) (driver.Store, error) {
	s, err := sqlitestore.Open(filepath.Join(dir, "cairn.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// In a soak the server is paused for five seconds now and then; otherwise other tests use it.
func TestTorture(t *testing.T) {
	host := torture.Host{Start: startTortured, Pace: pace}
	if testenv.Soak() {
		server := testenv.TemporalServer(t)
		host.Pauses = server
		t.Setenv(serverVariable, server.Address)
	} else {
		t.Setenv(serverVariable, testenv.Temporal(t))
	}
	torture.RunHost(t, host, openTortured, torture.Numbers{Test: 6, Soak: 300})
}

// The server is killed, too, and restarted at once from its file.
func TestTortureOfTheServer(t *testing.T) {
	torture.NeedsSoak(t)
	server := testenv.TemporalServer(t)
	t.Setenv(serverVariable, server.Address)
	torture.RunHost(t, torture.Host{Start: startTortured, Pace: pace, Server: server}, openTortured, torture.Numbers{Soak: 60, Server: 50})
}

// The engine, the host and the worker have default settings. The server is paused for five seconds now and then.
func TestTortureWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	server := testenv.TemporalServer(t)
	t.Setenv(serverVariable, server.Address)
	torture.RunHost(t, torture.Host{Start: startTortured, Defaults: true, Pauses: server}, openTortured, torture.Numbers{Soak: 300})
}

// The server is killed 50 times; processes are stopped less often.
func TestTortureOfTheServerWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	server := testenv.TemporalServer(t)
	t.Setenv(serverVariable, server.Address)
	torture.RunHost(t, torture.Host{Start: startTortured, Defaults: true, Server: server}, openTortured, torture.Numbers{Soak: 60, Server: 50})
}
