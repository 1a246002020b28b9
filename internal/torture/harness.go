package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

const (
	// livesPerGroup is for how long the same sessions are driven, so that a check need not read ever longer ones. What is
	// left of them is for the workers of later processes.
	livesPerGroup = 10
	livesPerCheck = 10
	// settleWithin is how long bringing everything to its end may take.
	settleWithin = time.Minute
)

// harness is one run of the torture test.
type harness struct {
	t    *testing.T
	open Open
	dir  string
	seed uint64
	rng  *rand.Rand

	lives, kills int
	started      []time.Duration // how long processes took to be ready
	checking     time.Duration   // how long the checks between the kills took
	ways         map[string]int  // kills by plan
	groups       [][]string      // sessions

	journal map[string][]record // by session
	read    int64               // how much of the file
	tally   tally
}

// tally is what a run of the test has seen in the end.
type tally struct{ sessions, runs, crashed, steps, events, discarded, staged, takenOver int }

func (n tally) String() string {
	return fmt.Sprintf("%d sessions, %d runs (%d given up, %d times taken over), %d steps, %d pieces staged, %d events, %d steps discarded",
		n.sessions, n.runs, n.crashed, n.takenOver, n.steps, n.staged, n.events, n.discarded)
}

// median returns the middle one of some times.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// wayCounts says how many processes were killed in which way.
func (h *harness) wayCounts() string {
	return join(slices.Sorted(maps.Keys(h.ways)), func(k string) string { return fmt.Sprintf("%s %d", k, h.ways[k]) })
}

// life starts a process or two and kills them.
func (h *harness) life() {
	if h.lives%livesPerGroup == 0 {
		var group []string
		for _, kind := range kinds {
			group = append(group, fmt.Sprintf("group%d.%s", len(h.groups), kind.name))
		}
		h.groups = append(h.groups, group)
	}
	h.lives++
	plans := []plan{newPlan(h.rng)}
	if h.rng.IntN(4) == 0 {
		plans = pair(h.rng) // two processes that compete for the sessions
	}
	errs := make([]error, len(plans))
	victims := make([]*victim, len(plans))
	var killing sync.WaitGroup
	for i, p := range plans {
		h.ways[p.kind]++
		v := startVictim(h.t, &order{
			Dir: h.dir, Name: fmt.Sprintf("%d%c", h.lives, 'a'+i), Sessions: h.groups[len(h.groups)-1],
			LeaseTTL: time.Duration(100+100*h.rng.IntN(2)) * time.Millisecond, Seed: h.rng.Uint64(), Signal: p.signal,
		})
		victims[i] = v
		killing.Go(func() { errs[i] = v.kill(p) })
	}
	killing.Wait()
	for _, v := range victims {
		if v.ready > 0 {
			h.started = append(h.started, v.ready)
		}
	}
	h.kills += len(plans)
	if err := errors.Join(errs...); err != nil {
		h.t.Errorf("life %d: %v", h.lives, err)
		return
	}
	if h.lives%livesPerCheck == 0 {
		h.inspect()
	}
}

// inspect checks the sessions of the last two groups as dead processes left them.
func (h *harness) inspect() {
	h.t.Helper()
	began := time.Now()
	defer func() { h.checking += time.Since(began) }()
	st, err := h.open(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	h.check(st, h.groups[max(0, len(h.groups)-2):], false)
	if err := st.Close(); err != nil {
		h.t.Error(err)
	}
}

// finish has everything brought to its end, and checks all of it.
func (h *harness) finish() {
	h.t.Helper()
	o := order{Dir: h.dir, Name: "last", LeaseTTL: 300 * time.Millisecond}
	st, eng, err := o.assemble(h.open, func(point) {})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), settleWithin)
	defer cancel()
	if err := h.settle(ctx, st, eng); err != nil {
		h.t.Errorf("not everything came to its end within %s: %v", settleWithin, err)
	}
	if err := eng.Close(ctx); err != nil {
		h.t.Error(err)
	}
	h.check(st, h.groups, true)
	if err := st.Close(); err != nil {
		h.t.Error(err)
	}
	if h.tally.steps == 0 || h.tally.takenOver == 0 || h.tally.staged == 0 {
		h.t.Errorf("nothing was put to the test: %s", h.tally)
	}
}

// settle works until no session is active and no log lacks the end of its session's last run.
func (h *harness) settle(ctx context.Context, st store.Store, eng *engine.Engine) error {
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() {
		if err := eng.Work(ctx); err != nil {
			h.t.Error(err)
		}
	})
	defer working.Wait()
	defer stop()
	var rows []cairn.Session
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for active := 1; active > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d sessions are active: %w", active, ctx.Err())
		}
		var err error
		rows, err = pages(func(q store.PageQuery) (store.Page[cairn.Session], error) {
			return st.List(ctx, store.SessionQuery{Cursor: q.Cursor})
		})
		if err != nil {
			return err
		}
		active = 0
		for i := range rows {
			if rows[i].Status == cairn.SessionActive {
				active++
			}
		}
	}
	errs := make([]error, len(rows))
	var following sync.WaitGroup
	for i := range rows {
		following.Go(func() { errs[i] = followToEnd(ctx, eng, &rows[i]) })
	}
	following.Wait()
	return errors.Join(errs...)
}

// followToEnd reads what a session's log says after the last commit, until it tells the end of the last run.
func followToEnd(ctx context.Context, eng *engine.Engine, row *cairn.Session) error {
	for ev, err := range eng.Events(ctx, row.ID, row.LogSequence) {
		if err != nil {
			return err
		}
		if ev.Ends(row.RunID) {
			return nil
		}
	}
	return fmt.Errorf("session %s: the log does not tell the end of run %s: %w", row.ID, row.RunID, ctx.Err())
}

// check applies the invariants to the sessions of some groups.
func (h *harness) check(st store.Store, groups [][]string, settled bool) {
	h.t.Helper()
	records, read, err := readJournal(h.dir, h.read)
	if err != nil {
		h.t.Fatal(err)
	}
	h.read = read
	for _, r := range records {
		h.journal[r.Session] = append(h.journal[r.Session], r)
	}
	h.tally = tally{}
	for _, id := range slices.Concat(groups...) {
		history, err := load(h.t.Context(), st, id, h.journal[id], settled)
		if err != nil {
			h.t.Fatal(err)
		}
		if history == nil {
			if len(h.journal[id]) > 0 && slices.ContainsFunc(h.journal[id], func(r record) bool { return r.Kind == committed }) {
				h.t.Errorf("session %s was committed to and does not exist", id)
			}
			continue
		}
		for _, err := range history.check() {
			h.t.Errorf("after life %d, settled %t: %v\n%s", h.lives, settled, err, history.tail())
		}
		h.tally.add(history)
	}
}

func (n *tally) add(h *History) {
	n.sessions++
	n.runs += len(h.Runs)
	n.events += len(h.Events)
	for i := range h.Runs {
		if h.Runs[i].Status == cairn.RunInterrupted {
			n.crashed++
		}
	}
	for _, t := range h.turns() {
		n.steps += len(t.steps)
	}
	for i := range h.Events {
		if h.Events[i].Type == cairn.EventStepDiscarded {
			n.discarded++
		}
	}
	for _, r := range h.Journal {
		if r.Kind == staged {
			n.staged++
		}
		if r.Took && r.Began == "" {
			n.takenOver++
		}
	}
}

// tail shows the last events and records of a history, for whoever has to find out what went wrong.
func (h *History) tail() string {
	const most = 60
	var b strings.Builder
	for _, ev := range h.Events[max(0, len(h.Events)-most):] {
		fmt.Fprintf(&b, "  %5d %s %-15s %s/%d %s %s %.60q\n", ev.Sequence, ev.Time.Format("05.000000"), ev.Type, ev.RunID, ev.Step, ev.CallID, ev.Tool, ev.Text)
	}
	for _, r := range h.Journal[max(0, len(h.Journal)-most):] {
		fmt.Fprintf(&b, "  %+v\n", r)
	}
	return b.String()
}
