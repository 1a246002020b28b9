package dboshost_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.VictimOn(startTortured, openTortured) }

// startTortured starts a process that goes on at once with what the last one of its letter was driving, unless a worker of
// the other letter is faster, since leases are short.
func startTortured(dir, name string, st store.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	h, err := dboshost.Open(context.Background(), "sqlite:"+filepath.Join(dir, "dbos.db"), &dboshost.Options{
		Executor: name[len(name)-1:], PollInterval: 20 * time.Millisecond, Logger: opts.Logger})
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

func openTortured(dir string) (store.Store, error) {
	s, err := sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestTorture(t *testing.T) {
	torture.RunHost(t, startTortured, openTortured, 100)
}
