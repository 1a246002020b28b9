package engine_test

import (
	"flag"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

var golden = flag.Bool("golden", false, "write the files of host/hosttest anew")

func TestHost(t *testing.T) {
	t.Parallel()
	host := hosttest.Host{
		Name: "inprocess",
		Start: func(tb testing.TB, st store.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			eng, err := engine.New(st, agents, opts)
			if err != nil {
				tb.Fatal(err)
			}
			return eng
		},
	}
	if *golden {
		host.Golden = "../host/hosttest/testdata"
	}
	hosttest.Run(t, host, inMemory)
}

// TestHostApart shows that each effect of a run may be carried out in another process than the previous one.
func TestHostApart(t *testing.T) {
	t.Parallel()
	for _, host := range []hosttest.Host{hosttest.Cold, hosttest.Repeating, hosttest.Alternating} {
		host.Crashes = testenv.Choose(host.Crashes, 0)
		place := inMemory
		if host.Name != hosttest.Cold.Name { // shows for every scenario that an effect needs only the store
			place.Set = testenv.Choose(hosttest.OnHost, hosttest.Every)
		}
		hosttest.Run(t, host, place)
	}
}

// TestHostWithLogElsewhere shows that a log which is not the store's own gets the same events: those of a commit by way of
// the session's outbox.
func TestHostWithLogElsewhere(t *testing.T) {
	t.Parallel()
	place := inMemory
	place.Name, place.Log = "memstore with a log elsewhere", func(testing.TB) store.Log { return memstore.New(nil).EventLog() }
	for _, host := range []hosttest.Host{hosttest.InProcess, hosttest.Cold} {
		host.Crashes = testenv.Choose(hosttest.Cold.Crashes, 0)
		hosttest.Run(t, host, place)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	hosttest.RunWrites(t, inMemory)
}

// FuzzDoors writes anything through an engine into memory.
func FuzzDoors(f *testing.F) { hosttest.FuzzDoors(f, inMemory) }

var inMemory = hosttest.Store{
	Name:   "memstore",
	Open:   func(_ testing.TB, now func() time.Time) store.Store { return memstore.New(&memstore.Options{Now: now}) },
	Bubble: true,
}
