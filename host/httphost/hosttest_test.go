package httphost_test

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Every conversation has the outcome that it has on any host, although calls are doubled, reordered, lost, and cut off
// before their answer.
func TestHost(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, onCalls("http"), hosttest.Store{Name: "memstore", Bubble: true, Set: testenv.Choose(hosttest.OnHost, hosttest.Every),
		Open: func(_ testing.TB, now func() time.Time) driver.Store {
			return memstore.New(&memstore.Options{Now: now})
		}})
}

// onCalls returns a host whose runs are driven by a caller for each run, in the process that began it.
func onCalls(name string) hosttest.Host {
	return hosttest.Host{Name: name, Records: true, Crashes: testenv.Choose(4, 0), Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		c := &callers{tb: tb}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		h, err := httphost.New(&httphost.Options{Start: c.start})
		if err != nil {
			tb.Fatal(err)
		}
		own := *opts
		own.Host = waitable{h, c}
		if c.eng, err = engine.New(st, agents, &own); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			c.cancel()
			c.loops.Wait()
		})
		return c.eng
	}}
}

// waitable is a host whose runs can be waited for. It is not a Keeper, since the callers of a dead process are dead.
type waitable struct {
	host.Host
	c *callers
}

func (h waitable) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	if _, err := h.Host.Start(ctx, b); err != nil {
		return nil, err
	}
	v, _ := h.c.by.Load(leaseOf(b))
	l := v.(*loop)
	return func(ctx context.Context) error {
		select {
		case <-l.done:
			return l.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

type lease struct {
	run   string
	token int64
}

func leaseOf(b host.Run) lease { return lease{b.SessionID + " " + b.RunID, b.Token} }

// loop is a caller's loop over a run.
type loop struct {
	done chan struct{}
	err  error
}

// callers drive the runs of a process.
type callers struct {
	tb     testing.TB
	eng    *engine.Engine
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup
	by     sync.Map // of lease to *loop
	n      atomic.Uint64
}

func (c *callers) start(ctx context.Context, run host.Run) error {
	l := &loop{done: make(chan struct{})}
	if _, twice := c.by.LoadOrStore(leaseOf(run), l); twice {
		return nil
	}
	seed := fnv.New64a()
	seed.Write([]byte(c.tb.Name()))
	rng := rand.New(rand.NewPCG(seed.Sum64(), c.n.Add(1)))
	values := context.WithoutCancel(ctx)
	c.loops.Go(func() {
		ctx, cancel := context.WithCancel(values) // has the hooks of the call that began the run
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		l.err = (&caller{callers: c, rng: rng}).drive(ctx, run)
		close(l.done)
	})
	return nil
}

// caller drives one run by calls that may go wrong.
type caller struct {
	*callers
	rng  *rand.Rand
	past []host.Run // earlier references
}

func (c *caller) drive(ctx context.Context, at host.Run) error {
	late := sync.WaitGroup{}
	defer late.Wait()
	for {
		if len(c.past) > 0 && c.rng.IntN(4) == 0 { // a late call
			old := c.past[c.rng.IntN(len(c.past))]
			late.Go(func() { _, _ = c.advance(ctx, old) })
		}
		p, err := c.call(ctx, at)
		switch {
		case err == nil && p.State != engine.AdvanceMore:
			return nil
		case err == nil:
			c.past = append(c.past, at)
			at = p.Run
			continue
		case errors.Is(err, errLost), errors.Is(err, cairn.ErrAlreadyRunning), errors.Is(err, cairn.ErrUnavailable):
		default:
			return err
		}
		if err := testclock.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// errLost is the error of a call without an answer.
var errLost = errors.New("no answer")

// call makes a call, which may be lost, doubled or cut off.
func (c *caller) call(ctx context.Context, at host.Run) (*engine.Progress, error) {
	switch fate := c.rng.IntN(10); fate {
	case 0: // the request is lost
		return nil, errLost
	case 1: // the answer is lost
		_, _ = c.advance(ctx, at)
		return nil, errLost
	case 2, 3: // the caller disconnects, or the deadline passes
		short, cancel := context.WithTimeout(ctx, time.Duration(c.rng.IntN(2000))*time.Microsecond)
		defer cancel()
		if fate == 2 {
			short, cancel = context.WithCancel(ctx)
			cancel()
		}
		p, err := c.advance(short, at)
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			err = errLost
		}
		return p, err
	case 4: // the call is doubled
		var first *engine.Progress
		var other error
		done := make(chan struct{})
		go func() {
			defer close(done)
			first, other = c.advance(ctx, at)
		}()
		p, err := c.advance(ctx, at)
		<-done
		if errors.Is(err, cairn.ErrAlreadyRunning) && errors.Is(other, cairn.ErrAlreadyRunning) {
			c.tb.Errorf("both calls were refused: %v, %v", err, other)
		}
		if c.rng.IntN(2) == 0 {
			return first, other
		}
		return p, err
	}
	return c.advance(ctx, at)
}

// advance calls the engine with what JSON makes of the reference.
func (c *callers) advance(ctx context.Context, at host.Run) (*engine.Progress, error) {
	raw, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	var run host.Run
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, err
	}
	return c.eng.Advance(ctx, run)
}
