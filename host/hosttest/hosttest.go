// Package hosttest is the suite that every host passes: scripted conversations, each with everything it must leave behind
// (transcripts, state, runs, calls with their audit trails, events, hooks) in one file that holds for every host and store.
// Run it from a test of your own:
//
//	func TestHost(t *testing.T) {
//		hosttest.Run(t, hosttest.Host{
//			Name:  "myhost",
//			Start: func(tb testing.TB, st store.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
//				eng, err := engine.New(st, agents, opts) // with what makes it run on your host
//				if err != nil {
//					tb.Fatal(err)
//				}
//				return eng
//			},
//		}, hosttest.Store{
//			Name: "mystore",
//			Open: func(tb testing.TB, now func() time.Time) store.Store { return mystore.OpenTemp(tb, now) },
//		})
//	}
//
// An engine that Start returns stands for a process. Scenarios start several on one store and kill some: a killed process
// loses its store and its log at once and for good, but its goroutines may go on for a while, as those of a process that
// was merely cut off do. The clock of each process is wrong, by an hour to one side or the other: what is decided is decided
// by the store's.
//
// [Unsound] and [Describe] are what the suite judges by, for tests of other kinds.
package hosttest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// Host is what the suite is run on.
type Host struct {
	// Name is that of the subtests.
	Name string
	// Start starts a process for some agents over a store. opts is never nil, and is handed to the engine with what the host
	// adds; its Log is set if the store has no log of its own. The suite closes the engine.
	Start func(tb testing.TB, st store.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine
	// Crashes is at how many operations of a conversation, spread evenly over it, the scenarios that kill a process anywhere do
	// so, before the operation and after it; 0 means at every one. Hosts whose turns have many operations set it.
	Crashes int
	// Golden is a directory to write the expected files to instead of comparing with those of the package; empty for none.
	// It is for those who change what every host must do.
	Golden string
}

// Store is what sessions are kept in.
type Store struct {
	// Name is that of the subtests.
	Name string
	// Open opens a fresh, empty store that shares nothing with any other, and registers its clean-up with tb. now is the clock
	// that the store is to go by, so that nobody has to wait for a deadline to pass or a lease to run out.
	Open func(tb testing.TB, now func() time.Time) store.Store
	// OwnClock says that the store goes by another clock than Open was given. Then the suite waits, with short times.
	OwnClock bool
	// Another opens another handle on the data of a store, as another process would, and registers its clean-up with tb. nil
	// means that processes share the one that Open returned.
	Another func(tb testing.TB, st store.Store) store.Store
	// Log opens a log for a store that brings none, or whose own is to be left unused. Processes share it.
	Log func(tb testing.TB) store.Log
	// Bubble says that host and store can live in a bubble of package synctest, where no time passes while they wait.
	Bubble bool
	// Set is which scenarios are played on this store; nil means [Every].
	Set Set
}

// Run runs the scenarios of each store's set on it, several at a time.
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

// scenario is a conversation of people, agents and accidents. Everything it leaves behind is expected to be as in the file
// of its name.
type scenario struct {
	name string
	play func(*scene)
}

var scenarios = slices.Concat(
	conversations,
	approvals,
	reviews,
	answers,
	refusals,
	limited,
	children,
	companions,
	turnsInTheWay,
	caches,
	asides,
	returns,
	changes,
	endings,
	unruly,
	stops,
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
