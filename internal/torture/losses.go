package torture

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Loser is a server whose store can lose its last writes under live processes, as when a replica is promoted.
type Loser interface {
	// Keep remembers what the store has.
	Keep(ctx context.Context) error
	// Lose takes the store back to what was kept, in one step.
	Lose(ctx context.Context) error
}

// lossEvery is the number of stops for which a test with losses loses writes once, which takes as long.
const lossEvery = 10

// RunLosses takes a store back to an earlier moment under processes that drive sessions, again and again: once for ten
// stops of other tests. What was
// acknowledged since is void. What is left must be sound, and no process may continue from its memory: the model must
// not be given a conversation that the store does not have.
func RunLosses(t *testing.T, server Loser, open Open) {
	least := max(2, testenv.Kills(t, 20, 1000)/lossEvery)
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-torture.seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	st, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &losing{T: t, st: st, strayed: map[string]string{}}
	var roots []string
	for _, k := range kinds {
		if strings.HasPrefix(k.name, "per-") && !k.waits { // others do not commit each step
			roots = append(roots, "group0."+k.name, "group1."+k.name)
		}
	}
	if err := server.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var living sync.WaitGroup
	var engines []*engine.Engine
	for n := range drivers {
		eng, leave, own := l.process(dir, fmt.Sprint("p", n), open)
		engines = append(engines, eng)
		o := order{Name: fmt.Sprint("p", n), Pace: 1}
		for i, id := range roots {
			driving := rand.New(rand.NewPCG(seed, uint64(n*100+i)))
			living.Go(func() {
				for ctx.Err() == nil {
					if err := o.drive(ctx, own, eng, id, driving); ctx.Err() == nil && !lost(err) {
						l.Errorf("process %s: %v", o.Name, err)
						return
					}
				}
			})
		}
		living.Go(func() {
			for ctx.Err() == nil {
				if err := eng.Work(ctx); ctx.Err() == nil && !lost(err) {
					l.Errorf("worker of process %s: %v", o.Name, err)
					return
				}
			}
		})
		t.Cleanup(func() {
			within, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if err := leave(within); err != nil {
				t.Error(err)
			}
			own.Close()
		})
	}
	began := time.Now()
	for range least {
		if t.Failed() {
			break
		}
		l.until(func(calls int64) bool { return calls > int64(10+rng.IntN(30)) })
		if err := server.Keep(ctx); err != nil {
			t.Fatal(err)
		}
		l.until(func(calls int64) bool { return calls > int64(10+rng.IntN(30)) })
		if err := server.Lose(ctx); err != nil {
			t.Fatal(err)
		}
		l.losses.Add(1)
	}
	lasted := time.Since(began)
	stop()
	living.Wait()
	behind := int64(0)
	for _, eng := range engines {
		behind += eng.StoreBehind()
	}
	last, leave, own := l.process(dir, "last", open)
	settling, cancel := context.WithTimeout(t.Context(), settleWithin)
	defer cancel()
	if _, err := rest(settling, own, last, nil); err != nil { // the log may lack the end of a run that has survived
		t.Error(err)
	}
	var n tally
	n.calls = map[string]int{}
	for _, root := range roots {
		tree, err := placeOf(own).load(t.Context(), root, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if tree == nil {
			continue
		}
		for _, inv := range Invariants {
			if err := inv.Check(tree); err != nil && !slices.Contains(ofLogs, inv.Name) {
				t.Errorf("tree %s: %s: %v\n%s", root, inv.Name, err, tree.tail(err))
			}
		}
		n.add(tree)
	}
	if err := errors.Join(leave(t.Context()), own.Close(), st.Close()); err != nil {
		t.Error(err)
	}
	t.Logf("%d times in %s the store lost its last writes: %s; %d model calls checked, %d under way at a loss, %d times a process noticed",
		l.losses.Load(), lasted.Round(time.Millisecond), n, l.checked.Load(), len(l.strayed), behind)
	if behind == 0 {
		t.Error("no process noticed that the store had lost writes")
	}
}

// ofLogs are the invariants that do not hold after a loss: a process appends to the log what happened in a run that the
// store has lost.
var ofLogs = []string{"events contiguous", "replay equals live", "one mark per end", "patches lead to the state",
	"what the user said is on the log once, in its place", "queued turns are on the log", "no mark behind the session's place"}

// lost reports whether an error may be that of a process whose store has lost its last writes: the run, or the whole
// session, is gone.
func lost(err error) bool {
	return err == nil || contended(err) || errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrStoreBehind)
}

// losing is a test whose store loses writes.
type losing struct {
	*testing.T
	st      driver.Store
	losses  atomic.Int64
	calls   atomic.Int64 // calls of models since the last keep or loss
	checked atomic.Int64

	mu sync.Mutex
	// strayed are the requests, by process, session and number of losses, that the store did not have: those under way
	// at the loss.
	strayed map[string]string
}

// until waits until the number of the models' calls since the last time is enough.
func (l *losing) until(enough func(calls int64) bool) {
	l.calls.Store(0)
	for !l.Failed() && !enough(l.calls.Load()) {
		if err := testclock.Pause(l.Context(), time.Millisecond); err != nil {
			l.Fatal(err)
		}
	}
}

// process assembles an engine whose models check their requests.
func (l *losing) process(dir, name string, open Open) (*engine.Engine, func(context.Context) error, driver.Store) {
	l.Helper()
	o := order{Dir: dir, Name: name, LeaseTTL: 2 * time.Second}
	checking := func(dir, name string, st driver.Store, agents []*cairn.Agent, opts *engine.Options) (*engine.Engine, func(context.Context) error, error) {
		for _, a := range agents {
			a.Model = &doubter{a.Model, l, name}
		}
		return inProcess(dir, name, st, agents, opts)
	}
	_, st, eng, leave, err := o.assemble(checking, open, func(point) {})
	if err != nil {
		l.Fatal(err)
	}
	return eng, leave, st
}

// doubter is a model that compares its requests with the store.
type doubter struct {
	cairn.Model
	test    *losing
	process string
}

// Stream implements cairn.Model.
func (d *doubter) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	d.test.calls.Add(1)
	if err := d.test.compare(ctx, d.process, req); err != nil {
		d.test.Errorf("process %s, session %s: %v", d.process, req.SessionID, err)
	}
	return d.Model.Stream(ctx, req)
}

// compare finds a request with a message that the store does not have. The request of a process that was under way when
// the store lost it is no fault, but the process must not make another one from its memory.
func (l *losing) compare(ctx context.Context, process string, req *cairn.Request) error {
	held, err := l.st.Read(ctx, req.SessionID, driver.Want{Messages: true})
	if errors.Is(err, cairn.ErrNotFound) {
		held, err = &driver.Contents{}, nil
	}
	if ctx.Err() != nil { // nobody reads the reply
		return nil
	}
	if err != nil {
		return contention(err)
	}
	l.checked.Add(1)
	has := map[string]bool{}
	for i := range held.Messages {
		has[held.Messages[i].Text()] = true
	}
	var stray string
	for i := range req.Messages {
		if m := &req.Messages[i]; !m.Hidden && m.Role != cairn.RoleTool && !has[m.Text()] {
			stray = m.Text()
		}
	}
	if stray == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	when := fmt.Sprint(process, " ", req.SessionID, " ", l.losses.Load())
	if before, ok := l.strayed[when]; ok && before != stray {
		return fmt.Errorf("after loss %d the model was given %q and then %q, which the store does not have", l.losses.Load(), before, stray)
	}
	l.strayed[when] = stray
	return nil
}
