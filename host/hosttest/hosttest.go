// Package hosttest is the suite that every host passes. It plays scripted conversations. One golden file per
// conversation has the result that every host and store must have: transcripts, state, runs, calls with their audit
// trails, events, hooks. Run the suite from a test:
//
//	func TestHost(t *testing.T) {
//		hosttest.Run(t, hosttest.Host{
//			Name:  "myhost",
//			Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
//				eng, err := engine.New(st, agents, opts) // set opts.Host to your host
//				if err != nil {
//					tb.Fatal(err)
//				}
//				return eng
//			},
//		}, hosttest.Store{
//			Name: "mystore",
//			Open: func(tb testing.TB, now func() time.Time) driver.Store { return mystore.OpenTemp(tb, now) },
//		})
//	}
//
// Each engine that Start returns represents a process. Scenarios start several processes on one store and kill some. A
// killed process loses its store and its log at once and permanently, but its goroutines may keep running for a while,
// as in a partitioned process. Each process's clock is wrong by an hour, fast or slow: all decisions must use the
// store's clock.
//
// [Unsound] and [Describe] are the suite's checks, for use in other tests.
package hosttest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/driver"
)

// Host is a host to run the suite on.
type Host struct {
	// Name names the host's subtests.
	Name string
	// Start starts a process for the agents over a store. Pass opts, which is never nil, to the engine together
	// with the host's own options. opts.Log is set if the store has no log of its own. The suite closes the engine.
	Start func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine
	// Crashes is the number of operations, spread evenly over a conversation, at which the crash-anywhere scenarios
	// kill a process, before and after each; 0 means every operation. Set it for hosts with many operations per
	// turn.
	Crashes int
	// Records gives every process the store's records, for a host that needs them.
	Records bool
	// Golden is a directory to write the golden files to, instead of comparing with the package's; empty means compare.
	// Use it to change the behaviour that every host must have.
	Golden string
}

// Store is a store to run the suite on.
type Store struct {
	// Name names the store's subtests.
	Name string
	// Open opens a fresh, empty store that shares nothing with any other, and registers its cleanup with tb. now is
	// the clock that the store must use, so that deadlines and leases lapse without real waiting.
	Open func(tb testing.TB, now func() time.Time) driver.Store
	// OwnClock declares that the store does not use Open's clock. The suite then waits in real time, with short
	// deadlines.
	OwnClock bool
	// Another opens another handle on a store's data, as another process would, and registers its cleanup with tb.
	// nil means that processes share the handle that Open returned.
	Another func(tb testing.TB, st driver.Store) driver.Store
	// Log opens a log for a store that has none, or whose own log must not be used. Processes share it.
	Log func(tb testing.TB) driver.Log
	// Bubble declares that host and store can run in a synctest bubble, where waiting takes no time.
	Bubble bool
	// Set selects the scenarios for this store; nil means [Every].
	Set Set
}

// Run runs the scenarios of each store's set, in parallel.
func Run(t *testing.T, h Host, stores ...Store) {
	t.Run(h.Name, func(t *testing.T) {
		for _, place := range stores {
			t.Run(place.Name, func(t *testing.T) {
				for _, sc := range place.Set.of(t, scenarios) {
					t.Run(sc.name, func(t *testing.T) {
						t.Parallel()
						sc.run(t, h, place)
					})
				}
			})
		}
	})
}

// scenario is a conversation of people, agents and accidents. All that it leaves behind must match the golden file
// with its name.
type scenario struct {
	name string
	play func(*scene)
}

var scenarios = slices.Concat(
	conversations,
	approvals,
	reviews,
	answers,
	questions,
	effects,
	budgets,
	awaited,
	refusals,
	limited,
	children,
	companions,
	turnsInTheWay,
	turnsWhileWaiting,
	turnsThatSteer,
	caches,
	asides,
	toolsets,
	memories,
	workspaces,
	compactions,
	mended,
	deferrals,
	returns,
	changes,
	endings,
	beside,
	serials,
	choices,
	unruly,
	stops,
	aimed,
	attempts,
	wrapped,
	crashes,
	workers,
	durabilities,
	sweeps,
	expiries,
)

func (sc scenario) run(t *testing.T, h Host, place Store) {
	if !place.Bubble {
		sc.perform(t, h, place)
		return
	}
	synctest.Test(t, func(t *testing.T) { sc.perform(t, h, place) })
}

func (sc scenario) perform(t *testing.T, h Host, place Store) {
	s := newScene(t, h, place)
	sc.play(s)
	s.finish()
	if t.Failed() {
		return
	}
	s.judge(sc.name)
}
