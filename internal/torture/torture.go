// Package torture stops processes that drive sessions, at the worst moments and in every way in which processes
// end, and checks that nothing committed is lost or duplicated.
//
// A test passes a function that opens its store. The test's own binary, started again, is the victim. It drives
// turns with tools on many sessions at once until it is stopped, or it answers their pending calls. It is killed;
// or it gets SIGTERM, like a service, and closes its engine within a short time that is sometimes too short; or it
// sleeps past its leases before that. Its clock is wrong by up to an hour. What the store acknowledges to it goes
// to a journal outside of the store. Store and journal together are the [History] of each session of a [Tree], and
// each tree must satisfy all [Invariants]. After each stop the store must list what needs a worker.
//
// `make test` stops a few processes, `make soak` thousands; KILLS and HOURS say otherwise, see [testenv.Kills].
package torture

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	flagSeed = flag.Uint64("torture.seed", 0, "seed of the torture test's random numbers; 0 chooses one")
	// Faults are easier to explain without wrong clocks.
	flagAhead = flag.Duration("torture.ahead", time.Hour, "bounds how wrong the clocks of processes are")
	flagKeep  = flag.String("torture.keep", "", "an empty directory that is used and kept, for a look at what was left")
)

// Open opens the store in a directory. The store must have an event log. Another directory is another store, see [Name].
type Open func(dir string) (driver.Store, error)

// Start creates the engine of a process over its store. It also returns the function with which the process leaves:
// it closes the engine and the host within the time of its context. dir is the store's directory. name is the
// process's name: a number, and a letter that is unique among live processes.
type Start func(dir, name string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error)

// inProcess is the Start for processes that drive runs in goroutines.
func inProcess(_, _ string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		return nil, nil, err
	}
	return eng, eng.Close, nil
}

const orderVariable = "CAIRN_TORTURE_ORDER"

// order is the instructions for a victim.
type order struct {
	Dir       string        `json:"dir"`
	Name      string        `json:"name"` // of the process, in the journal
	Sessions  []string      `json:"sessions"`
	Clerk     bool          `json:"clerk"`     // answers calls instead of driving sessions
	Alone     bool          `json:"alone"`     // drives its runs itself, see [Host]
	Elsewhere bool          `json:"elsewhere"` // the events are in another store's log, see [Host]
	Records   bool          `json:"records"`   // the engine has the store's records
	LeaseTTL  time.Duration `json:"lease_ttl"` // 0 for the engine's default settings
	Pace      int           `json:"pace"`      // see [Host]
	Ahead     time.Duration `json:"ahead"`     // how far the process's clock is ahead
	Grace     time.Duration `json:"grace"`     // time for its runs after SIGTERM
	Seed      uint64        `json:"seed"`
	Signal    signal        `json:"signal"`
}

// Victim turns the process into a victim if [Run] started it, and then never returns. Otherwise it does nothing. A
// package that calls Run must call Victim during its initialization.
func Victim(open Open) { VictimOn(inProcess, open) }

// VictimOn is Victim for a test that calls [RunHost].
func VictimOn(start Start, open Open) {
	raw := os.Getenv(orderVariable)
	if raw == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(raw), &o)
	if err == nil {
		err = o.follow(start, open)
	}
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "victim:", err)
	os.Exit(1)
}

// Host is the host that drives the runs of the processes.
type Host struct {
	Start Start
	// Pace is the factor by which a step takes longer than in process. Lives and leases of processes are longer by
	// it; 0 means 1. It is at least the number of seconds that a process takes to start, and doubles after each round
	// whose stops hit no run: the machine is slow.
	Pace int
	// Defaults leaves all options of the engine except the clock at their defaults. Leases are then long: the run
	// of a killed process may resume only after half a minute, while other runs are driven and their processes
	// stopped.
	Defaults bool
	// Elsewhere keeps the events in the log of another store, which is away now and then: appends fail, or their answers
	// are lost.
	Elsewhere bool
	// Records lets the engine have the store's records. What it does with them is not recorded.
	Records bool
	// Server is killed repeatedly as well, if it is not nil: see [RunOn].
	Server Server
	// Pauses is suspended for five seconds repeatedly, if it is not nil.
	Pauses Pauser
	// alone reports whether each process drives its runs itself.
	alone bool
}

// Numbers are the numbers of processes to stop in `make test` and in `make soak`, and the minimum number of kills
// of the server in `make soak`, if there is a server.
type Numbers struct{ Test, Soak, Server int }

// Run tortures a store. -torture.seed repeats the order of the stops, but hardly their moments.
func Run(t *testing.T, open Open) {
	RunHost(t, Host{Start: inProcess, alone: true}, open, Numbers{Test: 24, Soak: 2000})
}

// RunElsewhere is [Run] with the events in the log of another store, see [Host.Elsewhere].
func RunElsewhere(t *testing.T, open Open) {
	RunHost(t, Host{Start: inProcess, alone: true, Elsewhere: true}, open, Numbers{Test: 8, Soak: 500})
}

// RunDefaults is [Run] with default settings of the engine. Leases are then long, so only `make soak` has the time.
func RunDefaults(t *testing.T, open Open) {
	RunHost(t, Host{Start: inProcess, alone: true, Defaults: true}, open, Numbers{Soak: 300})
}

// NeedsSoak skips a test for which only `make soak` has the time.
func NeedsSoak(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("it takes minutes: make soak runs it")
	}
}

// RunHost tortures a host by stopping the given numbers of processes.
func RunHost(t *testing.T, host Host, open Open, n Numbers) {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	dir := *flagKeep
	if dir == "" {
		dir = t.TempDir()
	}
	if host.Defaults {
		host.Pace = 20
	}
	host.Pace = max(host.Pace, 1)
	h := newHarness(t, host, open, dir, seed)
	t.Logf("-torture.seed=%d", seed)
	least, until := testenv.Kills(t, n.Test, n.Soak), time.Now().Add(testenv.Hours(t))
	h.torture(least, n.Server, until)
}
