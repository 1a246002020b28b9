package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// drivers and clerks are the numbers of processes of each sort that live at once.
	drivers, clerks = 3, 1
	// roundOf is the number of processes in a round. Each round has its own sessions, so that checks read bounded
	// histories. Workers of later processes complete what a round has left.
	roundOf = 24
	// longLease is the lease of some processes that get SIGTERM: no process should have to wait until it lapses.
	longLease = 3 * time.Second
	// settleWithin bounds the time for all sessions to settle.
	settleWithin = 5 * time.Minute
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

// tally counts what a run of the test has checked.
type tally struct {
	sessions, below, runs, stopped, steps, events, discarded, staged, takenOver int
	// Stops of a session by itself, as opposed to those of a turn that takes its place.
	held int
	// Messages to sessions whose process was gone, those that were acknowledged, and runs that they undid.
	messages, acknowledged, undone int
	// Turns, and messages that joined a turn.
	queued, dequeued, joined int
	// Checkpoints between turns.
	byHand int
	// Pending calls by outcome.
	calls map[string]int
}

func (n tally) String() string {
	counts := join(slices.Sorted(maps.Keys(n.calls)), func(k string) string { return fmt.Sprintf("%s %d", k, n.calls[k]) })
	return fmt.Sprintf("%d sessions (%d below roots), %d runs (%d stopped, %d stops acknowledged, %d times taken over, %d queued, %d dequeued, %d messages joined, "+
		"%d sent after a process had died, %d of them acknowledged, %d runs undone), "+
		"%d steps, %d pieces staged, %d checkpoints by hand, %d events, %d steps discarded; calls: %s", n.sessions, n.below, n.runs, n.stopped, n.held, n.takenOver, n.queued, n.dequeued, n.joined,
		n.messages, n.acknowledged, n.undone,
		n.steps, n.staged, n.byHand, n.events, n.discarded, counts)
}

// median returns the median of durations.
func median(list []time.Duration) time.Duration { return quantile(list, 0.5) }

// quantile returns the smallest duration that the given share of the durations does not exceed.
func quantile(list []time.Duration, share float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(int(share*float64(len(list))), len(list)-1)]
}

func counts(by map[string]int) string {
	return join(slices.Sorted(maps.Keys(by)), func(k string) string { return fmt.Sprintf("%s %d", k, by[k]) })
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
	ctx, cancel := context.WithTimeout(h.t.Context(), h.idle())
	defer cancel()
	worked := make(chan error, 1)
	work, rest := context.WithCancel(ctx)
	go func() { worked <- eng.Work(work) }()
	if err := h.watch.taken(ctx); err != nil {
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
	o := order{Dir: h.dir, Name: name, Elsewhere: h.host.Elsewhere, LeaseTTL: time.Minute, Ahead: -*flagAhead}
	if h.host.Defaults {
		o.LeaseTTL = 0
	}
	return o
}

// life is the plan of one process.
type life struct {
	order order
	plan  plan
}

// plan draws what a process does and how it ends.
func (h *harness) plan(group []string, clerk bool) life {
	h.lives++
	p, lease := newPlan(h.rng), between(h.rng, 100, 200)
	if p.end == byTerm && p.frozen == 0 && h.rng.IntN(2) == 0 {
		lease = longLease
	}
	pace := int(h.pace.Load())
	lease *= time.Duration(pace)
	o := order{LeaseTTL: lease}
	if h.host.Defaults {
		lease, o.LeaseTTL = 30*time.Second, 0
	}
	p = p.slowed(pace, lease)
	o.Dir, o.Name, o.Sessions, o.Clerk, o.Alone, o.Elsewhere = h.dir, strconv.Itoa(h.lives), group, clerk, h.host.alone, h.host.Elsewhere
	o.Pace, o.Seed, o.Signal, o.Grace = pace, h.rng.Uint64(), p.signal, p.grace
	o.Ahead = time.Duration(h.rng.Int64N(int64(2**flagAhead+1))) - *flagAhead
	return life{o, p}
}

// live starts a process, stops it, and checks that the store lists what needs a worker.
func (h *harness) live(l life, since time.Time) {
	v := startVictim(h.t, &l.order)
	if err := v.stop(l.plan); err != nil {
		h.t.Error(err)
		return
	}
	h.mu.Lock()
	if v.ready > 0 {
		h.started = append(h.started, v.ready)
	}
	h.stops[v.name] = stop{v.last, l.plan.end, l.plan.frozen > 0}
	h.moments[l.plan.moment]++
	h.mu.Unlock()
	if !l.order.Clerk { // a clerk may outlive the last worker of its round
		for _, err := range h.watch.ask(h.t.Context(), since) {
			h.t.Errorf("after process %s had ended (%s): %v", v.name, l.plan.end, err)
		}
	}
	// With a short lease, a process may consider the lease lost while it is being renewed.
	if pid := v.cmd.Process.Pid; l.plan.end == byTerm && !l.plan.fromStart && h.host.Server == nil && h.host.alone && l.order.LeaseTTL >= longLease {
		if err := h.watch.left(h.t.Context(), pid); err != nil {
			h.t.Errorf("process %s was asked to end: %v", v.name, err)
		}
	}
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
			h.t.Errorf("not everything came to its end within %s: %v", settleWithin, err)
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

// settle works until nothing is due and every log has the end of its session's last run. With a clerk, it works
// until every pending call has been answered.
func settle(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	rows, err := rest(ctx, st, eng, answer)
	if err != nil {
		return err
	}
	errs := make([]error, len(rows))
	var following sync.WaitGroup
	turns := make(chan struct{}, 256) // a process has a limited number of connections
	for i := range rows {
		turns <- struct{}{}
		following.Go(func() {
			errs[i] = followToEnd(ctx, st, eng, &rows[i])
			<-turns
		})
	}
	following.Wait()
	return errors.Join(errs...)
}

// rest works until no session is at work or, with a clerk, waits for an answer, and returns all sessions.
func rest(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) ([]cairn.Session, error) {
	atWork := func(row cairn.Session) bool { return atWork(row) || answer != nil && row.Status == cairn.SessionPaused }
	rows, err := quiet(ctx, st, eng, answer)
	// A deadline may pass, or a queued turn may begin, while the worker stops.
	for err == nil && slices.ContainsFunc(rows, atWork) {
		rows, err = quiet(ctx, st, eng, answer)
	}
	return rows, err
}

// atWork reports whether a session is being driven, or will be once a worker polls.
func atWork(row cairn.Session) bool {
	return row.Status == cairn.SessionActive || row.Queued > 0 && row.Status != cairn.SessionPaused
}

// quiet works until no session is active, nothing is due and, with a clerk, no call is pending. It returns all
// sessions as of after the worker has stopped.
func quiet(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) ([]cairn.Session, error) {
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- eng.Work(work) }()
	err := awaitQuiet(ctx, st, answer)
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		return nil, err
	}
	return pages(func(cursor string) (driver.Page[cairn.Session], error) {
		return st.List(ctx, driver.SessionQuery{Cursor: cursor})
	})
}

func awaitQuiet(ctx context.Context, st driver.Store, answer *clerk) error {
	busy := []cairn.SessionStatus{cairn.SessionActive}
	if answer != nil {
		busy = append(busy, cairn.SessionPaused)
	}
	for {
		if answer != nil {
			if err := answer.clear(ctx); err != nil {
				return err
			}
		}
		page, err := st.Due(ctx, driver.DueQuery{Limit: 10})
		due := page.Items
		if err != nil {
			return err
		}
		at, err := st.List(ctx, driver.SessionQuery{Statuses: busy, Limit: 10})
		if err != nil {
			return err
		}
		if len(due) == 0 && len(at.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("due are %+v, and still at it %+v: %w", due, at.Items, err)
		}
	}
}

// followToEnd follows a session's log from the begin of its last run to the end of that run.
func followToEnd(ctx context.Context, st driver.Store, eng *engine.Engine, row *cairn.Session) error {
	run, err := driver.FindRun(ctx, st, row.ID, row.RunID)
	if err != nil {
		return err
	}
	for ev, err := range eng.Events(ctx, row.ID, cairn.After(run.StartSequence)) {
		if err != nil {
			return err
		}
		if ev.Ends(run.ID) && ev.Status == run.Status {
			return nil
		}
	}
	return fmt.Errorf("session %s: the log does not say that run %s is %s: %w", row.ID, run.ID, run.Status, ctx.Err())
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
		tree, err := h.place.load(h.t.Context(), root, h.journal, settled)
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

func (n *tally) add(t *Tree) {
	n.sessions += len(t.Sessions)
	n.below += len(t.Sessions) - 1
	n.events += len(t.Events)
	for i := range t.Events {
		if t.Events[i].Type == cairn.EventStepDiscarded {
			n.discarded++
		}
	}
	for _, h := range t.Sessions {
		n.runs += len(h.Runs)
		for i := range h.Runs {
			if stopped(&h.Runs[i]) {
				n.stopped++
			}
		}
		n.undone += len(h.undone())
		for _, t := range h.turns() {
			n.steps += len(t.steps)
		}
		for i := range h.Calls {
			c := &h.Calls[i]
			what := string(c.Kind) + " " + string(c.Status)
			if c.Answer != nil {
				what += " " + string(c.Answer.Kind)
			}
			n.calls[what]++
		}
		for i := range h.Messages {
			if joined(&h.Messages[i]) {
				n.joined++
			}
		}
		for i := range h.Checkpoints {
			if c := &h.Checkpoints[i]; c.StepID == c.ID {
				n.byHand++
			}
		}
		for _, r := range h.Journal {
			switch {
			case r.Kind == stopHeld:
				n.held++
			case r.Kind == dequeued:
				n.dequeued++
			case r.Kind == sending:
				n.messages++
			case r.Kind == sent:
				n.acknowledged++
			case r.Kind == staged:
				n.staged++
			case r.Took && r.Began == "":
				n.takenOver++
			case r.Kind == committed && r.Queued != "":
				n.queued++
			case r.Outcome == cairn.OutcomeLate:
				n.calls["late"]++
			}
		}
	}
}

// tail returns, for debugging, the last events of a tree, the events of the runs and calls that the error names,
// and the last records of the sessions that it names.
func (t *Tree) tail(about error) string {
	const most = 100
	var b strings.Builder
	names := func(id string) bool { return id != "" && strings.Contains(about.Error(), id) }
	for i, ev := range t.Events {
		if i < len(t.Events)-most && !names(ev.RunID) && !names(ev.CallID) {
			continue
		}
		fmt.Fprintf(&b, "  %5d %s %-15s %s %s/%d %s %s %s %.60q\n", ev.Sequence, ev.Time.Format("05.000000"), ev.Type, ev.SessionID, ev.RunID, ev.Step,
			ev.CallID, ev.Tool, ev.Status, ev.Text)
	}
	for _, h := range t.Sessions {
		if !strings.Contains(about.Error(), h.Session.ID) {
			continue
		}
		fmt.Fprintf(&b, "  %+v\n", *h.Session)
		for i := range h.Runs {
			fmt.Fprintf(&b, "  run %+v\n", h.Runs[i])
		}
		for i := max(0, len(h.Messages)-30); i < len(h.Messages); i++ {
			m := &h.Messages[i]
			fmt.Fprintf(&b, "  %d %s %s %s %q", i, m.ID, m.RunID, m.Role, m.Text())
			for _, u := range m.ToolUses() {
				fmt.Fprintf(&b, " use %s %s", u.CallID, u.Tool)
			}
			for _, r := range m.ToolResults() {
				fmt.Fprintf(&b, " result %s %s %.60s", r.CallID, r.Tool, r.Output)
			}
			fmt.Fprintln(&b)
		}
		for _, r := range h.Journal[max(0, len(h.Journal)-most):] {
			fmt.Fprintf(&b, "  %+v\n", r)
		}
	}
	return b.String()
}
