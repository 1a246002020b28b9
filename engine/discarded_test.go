package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// priced is a model with a price per token: 1 nano-dollar of input, 10 of output.
type priced struct{ cairn.Model }

func (priced) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: "penny"} }

func pennies(o *engine.Options) {
	penny := cairn.Price{Input: 1000, Output: 10_000}
	o.Models = cairn.ModelTable{
		{Provider: "test", Name: "penny", Window: 100_000, Price: penny, Long: &cairn.LongPrice{Over: 250, Price: cairn.Price{Input: 5000, Output: 50_000}}, AsOf: "2026-11-01", Source: "test"},
		{Provider: "test", Name: "dear", Price: cairn.Price{Input: 100_000, Output: 1_000_000}, AsOf: "2026-11-01", Source: "test"},
	}
}

func spends(input, output int64) scripted.Step {
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: input, OutputTokens: output}})
}

func fails(code cairn.Code) scripted.Step { return scripted.Fail(cairn.Errorf(code, "cut")) }

// What a provider reports of a call counts once, in the run, in the session and on the log, whatever becomes of the
// call.
func TestUsageOfDiscardedCalls(t *testing.T) {
	t.Parallel()
	cut := scripted.Reply(spends(100, 7), scripted.Text("Half an"), fails(cairn.ErrOverloaded))
	last := cairn.Usage{InputTokens: 100, OutputTokens: 9, ModelCalls: 1, PricedCalls: 1, CostNanos: 190}
	whole := scripted.Text("Whole.").Usage(100, 9)
	lost := func(n int64) cairn.Usage {
		return cairn.Usage{InputTokens: n * 100, OutputTokens: n * 7, DiscardedCalls: n, PricedCalls: n, CostNanos: n * 170}
	}
	for name, test := range map[string]struct {
		steps  []scripted.Step
		status cairn.RunStatus
		want   cairn.Usage
	}{
		"retried":                           {[]scripted.Step{cut, cut, whole}, cairn.RunCompleted, lost(2).Add(last)},
		"retried before it said anything":   {[]scripted.Step{scripted.Reply(spends(100, 7), fails(cairn.ErrOverloaded)), whole}, cairn.RunCompleted, lost(1).Add(last)},
		"retried without usage":             {[]scripted.Step{fails(cairn.ErrOverloaded), whole}, cairn.RunCompleted, last},
		"failed in every attempt":           {[]scripted.Step{cut, cut, cut, cut}, cairn.RunFailed, lost(4)},
		"failed for good":                   {[]scripted.Step{scripted.Reply(spends(100, 7), scripted.Text("Half an"), fails(cairn.ErrModelRequest))}, cairn.RunFailed, lost(1)},
		"refused":                           {[]scripted.Step{scripted.Reply(spends(100, 7), fails(cairn.ErrFiltered))}, cairn.RunFailed, lost(1)},
		"broke off":                         {[]scripted.Step{scripted.Reply(spends(100, 7), scripted.Break()), whole}, cairn.RunCompleted, lost(1).Add(last)},
		"began its reply again":             {[]scripted.Step{scripted.Reply(spends(100, 7), scripted.Text("Half"), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkRestart}), scripted.Text("Whole.")).Usage(100, 9)}, cairn.RunCompleted, lost(1).Add(last)},
		"a chunk that is not valid":         {[]scripted.Step{scripted.Reply(spends(100, 7), scripted.Chunk(cairn.Chunk{Type: "strange"})), whole}, cairn.RunCompleted, lost(1).Add(last)},
		"a later step fails":                {[]scripted.Step{scripted.Call("echo", in{"x"}).Usage(100, 9), scripted.Reply(spends(100, 7), fails(cairn.ErrFiltered))}, cairn.RunFailed, lost(1).Add(last).Add(cairn.Usage{ToolCalls: 1})},
		"usage that is reported repeatedly": {[]scripted.Step{scripted.Reply(spends(100, 1), spends(100, 7), fails(cairn.ErrFiltered))}, cairn.RunFailed, lost(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New(nil)
				eng := open(t, st, bot(priced{scripted.New(test.steps...)}, echo("echo")), with(pennies))
				res := turn(t, eng, "s", "go")
				if res.Status != test.status {
					t.Fatalf("the run is %s: %v", res.Status, res.Error)
				}
				wantUsage(t, st, res, test.want)
			})
		})
	}
}

// wantUsage checks the usage of a session with one run.
func wantUsage(t *testing.T, st driver.LogProvider, res *cairn.Result, want cairn.Usage) {
	t.Helper()
	all := st.(store.Store)
	var logged cairn.Usage
	steps := map[int]cairn.Usage{}
	for _, ev := range history(t, st, "s") {
		switch ev.Type {
		case cairn.EventUsage:
			steps[ev.Step] = steps[ev.Step].Add(*ev.Usage)
		case cairn.EventStepDiscarded:
			maps.DeleteFunc(steps, func(step int, _ cairn.Usage) bool { return step >= ev.Step })
		}
	}
	for _, used := range steps {
		logged = logged.Add(used)
	}
	for of, got := range map[string]cairn.Usage{"the result": res.Usage, "the session": load(t, all, "s").Usage, "the run": runsOf(t, all, "s")[0].Usage, "the log": logged} {
		if string(marshal(got)) != string(marshal(want)) {
			t.Errorf("%s has %s\nwant %s", of, marshal(got), marshal(want))
		}
	}
}

// A stopped call has used what was reported until then, and the attempts before it what they reported.
func TestUsageOfAStoppedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, bot(priced{scripted.New(scripted.Reply(spends(100, 7), fails(cairn.ErrOverloaded)), scripted.Reply(spends(200, 1), scripted.Pause(time.Hour)))}), with(pennies))
		run := start(t, eng, "s", "go")
		testclock.Advance(time.Minute)
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		res := wait(t, run)
		wantStatus(t, res, cairn.RunInterrupted, cairn.ReasonInterrupted)
		wantUsage(t, st, res, cairn.Usage{InputTokens: 300, OutputTokens: 8, ModelCalls: 1, DiscardedCalls: 1, PricedCalls: 2, CostNanos: 380})
	})
}

// A run stopped while its next attempt is due has used what the earlier ones reported.
func TestUsageOfAStopBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		later := scripted.Fail(&cairn.Error{Code: cairn.ErrRateLimited, Message: "later", RetryAfter: cairn.Duration(30 * time.Second)})
		eng := open(t, st, bot(priced{scripted.New(scripted.Reply(spends(100, 7), later))}), with(pennies))
		run := start(t, eng, "s", "go")
		testclock.Advance(time.Second)
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, st, wait(t, run), cairn.Usage{InputTokens: 100, OutputTokens: 7, DiscardedCalls: 1, PricedCalls: 1, CostNanos: 170})
	})
}

// The requests that a provider made for one reply each have the price of their own model and size. What the provider
// says that they cost counts in place of the table, and a request whose price is unknown makes the cost a lower bound.
func TestCostOfTheRequestsOfAReply(t *testing.T) {
	t.Parallel()
	used := func(input, output int64) cairn.Usage { return cairn.Usage{InputTokens: input, OutputTokens: output} }
	sum := cairn.Usage{InputTokens: 600, OutputTokens: 6}
	for name, test := range map[string]struct {
		calls  []cairn.ModelCall
		sum    cairn.Usage
		nanos  int64
		priced int64
		cost   string
	}{
		"one long request":  {nil, sum, 600*5 + 6*50, 1, "$0.0000033"},
		"three small ones":  {[]cairn.ModelCall{{Usage: used(200, 2)}, {Usage: used(200, 2)}, {Usage: used(200, 2)}}, sum, 600 + 60, 1, "$0.00000066"},
		"of another model":  {[]cairn.ModelCall{{Usage: used(200, 2)}, {Model: "test:dear", Usage: used(200, 2)}, {Usage: used(200, 2)}}, sum, 400 + 40 + 20_000 + 2000, 1, "$0.00002244"},
		"of an unknown one": {[]cairn.ModelCall{{Usage: used(200, 2)}, {Model: "test:unknown", Usage: used(400, 4)}}, sum, 220, 0, "at least $0.00000022"},
		"with a search":     {nil, cairn.Usage{InputTokens: 100, OutputTokens: 1, WebSearches: 1}, 110, 0, "at least $0.00000011"},
		"by the provider":   {nil, cairn.Usage{InputTokens: 600, OutputTokens: 6, CostNanos: 7, PricedCalls: 1}, 7, 1, "$0.000000007"},
		"for nothing":       {nil, cairn.Usage{InputTokens: 600, OutputTokens: 6, PricedCalls: 1}, 0, 1, "$0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			report := scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: test.sum, Calls: test.calls, WindowTokens: 202})
			eng := open(t, st, bot(priced{scripted.New(scripted.Reply(report, scripted.Text("hello")))}), with(pennies))
			res := turn(t, eng, "s", "go")
			want := test.sum
			want.ModelCalls, want.CostNanos, want.PricedCalls = 1, test.nanos, test.priced
			wantUsage(t, st, res, want)
			if res.Usage.Cost() != test.cost {
				t.Errorf("it costs %s, want %s", res.Usage.Cost(), test.cost)
			}
			if list := messages(t, st, "s"); list[1].Tokens != 202 {
				t.Errorf("the conversation has %d tokens of the window, want 202", list[1].Tokens)
			}
		})
	}
}

// A reply that sums up many requests does not fill the window with their sum.
func TestWindowIsNotTheSumOfRequests(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	report := func(window int64) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: 325_590, OutputTokens: 10}, WindowTokens: window})
	}
	summed := 0
	m := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.System == cairn.SummaryInstructions {
			summed++
			return scripted.Text("They spoke.")
		}
		return scripted.Reply(report(5000), scripted.Text("hello"))
	})
	eng := open(t, st, bot(priced{m}), with(pennies))
	for range 4 {
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	}
	if summed > 0 {
		t.Errorf("a short history was summarised %d times", summed)
	}
}

// Failed attempts at a summary are paid for as well.
func TestUsageOfAFailedSummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		tries := 0
		m := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.System != cairn.SummaryInstructions {
				return scripted.Text("hello").Usage(60, 40)
			}
			if tries++; tries == 1 {
				return scripted.Reply(spends(50, 5), scripted.Text("They"), fails(cairn.ErrOverloaded))
			}
			return scripted.Text("They spoke.").Usage(50, 5)
		})
		agent := bot(priced{m})
		agent.Compaction = &cairn.Compaction{Window: 120, Keep: 1}
		eng := open(t, st, agent, with(pennies))
		turn(t, eng, "s", "one")
		res := turn(t, eng, "s", "two")
		want := cairn.Usage{InputTokens: 160, OutputTokens: 50, ModelCalls: 2, DiscardedCalls: 1, PricedCalls: 3, CostNanos: 660}
		if string(marshal(res.Usage)) != string(marshal(want)) {
			t.Errorf("the run has %s\nwant %s", marshal(res.Usage), marshal(want))
		}
	})
}

// nameless is a model that no table has, with a name of its own.
type nameless struct {
	cairn.Model
	name string
}

func (m nameless) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: m.name} }

// A model that the table does not have is logged once, with what follows, and its history is summarised by the estimate
// once the provider refuses it.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	st := memstore.New(nil)
	summed := 0
	m := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		size := 0
		for i := range req.Messages {
			size += req.Messages[i].Size()
		}
		switch {
		case req.System == cairn.SummaryInstructions:
			summed++
			return scripted.Text("They spoke.").Usage(10, 1)
		case size > 4000:
			return fails(cairn.ErrContextLength)
		}
		return scripted.Text("hello").Usage(10, 1)
	})
	dark := func(name string) *cairn.Agent {
		a := bot(nameless{m, name})
		a.Name = name
		return a
	}
	agents := []*cairn.Agent{dark("one"), dark("two"), dark("bare"), dark("unpriced")}
	eng, err := engine.New(st, agents, &engine.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Models: cairn.ModelTable{
		{Provider: "test", Name: "bare", Price: cairn.Price{Input: 1, Output: 1}, AsOf: "2026-11-01"},
		{Provider: "test", Name: "unpriced", NoPrice: true, Window: 100_000, AsOf: "2026-11-01"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(t, eng) })
	for _, a := range agents {
		for range 8 {
			run, err := eng.Execute(t.Context(), a.Name, a.Name, cairn.Text(strings.Repeat("words ", 150)))
			if err != nil {
				t.Fatal(err)
			}
			if res := wait(t, run); res.Status != cairn.RunCompleted {
				t.Fatalf("%s: %v", a.Name, res.Error)
			}
		}
		if row := load(t, st, a.Name); row.Summary.From == 0 {
			t.Errorf("%s: the history was not summarised", a.Name)
		}
	}
	if summed < 4 {
		t.Errorf("%d summaries", summed)
	}
	for name, want := range map[string][2]bool{"one": {true, true}, "two": {true, true}, "bare": {false, true}, "unpriced": {true, false}} {
		var lines []string
		for line := range strings.Lines(logged.String()) {
			if strings.Contains(line, "model=test:"+name+" ") && strings.Contains(line, "model table lacks") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 || strings.Contains(lines[0], "price=") != want[0] || strings.Contains(lines[0], "window=") != want[1] {
			t.Errorf("%s: logged %q", name, lines)
		}
	}
}

// A summary by hand that fails is paid for.
func TestUsageOfAFailedCompact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		m := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.System != cairn.SummaryInstructions {
				return scripted.Text("hello").Usage(60, 40)
			}
			return scripted.Reply(spends(50, 5), fails(cairn.ErrOverloaded))
		})
		agent := bot(priced{m})
		agent.Retry = &cairn.RetryPolicy{Max: 1}
		eng := open(t, st, agent, with(pennies))
		for range 4 {
			turn(t, eng, "s", "one")
		}
		before := load(t, st, "s").Usage
		if _, err := eng.Compact(t.Context(), "s"); !errors.Is(err, &cairn.Error{Code: cairn.ErrOverloaded}) {
			t.Fatal(err)
		}
		want := before.Add(cairn.Usage{InputTokens: 100, OutputTokens: 10, DiscardedCalls: 2, PricedCalls: 2, CostNanos: 200})
		if got := load(t, st, "s").Usage; string(marshal(got)) != string(marshal(want)) {
			t.Errorf("the session has %s\nwant %s", marshal(got), marshal(want))
		}
	})
}

// takenOver waits for the end of a run that another engine takes over.
func takenOver(t *testing.T, st *memstore.Store, a *cairn.Agent) *cairn.Result {
	t.Helper()
	eng := open(t, st, a, with(pennies), named("p2."))
	work(t, eng)
	run, err := eng.Attach(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return wait(t, run)
}

// What models were paid for work that a closing engine leaves unstored counts once, with the step that repeats the
// work.
func TestUsageOfWorkThatIsCutByClosing(t *testing.T) {
	t.Parallel()
	whole := cairn.Usage{InputTokens: 100, OutputTokens: 9, ModelCalls: 1, PricedCalls: 1, CostNanos: 190}
	lost := cairn.Usage{InputTokens: 200, OutputTokens: 1, DiscardedCalls: 1, PricedCalls: 1, CostNanos: 210}
	failed := cairn.Usage{InputTokens: 100, OutputTokens: 7, DiscardedCalls: 1, PricedCalls: 1, CostNanos: 170}
	last := scripted.Text("Whole.").Usage(100, 9)
	cut := scripted.Reply(spends(200, 1), scripted.Text("Half"), scripted.Pause(time.Hour))
	sleeps := func() cairn.Tool {
		first := true
		return cairn.Func("sleep", "", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
			if first {
				first = false
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "slept", nil
		})
	}
	called := scripted.Call("sleep", struct{}{}).Usage(200, 1)
	again := cairn.Usage{InputTokens: 200, OutputTokens: 1, ModelCalls: 1, ToolCalls: 1, PricedCalls: 1, CostNanos: 210}
	for name, test := range map[string]struct {
		durability cairn.Durability
		steps      []scripted.Step
		closings   int
		want       cairn.Usage
	}{
		"a call":                    {cairn.PerStep, []scripted.Step{cut, last}, 1, lost.Add(whole)},
		"calls of two processes":    {cairn.PerStep, []scripted.Step{cut, cut, last}, 2, lost.Add(lost).Add(whole)},
		"a call after a failed one": {cairn.PerStep, []scripted.Step{scripted.Reply(spends(100, 7), fails(cairn.ErrOverloaded)), cut, last}, 1, failed.Add(lost).Add(whole)},
		"a call without usage":      {cairn.PerStep, []scripted.Step{scripted.Reply(scripted.Text("Half"), scripted.Pause(time.Hour)), last}, 1, whole},
		"a reply whose tool runs":   {cairn.PerStep, []scripted.Step{called, called, last}, 1, lost.Add(again).Add(whole)},
		"a reply that was stored":   {cairn.PerTool, []scripted.Step{called, last}, 1, again.Add(whole)},
		"a call before a deferred step": {cairn.Manual, []scripted.Step{cut, scripted.Call("echo", in{"x"}).Usage(100, 7), cut, scripted.Call("echo", in{"x"}).Usage(100, 7), last}, 2,
			lost.Add(failed).Add(lost).Add(cairn.Usage{InputTokens: 100, OutputTokens: 7, ModelCalls: 1, ToolCalls: 1, PricedCalls: 1, CostNanos: 170}).Add(whole)},
		"a deferred step and a call": {cairn.Manual, []scripted.Step{scripted.Call("echo", in{"x"}).Usage(100, 7), cut, scripted.Call("echo", in{"x"}).Usage(100, 7), last}, 1, failed.Add(lost).Add(cairn.Usage{InputTokens: 100, OutputTokens: 7, ModelCalls: 1, ToolCalls: 1, PricedCalls: 1, CostNanos: 170}).Add(whole)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New(nil)
				agent := bot(priced{scripted.New(test.steps...)}, echo("echo"), sleeps())
				agent.Durability = test.durability
				var eng *engine.Engine
				for n := range test.closings {
					eng = open(t, st, agent, with(pennies), named(fmt.Sprint("p", n, ".")))
					if n == 0 {
						start(t, eng, "s", "go")
					} else {
						work(t, eng)
					}
					testclock.Advance(time.Minute)
					leave(t, eng)
				}
				res := takenOver(t, st, agent)
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				wantUsage(t, st, res, test.want)
			})
		})
	}
}

// An effect of a host's that is cut leaves what its model call has used to the next attempt.
func TestUsageOfACutEffect(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	said := make(chan struct{}, 3)
	cut := scripted.Reply(spends(200, 1), scripted.Text("Half"), scripted.Pause(time.Hour))
	agent := bot(priced{scripted.New(cut, cut, cut, scripted.Text("Whole.").Usage(100, 9))})
	agent.Hooks = &cairn.Hooks{TextDelta: func(_ context.Context, _ *cairn.Step, text string) {
		if text == "Half" {
			said <- struct{}{}
		}
	}}
	h := &byHand{}
	one, two := open(t, st, agent, hostedBy(h), with(pennies)), open(t, st, agent, hostedBy(h), with(pennies), named("b"))
	start(t, one, "s", "go")
	first := h.begun[0]
	for n, eng := range []*engine.Engine{one, one, two} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := eng.ForHost().Effect(ctx, host.EffectPlan, next(first, ""))
			done <- err
		}()
		if <-said; n == 1 {
			leave(t, one)
		} else {
			cancel()
		}
		if err := <-done; err == nil {
			t.Fatal("the effect was not cut")
		}
		cancel()
	}
	drives(t, two, first, cairn.RunCompleted)
	res := &cairn.Result{Usage: runsOf(t, st, "s")[0].Usage}
	want := cairn.Usage{InputTokens: 700, OutputTokens: 12, ModelCalls: 1, DiscardedCalls: 3, PricedCalls: 4, CostNanos: 820}
	wantUsage(t, st, res, want)
}

// A stop of a released run ends it with what its cut call has used.
func TestUsageOfACutCallThatIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		agent := bot(priced{scripted.New(scripted.Reply(spends(200, 1), scripted.Pause(time.Hour)))})
		eng := open(t, st, agent, with(pennies))
		start(t, eng, "s", "go")
		testclock.Advance(time.Minute)
		leave(t, eng)
		other := open(t, st, agent, with(pennies), named("p2."))
		if err := other.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		row, run := load(t, st, "s"), runsOf(t, st, "s")[0]
		want := cairn.Usage{InputTokens: 200, OutputTokens: 1, DiscardedCalls: 1, PricedCalls: 1, CostNanos: 210}
		if run.Status != cairn.RunInterrupted || string(marshal(row.Usage)) != string(marshal(want)) || string(marshal(run.Usage)) != string(marshal(want)) {
			t.Errorf("the run is %s with %s, the session has %s", run.Status, marshal(run.Usage), marshal(row.Usage))
		}
	})
}
