package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/store/driver"
)

// Cold is a host that executes each effect in a new engine, so that nothing stays in memory between effects.
var Cold = Host{Name: "cold", Start: remote(1, 0), Crashes: 8}

// Repeating is like Cold, but executes each effect twice and uses the second result only, as if the first had been
// lost.
var Repeating = Host{Name: "repeating", Start: remote(2, 0), Crashes: 8}

// Alternating is a host that executes effects alternately in two engines, each with the cache of its last effect.
var Alternating = Host{Name: "alternating", Start: remote(1, 2), Crashes: 8}

// remote returns a Start function. Its processes execute each effect the given number of times, alternately in a
// number of warm engines, or each time in a new engine if warm is 0.
func remote(times, warm int) func(testing.TB, driver.Store, []*cairn.Agent, *engine.Options) *engine.Engine {
	return func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		h := &dispersed{tb: tb, times: times}
		h.ctx, h.cancel = context.WithCancel(context.Background())
		own := *opts
		own.Host = h
		h.make = func() *engine.Engine {
			eng, err := engine.New(st, agents, &own)
			if err != nil {
				tb.Fatal(err)
			}
			return eng
		}
		tb.Cleanup(func() {
			h.cancel()
			h.loops.Wait()
			for _, eng := range h.warm {
				h.close(eng)
			}
		})
		for range warm {
			h.warm = append(h.warm, h.make())
		}
		return h.make()
	}
}

// dispersed drives runs in goroutines, but executes their effects in engines that share nothing. All that passes
// between the loop and the engines is JSON.
type dispersed struct {
	tb     testing.TB
	times  int
	make   func() *engine.Engine
	warm   []*engine.Engine
	turns  atomic.Int64
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

func (h *dispersed) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	b, err := recoded(b)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var failed error
	h.loops.Go(func() {
		defer close(done)
		_, failed = loop.Drive(h.in(ctx), b)
	})
	return func(ctx context.Context) error {
		select {
		case <-done:
			return failed
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// in returns a scheduler whose effects have the values of a context.
func (h *dispersed) in(values context.Context) dispersion {
	return dispersion{h, values}
}

type dispersion struct {
	*dispersed
	values context.Context
}

func (d dispersion) Do(e host.Effect) error {
	in, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(d.values)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	var out json.RawMessage
	times := d.times
	if e.Name == host.EffectNotify { // hooks of a run's end may run again
		times = 1
	}
	for range times {
		if out, err = d.effect(ctx, e.Name, in); err != nil {
			return err
		}
	}
	return json.Unmarshal(out, e.Out)
}

func (d dispersion) effect(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	if len(d.warm) > 0 {
		return d.warm[d.turns.Add(1)%int64(len(d.warm))].ForHost().Effect(ctx, name, in)
	}
	eng := d.make()
	defer d.close(eng)
	return eng.ForHost().Effect(ctx, name, in)
}

func (h *dispersed) close(eng *engine.Engine) {
	if err := eng.Close(h.ctx); err != nil && h.ctx.Err() == nil {
		h.tb.Errorf("close: %v", err)
	}
}

func (d dispersion) All(n int, branch func(host.Scheduler, int) error) error {
	errs := make([]error, n)
	var branches sync.WaitGroup
	for i := range n {
		branches.Go(func() { errs[i] = branch(d, i) })
	}
	branches.Wait()
	return errors.Join(errs...)
}

func (d dispersion) Child(_ host.Call, b host.Run) error {
	b, err := recoded(b)
	if err == nil {
		_, err = loop.Drive(d, b)
	}
	return err
}

// recoded returns a value encoded as JSON and decoded again.
func recoded[T any](v T) (back T, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &back)
	}
	return back, err
}
