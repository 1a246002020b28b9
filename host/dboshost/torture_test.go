package dboshost_test

import (
	"context"
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
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.VictimOn(startTortured, openTortured) }

// serverVariable tells the processes that are killed which PostgreSQL server they share; without it they share files.
const serverVariable = "CAIRN_DBOSHOST_TORTURE_SERVER"

// startTortured starts a process that goes on at once with what the last one of its letter was driving, unless a worker of
// the other letter is faster, since leases are short.
func startTortured(dir, name string, st store.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	h, err := openAlone(dir, &dboshost.Options{
		Executor: name[len(name)-1:], PollInterval: 20 * time.Millisecond, Schema: "tortured_dbos", Logger: opts.Logger})
	if err != nil {
		return nil, nil, err
	}
	opts.Host = h
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		return nil, nil, err
	}
	return eng, h.Close, h.Serve(eng)
}

// openAlone opens a host while no other process of the directory does: DBOS's migrations do not expect company.
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

func openTortured(dir string) (store.Store, error) {
	if server := os.Getenv(serverVariable); server != "" {
		return pgstore.Open(context.Background(), server, &pgstore.Options{Schema: "tortured"})
	}
	return sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
}

func TestTorture(t *testing.T) {
	torture.RunHost(t, torture.Host{Start: startTortured}, openTortured, 100)
}

// DBOS's tables and the sessions are in one database.
func TestTortureOnPostgres(t *testing.T) {
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.RunHost(t, torture.Host{Start: startTortured}, openTortured, 100)
}
