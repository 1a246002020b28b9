package crosshost_test

import (
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// The processes of the suite's scenarios are on all hosts by turns: what one leaves behind or does not survive,
// another recovers.
func TestMixedHosts(t *testing.T) {
	t.Parallel()
	all, place := hosts(t), files(t)
	place.Set = testenv.Choose(hosttest.OnMix, hosttest.Every)
	var mu sync.Mutex
	started := map[string]int{} // number of processes, by test
	hosttest.Run(t, hosttest.Host{
		Name:    "mixed",
		Crashes: testenv.Choose(2, 0),
		Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			mu.Lock()
			first := len(started)
			if n, ok := started[tb.Name()]; ok {
				first = n
			}
			started[tb.Name()] = first + 1
			mu.Unlock()
			return all[first%len(all)].Start(tb, st, agents, opts)
		},
	}, place)
}
