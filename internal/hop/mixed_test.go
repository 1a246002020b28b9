package hop_test

import (
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store"
)

// Every scenario of the suite, with its processes on all hosts by turns: what one leaves behind or dies of, another takes up.
func TestMixedHosts(t *testing.T) {
	t.Parallel()
	all := hosts(t)
	var mu sync.Mutex
	started := map[string]int{} // processes, by test
	hosttest.Run(t, hosttest.Host{
		Name:   "mixed",
		Stride: 173,
		Start: func(tb testing.TB, st store.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			mu.Lock()
			first := len(started)
			if n, ok := started[tb.Name()]; ok {
				first = n
			}
			started[tb.Name()] = first + 1
			mu.Unlock()
			return all[first%len(all)].Start(tb, st, agents, opts)
		},
	}, files(t))
}
