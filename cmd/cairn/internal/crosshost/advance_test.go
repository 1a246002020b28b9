package crosshost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.VictimOn(startCalled, openCalled) }

// startCalled starts a process that advances the runs of all processes. The references are files in a directory that
// the processes share. Where the engine has default settings, so has the host, except for Patience: a process that dies
// before it has written a file leaves a run without a caller.
func startCalled(dir, name string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	q := &references{dir: filepath.Join(dir, "references"), calling: map[string]bool{}}
	seed := fnv.New64a()
	seed.Write([]byte(name))
	q.rng = rand.New(rand.NewPCG(seed.Sum64(), 1))
	if err := os.MkdirAll(q.dir, 0o750); err != nil {
		return nil, nil, err
	}
	patience := 30 * time.Second
	if opts.LeaseTTL > 0 {
		patience = opts.LeaseTTL
	}
	h, err := httphost.New(&httphost.Options{Start: q.start, Patience: patience})
	if err != nil {
		return nil, nil, err
	}
	opts.Host = h
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	calls.Go(func() { q.serve(ctx, eng, &calls) })
	leave := func(closing context.Context) error {
		err := eng.Close(closing)
		cancel()
		calls.Wait()
		return err
	}
	return eng, leave, nil
}

func openCalled(dir string) (driver.Store, error) {
	return sqlitestore.Open(filepath.Join(dir, "cairn.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
}

// references is a directory of references to runs, which every process calls for until an answer says that it is done.
type references struct {
	dir string

	mu      sync.Mutex
	rng     *rand.Rand
	calling map[string]bool
}

func (q *references) start(_ context.Context, run host.Run) error {
	raw, err := json.Marshal(run)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d", run.SessionID, run.RunID, run.Token)
	draft := filepath.Join(filepath.Dir(q.dir), name+fmt.Sprint(os.Getpid()))
	if err := os.WriteFile(draft, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(q.dir, name))
}

// serve calls for the runs in the directory until ctx ends.
func (q *references) serve(ctx context.Context, eng *engine.Engine, calls *sync.WaitGroup) {
	for testclock.Pause(ctx, 5*time.Millisecond) == nil {
		entries, _ := os.ReadDir(q.dir)
		for _, entry := range entries {
			q.mu.Lock()
			under := q.calling[entry.Name()]
			q.calling[entry.Name()] = true
			seed := q.rng.Uint64()
			q.mu.Unlock()
			if under {
				continue
			}
			calls.Go(func() {
				q.advance(ctx, eng, filepath.Join(q.dir, entry.Name()), rand.New(rand.NewPCG(seed, 1)))
				q.mu.Lock()
				defer q.mu.Unlock()
				delete(q.calling, entry.Name())
			})
		}
	}
}

// advance makes some calls for a run. They begin with the first reference, and are cut off and doubled now and then.
func (q *references) advance(ctx context.Context, eng *engine.Engine, path string, rng *rand.Rand) {
	raw, err := os.ReadFile(path)
	var run host.Run
	if err != nil || json.Unmarshal(raw, &run) != nil {
		return
	}
	for range 1 + rng.IntN(4) {
		short, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(100))*time.Millisecond)
		var doubled sync.WaitGroup
		if rng.IntN(4) == 0 {
			doubled.Go(func() { _, _ = eng.Advance(short, run) })
		}
		p, err := eng.Advance(short, run)
		doubled.Wait()
		cancel()
		switch {
		case errors.Is(err, cairn.ErrNotFound), errors.Is(err, cairn.ErrDeleted), errors.Is(err, cairn.ErrExpired), err == nil && p.State != engine.AdvanceMore:
			os.Remove(path)
			return
		case err != nil:
			return // another process has the step, or storage is away
		}
		run = p.Run
	}
}

// Processes that advance each other's runs are killed.
func TestTortureOfCallers(t *testing.T) {
	torture.NeedsSoak(t)
	torture.RunHost(t, torture.Host{Start: startCalled, Records: true}, openCalled, torture.Numbers{Test: 10, Soak: 300})
}

// The engine has default settings.
func TestTortureOfCallersWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	torture.RunHost(t, torture.Host{Start: startCalled, Records: true, Defaults: true}, openCalled, torture.Numbers{Soak: 300})
}
