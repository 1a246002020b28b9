package dboshost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.VictimOn(startTortured, openTortured) }

// serverVariable names the environment variable with the PostgreSQL server that killed processes share; without it they
// share files.
const serverVariable = "CAIRN_DBOSHOST_TORTURE_SERVER"

// startTortured starts a process that resumes at once what the last process of its letter was driving, unless a worker
// of another letter is faster, since leases are short. Where the engine has default settings, so has the host: each
// process gets a new name, and a worker takes over its runs when it has died.
func startTortured(dir, name string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	options := &dboshost.Options{Logger: opts.Logger}
	if opts.LeaseTTL > 0 {
		options.Executor, options.PollInterval, options.Schema = name[len(name)-1:], 20*time.Millisecond, "tortured_dbos"
	}
	h, err := openAlone(dir, options)
	if err != nil {
		return nil, nil, err
	}
	opts.Host = h
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		return nil, nil, err
	}
	leave := func(ctx context.Context) error {
		err := eng.Close(ctx)
		if closed := h.Close(ctx); ctx.Err() == nil { // otherwise it was cut short
			err = errors.Join(err, closed)
		}
		return err
	}
	return eng, leave, h.Serve(eng)
}

// openAlone opens a host while no other process of the directory does: DBOS's migrations are not safe to run
// concurrently.
func openAlone(dir string, opts *dboshost.Options) (*dboshost.Host, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "migrating"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	database := os.Getenv(serverVariable)
	if database == "" {
		database = "sqlite:" + filepath.Join(dir, "dbos.db")
	}
	return dboshost.Open(context.Background(), database, opts)
}

func openTortured(dir string) (driver.Store, error) {
	if server := os.Getenv(serverVariable); server != "" {
		return pgstore.Open(context.Background(), server, &pgstore.Options{Schema: "tortured"})
	}
	return sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
}

func TestTorture(t *testing.T) {
	torture.RunHost(t, torture.Host{Start: startTortured}, openTortured, torture.Numbers{Test: 6, Soak: 300})
}

// DBOS's tables and the sessions are in one database.
func TestTortureOnPostgres(t *testing.T) {
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.RunHost(t, torture.Host{Start: startTortured}, openTortured, torture.Numbers{Test: 6, Soak: 300})
}

// The engine and the host have default settings.
func TestTortureWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.RunHost(t, torture.Host{Start: startTortured, Defaults: true}, openTortured, torture.Numbers{Soak: 300})
}
