// Package torture kills processes that drive sessions, with SIGKILL and at the worst moments, and checks that nothing
// committed is lost or doubled.
//
// A test hands it a way to open its store. Its own binary, started again, is the victim: it drives turns with tools on
// some sessions at once until it is killed, or answers what their calls wait for. What it sees the store acknowledge goes
// to a journal outside the store; the store and the journal together are the [History] of each session of a [Tree], which
// every one of [Invariants] must accept.
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
	"github.com/cairn-agents/cairn/store"
)

var (
	flagKills = flag.Int("torture.kills", 0, "how many processes a torture test kills; 0 leaves that to the test")
	flagSeed  = flag.Uint64("torture.seed", 0, "seed of the torture test's random numbers; 0 chooses one")
	flagKeep  = flag.String("torture.keep", "", "an empty directory that is used and kept, for a look at what was left")
)

// Open opens the store that belongs to a directory. The store must bring its event log.
type Open func(dir string) (store.Store, error)

// Start makes the engine of a process over its store, and says what is to be closed after it. dir is the one that the store
// belongs to. name is the process's: a number, and a letter that tells it from those that live at the same time.
type Start func(dir, name string, st store.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error)

// inProcess is the Start of processes that drive runs in goroutines.
func inProcess(_, _ string, st store.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
	eng, err := engine.New(st, agents, opts)
	return eng, func(context.Context) error { return nil }, err
}

const orderVariable = "CAIRN_TORTURE_ORDER"

// order tells a victim what to do.
type order struct {
	Dir      string        `json:"dir"`
	Name     string        `json:"name"` // of the process, in the journal
	Sessions []string      `json:"sessions"`
	Clerk    bool          `json:"clerk"` // answers calls instead of driving sessions
	LeaseTTL time.Duration `json:"lease_ttl"`
	Pace     int           `json:"pace"` // see [Host]
	Seed     uint64        `json:"seed"`
	Signal   signal        `json:"signal"`
}

// Victim turns the process into a victim, and never returns, if [Run] started it; else it does nothing. A package that
// calls Run calls Victim when it is initialised.
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
	fmt.Fprintln(os.Stderr, "victim:", err)
	os.Exit(1)
}

// Host is what the processes drive their runs on.
type Host struct {
	Start Start
	// Pace is how many times as long as in process a step takes. Processes live and hold leases so many times as long; 0 means 1.
	Pace int
	// Server, if it is not nil, is killed again and again as well: see [RunOn].
	Server Server
}

// Run tortures a store. It kills 200 processes, or as many as -torture.kills says; -torture.seed repeats the order of
// the kills, though hardly the moments.
func Run(t *testing.T, open Open) { RunHost(t, Host{Start: inProcess}, open, 200) }

// RunHost tortures a host by killing so many processes, or as many as -torture.kills says.
func RunHost(t *testing.T, host Host, open Open, kills int) {
	if *flagKills > 0 {
		kills = *flagKills
	}
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	dir := *flagKeep
	if dir == "" {
		dir = t.TempDir()
	}
	host.Pace = max(host.Pace, 1)
	h := &harness{t: t, host: host, open: open, dir: dir, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ways: map[string]int{},
		journal: map[string][]record{}, written: map[string]map[string]bool{}}
	t.Logf("-torture.seed=%d", seed)
	began := time.Now()
	stop := outage(t, host.Server)
	for h.kills < kills && !t.Failed() {
		h.life()
	}
	stop()
	killed := time.Since(began)
	h.finish()
	t.Logf("%d kills in %s (checks %s, a start %s), all in %s: %s; %s", h.kills, killed.Round(time.Millisecond), h.checking.Round(time.Millisecond),
		median(h.started).Round(time.Millisecond), time.Since(began).Round(time.Millisecond), h.tally, h.wayCounts())
}
