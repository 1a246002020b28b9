package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
)

const (
	// drivers and clerks are the numbers of processes of each sort that live at once.
	drivers, clerks = 3, 1
	// roundOf is the number of processes in a round. Each round has its own sessions, so that checks read bounded
	// histories. Workers of later processes complete what a round has left.
	roundOf = 24
	// longLease is the lease of some processes that get SIGTERM: no process should have to wait until it lapses.
	longLease = 3 * time.Second
	// settleWithin bounds the time without progress while sessions settle, and lastsAtMost all of the time.
	settleWithin, lastsAtMost = 5 * time.Minute, time.Hour
	// startsWithin is the time to start on a machine on which processes live as long as planned.
	startsWithin = time.Second
	// slowest bounds how much longer lives become on a slow machine.
	slowest = 64
)

// harness is one run of the torture test.
type harness struct {
	t    *testing.T
	host Host
	open Open
	dir  string
	seed uint64
	rng  *rand.Rand
	// pace is Host.Pace, and more on a machine on which processes start slowly, or are stopped before they have
	// committed anything.
	pace atomic.Int64
	hit  bool // a stop has hit a run, and steps and staged pieces were acknowledged

	lives    int           // number of processes started
	checking time.Duration // total time of the checks between rounds
	groups   [][]string    // sessions, by round
	watch    *watch
	place    *place

	mu      sync.Mutex
	started []time.Duration // durations of process starts
	stops   map[string]stop // by process
	moments map[string]int  // numbers of stops, by moment

	journal map[string][]record        // by session
	written map[string]map[string]bool // ids of committed sessions, by root
	read    int64                      // offset in the journal's file, in bytes
	tally   tally
}

func newHarness(t *testing.T, host Host, open Open, dir string, seed uint64) *harness {
	h := &harness{t: t, host: host, open: open, dir: dir, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), stops: map[string]stop{},
		moments: map[string]int{}, journal: map[string][]record{}, written: map[string]map[string]bool{}}
	h.pace.Store(int64(host.Pace))
	return h
}

// torture stops at least the given number of processes, in a soak also the server at least serverLeast times, until
// the given time and until a stop has hit a run, and logs the outcome.
func (h *harness) torture(least, serverLeast int, until time.Time) {
	st, err := h.open(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	h.place = placeOf(st)
	if h.host.Elsewhere {
		elsewhere, err := openElsewhere(h.open, h.dir)
		if err != nil {
			h.t.Fatal(err)
		}
		defer elsewhere.Close()
		h.place.log, h.place.own = logOf(elsewhere), false
	}
	h.watch = &watch{st: st, idle: h.idle, seen: map[string]seen{}}
	began := time.Now()
	server := outage(h.host.Server, func() time.Duration { return uptime(h.pace.Load()) })
	paused := pausing(h.host.Pauses, func() time.Duration { return uptime(h.pace.Load()) })
	if !testenv.Soak() || h.host.Server == nil {
		serverLeast = 0
	}
	for !h.t.Failed() && (h.stopped() < least || time.Now().Before(until) || int(server.n.Load()) < serverLeast || !h.hit && h.pace.Load() < slowest) {
		of := roundOf
		if h.host.Defaults {
			of *= 2 // since some processes sleep for long
		}
		if left := least - h.stopped(); left > 0 {
			of = min(of, left)
		}
		h.round(of)
	}
	server.end(h.t)
	paused.end(h.t)
	stopped := time.Since(began)
	h.finish()
	if err := st.Close(); err != nil {
		h.t.Error(err)
	}
	h.t.Logf("%d stops in %s (checks %s, a start %s), all in %s: %s; %s; server killed %d times, paused %d times", h.stopped(), stopped.Round(time.Millisecond),
		h.checking.Round(time.Millisecond), median(h.started).Round(time.Millisecond), time.Since(began).Round(time.Millisecond), h.tally,
		counts(h.moments), server.n.Load(), paused.n.Load())
	h.report(stopped, int(server.n.Load()), paused)
}

// stopped returns the number of stopped processes.
func (h *harness) stopped() int {
	n := 0
	for _, s := range h.stops {
		if s.how != byClose {
			n++
		}
	}
	return n
}

// idle bounds the time for which a session may be active without a lease: the length of a lease, a worker's poll
// interval, and allowances for a busy machine and for the death of workers that claimed the session. The allowances
// grow with the lives of processes; with default settings the bound is three minutes.
func (h *harness) idle() time.Duration {
	return max(time.Minute, time.Duration(h.pace.Load())*9*time.Second)
}

// round stops a number of processes, some concurrently and some in sequence. Most of them drive new sessions.
func (h *harness) round(stops int) {
	h.t.Helper()
	var group []string
	roots := 1 // of each kind
	if testenv.Soak() {
		roots = 2
	}
	for n := range roots {
		for _, kind := range kinds {
			group = append(group, fmt.Sprintf("group%d-%d.%s", len(h.groups), n, kind.name))
		}
	}
	h.groups = append(h.groups, group)
	since := time.Now()
	var living sync.WaitGroup
	slot := 'a'
	live := func(slots, lives int, clerk bool) {
		next := make(chan life, lives)
		for range lives {
			next <- h.plan(group, clerk)
		}
		close(next)
		for range slots {
			letter := string(slot)
			slot++
			living.Go(func() {
				for l := range next {
					if l.order.Name += letter; !h.t.Failed() {
						h.live(l, since)
					}
				}
			})
		}
	}
	answering := stops / (drivers + clerks) * clerks
	live(drivers, stops-answering, false)
	live(clerks, answering, true)
	living.Wait()
	h.inspect()
	pace := max(h.pace.Load(), int64(median(h.started)/startsWithin))
	if h.hit = h.hit || h.tested(); !h.hit {
		pace *= 2
	}
	h.pace.Store(min(pace, slowest))
	if !h.t.Failed() {
		h.calm()
	}
}

// tested reports whether the stores acknowledged a step and a staged piece, and a stop hit a run.
func (h *harness) tested() bool {
	var stepped, piece bool
	for _, list := range h.journal {
		stepped = stepped || slices.ContainsFunc(list, func(r record) bool { return r.Kind == committed && r.Step != "" })
		piece = piece || slices.ContainsFunc(list, func(r record) bool { return r.Kind == staged })
	}
	ended, open := h.outlived()
	return stepped && piece && len(ended)+open > 0
}

// calm lets a process that is not stopped take over the runs of a round. Otherwise a machine too slow for the stops
// would accumulate ever more of them.
func (h *harness) calm() {
	h.t.Helper()
	o := h.undisturbed(strconv.Itoa(h.lives) + "z")
	_, st, eng, leave, err := o.assemble(h.host.Start, h.open, func(point) {})
	if err != nil {
		h.t.Fatal(err)
	}
	worked := make(chan error, 1)
	work, rest := context.WithCancel(h.t.Context())
	go func() { worked <- eng.Work(work) }()
	if err := h.watch.taken(h.t.Context(), h.idle()); err != nil {
		h.t.Errorf("after life %d: %v", h.lives, err)
	}
	rest()
	at := time.Now()
	within, cancel := context.WithTimeout(h.t.Context(), time.Second)
	defer cancel()
	err = leave(within)
	if within.Err() != nil { // it has released runs, as intended
		err = nil
	}
	h.stops[o.Name] = stop{at: at, how: byClose}
	if err := errors.Join(<-worked, err, st.Close()); err != nil {
		h.t.Error(err)
	}
}

// undisturbed returns the order of a process of the test itself, which loses no lease.
func (h *harness) undisturbed(name string) order {
	o := order{Dir: h.dir, Name: name, Elsewhere: h.host.Elsewhere, Records: h.host.Records, LeaseTTL: time.Minute, Ahead: -*flagAhead}
	if h.host.Defaults {
		o.LeaseTTL = 0
	}
	return o
}

// inspect checks the sessions of the last two groups as dead processes have left them.
func (h *harness) inspect() {
	h.t.Helper()
	began := time.Now()
	defer func() { h.checking += time.Since(began) }()
	h.check(h.groups[max(0, len(h.groups)-2):], false, false)
}

// finish waits until every run has ended or is suspended, then answers until no call is pending, and checks all
// trees each time.
func (h *harness) finish() {
	h.t.Helper()
	o := h.undisturbed("last")
	j, st, eng, leave, err := o.assemble(h.host.Start, h.open, func(point) {})
	if err != nil {
		h.t.Fatal(err)
	}
	c := &clerk{name: "last", eng: eng, journal: j, rng: h.rng}
	for _, answer := range []*clerk{nil, c} {
		if err := settle(h.t.Context(), st, eng, answer); err != nil {
			h.t.Errorf("not everything came to its end: %v", err)
		}
		h.check(h.groups, true, answer != nil)
	}
	within, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if err := leave(within); err != nil {
		h.t.Error(err)
	}
	if err := st.Close(); err != nil {
		h.t.Error(err)
	}
	if ended, _ := h.outlived(); h.tally.steps == 0 || h.tally.staged == 0 || len(ended) == 0 {
		h.t.Errorf("nothing was put to the test: %s, %d runs outlived their process", h.tally, len(ended))
	}
}

// check applies the invariants to the trees of some groups.
func (h *harness) check(groups [][]string, settled, answered bool) {
	h.t.Helper()
	records, read, err := readJournal(h.dir, h.read)
	if err != nil {
		h.t.Fatal(err)
	}
	h.read = read
	for _, r := range records {
		h.journal[r.Session] = append(h.journal[r.Session], r)
		if r.Kind != committed {
			continue
		}
		if h.written[r.Root] == nil {
			h.written[r.Root] = map[string]bool{}
		}
		h.written[r.Root][r.Session] = true
	}
	h.tally = tally{calls: map[string]int{}}
	for _, root := range slices.Concat(groups...) {
		tree, err := h.load(root, settled)
		if err != nil {
			h.t.Fatal(err)
		}
		for id := range h.written[root] {
			if tree == nil || tree.session(id) == nil {
				h.t.Errorf("session %s of tree %s was committed to and does not exist", id, root)
			}
		}
		if tree == nil {
			continue
		}
		tree.Answered, tree.Hosted = answered, !h.host.alone
		for _, err := range tree.check() {
			h.t.Errorf("after life %d, settled %t, answered %t: %v\n%s", h.lives, settled, answered, err, tree.tail(err))
		}
		h.tally.add(tree)
	}
}

// load reads a tree, again as long as the server is down.
func (h *harness) load(root string, settled bool) (tree *Tree, err error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), openWithin)
	defer cancel()
	_ = testclock.Poll(ctx, func() bool {
		tree, err = h.place.load(ctx, root, h.journal, settled)
		return h.host.Server == nil || !errors.Is(err, cairn.ErrUnavailable)
	})
	return tree, err
}
