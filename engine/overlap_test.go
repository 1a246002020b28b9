package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

var flagOverlapSeed = flag.Uint64("overlap.seed", 0, "seed of the attempts that overlap; 0 chooses one for each turn")

// A host takes live attempts at effects for dead and begins others, and any of them may die at any moment. The turn
// ends, each step is there once, and the log agrees with the store. -overlap.seed repeats what happens to the attempts,
// though hardly their interleaving.
func TestAttemptsThatOverlap(t *testing.T) {
	t.Parallel()
	for range testenv.Choose(60, 20_000) {
		seed := cmp.Or(*flagOverlapSeed, rand.Uint64())
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			overlapping(t, seed).drive()
		})
	}
}

// overlap is a host that abandons attempts at effects at random. Each attempt has its own engine and connection.
type overlap struct {
	*testing.T
	st    *memstore.Store
	agent *cairn.Agent
	ended chan error
	late  sync.WaitGroup // abandoned attempts

	mu  sync.Mutex
	rng *rand.Rand
	did []string
}

func overlapping(t *testing.T, seed uint64) *overlap {
	h := &overlap{T: t, st: memstore.New(nil), rng: rand.New(rand.NewPCG(seed, 11)), ended: make(chan error, 1)}
	h.agent = h.bot(durabilities[seed%uint64(len(durabilities))])
	return h
}

// bot returns an agent each of whose attempts at a reply or a call says something else.
func (h *overlap) bot(d cairn.Durability) *cairn.Agent {
	var attempts atomic.Int64
	says := func(text string) scripted.Step {
		return scripted.Reply(scripted.Text(text), h.pause(), scripted.Text(fmt.Sprintf(" (%d) ", attempts.Add(1))), h.pause())
	}
	work := tool("work", func(ctx context.Context, call *cairn.Call, in in) (string, error) {
		testclock.Deaf(h.while(20))
		n := fmt.Sprintf("%s %d", in.Text, attempts.Add(1))
		return n, call.Append([]string{"did"}, n)
	})
	helper := &cairn.Agent{Name: "helper", Durability: d, Tools: []cairn.Tool{work}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) == 1 {
			return scripted.Reply(says("helping"), scripted.Call("work", in{"h"}))
		}
		return says("helped")
	})}
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch len(req.Messages) {
		case 1:
			return scripted.Reply(says("first"), scripted.Call("work", in{"a"}), h.pause(), scripted.Call("work", in{"b"}))
		case 3:
			return scripted.Reply(says("second"), scripted.Call("helper", map[string]string{"input": "go"}), scripted.Call("work", in{"c"}))
		}
		return says("done")
	}), work, cairn.SubAgent(helper))
	a.Durability = d
	a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
		testclock.Deaf(h.while(5))
		return cairn.Accept(), nil
	}
	return a
}

// while returns a time in tenths of a millisecond: in real time, since a slow log makes others wait for mutexes.
func (h *overlap) while(most int) time.Duration {
	return time.Duration(h.draw(most)) * 100 * time.Microsecond
}

func (h *overlap) pause() scripted.Step { return scripted.Pause(h.while(10)) }

func (h *overlap) draw(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

func (h *overlap) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// open begins a process with a slow store and log.
func (h *overlap) open() (*engine.Engine, *tap) {
	st := tapOn(h.st)
	st.stepIn(h.slow, h.slow)
	st.log.stepIn(func(ctx context.Context, _ []cairn.Event) error { return h.slow(ctx, "") })
	eng, err := engine.New(st, []*cairn.Agent{h.agent}, &engine.Options{Host: h, LeaseTTL: 500 * time.Millisecond, Coalesce: time.Duration(h.draw(3)-1) * 500 * time.Microsecond})
	if err != nil {
		h.Fatal(err)
	}
	return eng, st
}

func (h *overlap) slow(context.Context, string) error {
	if h.draw(3) == 0 {
		testclock.Deaf(h.while(8))
	}
	return nil
}

func (h *overlap) drive() {
	eng, _ := h.open()
	defer leave(h.T, eng)
	start(h.T, eng, "s", "go")
	if err := <-h.ended; err != nil {
		h.Error(err)
	}
	h.late.Wait()
	wantSound(h.T, h.st, "s")
	if row := load(h.T, h.st, "s"); row.Status != cairn.SessionCompleted || row.Step != 3 {
		h.Errorf("the session is %s after %d steps", row.Status, row.Step)
	}
	if h.Failed() {
		for _, ev := range history(h.T, h.st, "s") {
			h.Logf("%d %s %s %s step %d %s %q", ev.Sequence, ev.Time.Format("05.000"), ev.Type, ev.SessionID, ev.Step, ev.CallID, ev.Text)
		}
		h.Log("\n" + strings.Join(h.did, "\n"))
	}
}

// Start implements host.Host.
func (h *overlap) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	go func() {
		_, err := loop.Drive(h, b)
		h.ended <- err
	}()
	return func(context.Context) error { return nil }, nil
}

// Do implements host.Scheduler.
func (h *overlap) Do(e host.Effect) error {
	raw, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	for range 20 {
		out, err := h.attempt(e.Name, raw)
		if errors.Is(err, cairn.ErrUnavailable) {
			testclock.Deaf(h.while(10))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		return json.Unmarshal(out, e.Out)
	}
	return fmt.Errorf("%s: tried too often", e.Name)
}

// attempt carries an effect out, or abandons it: an abandoned attempt may continue for some time.
func (h *overlap) attempt(name string, in json.RawMessage) (json.RawMessage, error) {
	eng, st := h.open()
	type result struct {
		out json.RawMessage
		err error
	}
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan result, 1)
	began := time.Now().Format("05.000")
	go func() {
		out, err := eng.ForHost().Effect(ctx, name, in)
		h.note("%s %s began at %s: %s %v", name, in, began, out, err)
		came <- result{out, err}
		leave(h.T, eng)
		cancel()
	}()
	patience := time.Hour
	if name != host.EffectNotify && h.draw(3) == 0 {
		patience = h.while(60)
	}
	select {
	case r := <-came:
		return r.out, r.err
	case <-time.After(patience):
	}
	h.note("%s %s that began at %s is given up", name, in, began)
	h.late.Go(func() {
		if h.draw(2) == 0 {
			testclock.Deaf(h.while(40))
			st.cut()
			st.stepIn(func(context.Context, string) error { return context.Canceled }, nil) // without a retry
			cancel()
			h.note("%s %s that began at %s dies", name, in, began)
			<-came
			return
		}
		late := []error{cairn.ErrUnavailable, cairn.ErrFenced, context.Canceled}
		if r := <-came; r.err != nil && !slices.ContainsFunc(late, func(err error) bool { return errors.Is(r.err, err) }) {
			h.Errorf("an attempt at %s that was given up: %v", name, r.err)
		}
	})
	return nil, cairn.Errorf(cairn.ErrUnavailable, "given up")
}

// All implements host.Scheduler.
func (h *overlap) All(n int, branch func(host.Scheduler, int) error) error {
	errs := make([]error, n)
	var branches sync.WaitGroup
	for i := range n {
		branches.Go(func() { errs[i] = branch(h, i) })
	}
	branches.Wait()
	return errors.Join(errs...)
}

// Child implements host.Scheduler.
func (h *overlap) Child(_ host.Call, b host.Run) error {
	_, err := loop.Drive(h, b)
	return err
}
