package temporalhost_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// mortal is a store that can be cut off from its process, or that refuses commits of steps.
type mortal struct {
	*memstore.Store
	dead  atomic.Bool
	steps atomic.Int64 // commits of steps still to refuse
}

func (m *mortal) err() error {
	if m.dead.Load() {
		return cairn.Errorf(cairn.ErrClosed, "the process is dead")
	}
	return nil
}

func (m *mortal) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	if c.Step > 0 && m.steps.Add(-1) >= 0 {
		return nil, cairn.Errorf(cairn.ErrInternal, "no step can be committed now")
	}
	return m.Store.Commit(ctx, id, c)
}

func (m *mortal) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := m.err(); err != nil {
		return err
	}
	return m.Store.Stage(ctx, id, token, pieces...)
}

func (m *mortal) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.Store.Renew(ctx, id, token, ttl)
}

// player is a process of a test: an engine on a host with its own connection.
type player struct {
	*engine.Engine
	*testing.T
	host *temporalhost.Host
	st   *mortal
	c    client.Client
	w    worker.Worker
}

// quick returns options that detect a dead process within a second.
func quick(t *testing.T) temporalhost.Options {
	soon := &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, MaximumInterval: time.Second}
	return temporalhost.Options{TaskQueue: t.Name(), Prefix: t.Name(),
		Activity: workflow.ActivityOptions{HeartbeatTimeout: time.Second, RetryPolicy: soon}, Commit: workflow.LocalActivityOptions{RetryPolicy: soon}}
}

// newPlayer starts a process without a worker. Only some processes have agents.
func newPlayer(t *testing.T, st *memstore.Store, own temporalhost.Options, opts engine.Options, agents ...*cairn.Agent) *player {
	t.Helper()
	p := &player{T: t, c: connect(t), st: &mortal{Store: st}}
	var err error
	if p.host, err = temporalhost.New(p.c, &own); err != nil {
		t.Fatal(err)
	}
	opts.Host = p.host
	if p.Engine, err = engine.New(p.st, agents, &opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

// play starts the process's worker.
func (p *player) play() *player {
	p.Helper()
	p.w = p.host.Worker(p.Engine, worker.Options{StickyScheduleToStartTimeout: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute})
	if err := p.w.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.w.Stop)
	return p
}

// die cuts the process off from its store and the server.
func (p *player) die() {
	p.st.dead.Store(true)
	p.c.Close()
}

// serve runs the engine's Work until the test ends.
func (p *player) serve() *player {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Work(ctx) }()
	p.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, cairn.ErrClosed) {
			p.Error(err)
		}
	})
	return p
}

// wantDriven checks that the turn's first workflow completed under its first lease.
func (p *player) wantDriven(token int64) {
	p.Helper()
	id := p.Name() + "/bot/s/1"
	if err := p.c.GetWorkflow(p.Context(), id, "").Get(p.Context(), nil); err != nil {
		p.Errorf("the workflow came to %v", err)
	}
	d, err := p.c.DescribeWorkflow(p.Context(), id, "")
	if err != nil {
		p.Fatal(err)
	}
	if info := d.RawResponse.GetWorkflowExecutionInfo(); info.GetFirstRunId() != info.GetExecution().GetRunId() {
		p.Error("the workflow is not the one that began the turn")
	}
	if now := p.token(); now != token {
		p.Errorf("the run was taken over: the token is %d, the first one was %d", now, token)
	}
}

// token returns the fencing token of the session's lease.
func (p *player) token() int64 {
	p.Helper()
	row, err := driver.Load(p.Context(), p.st, "s")
	if err != nil {
		p.Fatal(err)
	}
	return row.Lease.Token
}

// settled waits for the run and returns its outcome.
func (p *player) settled() *cairn.Result {
	p.Helper()
	run, err := p.Attach(p.Context(), "s")
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	res, err := run.Wait(ctx)
	if res.Status == cairn.RunRunning {
		p.Fatal(err)
	}
	return res
}

// laborer is an agent that calls "once", and then "slow", which never returns in a process that dies.
type laborer struct {
	*cairn.Agent
	once, slow, asked atomic.Int64
	working           chan struct{}
}

func newLaborer() *laborer {
	l := &laborer{working: make(chan struct{}, 1)}
	do := func(name string, fn func(context.Context) error) cairn.Tool {
		return cairn.Func(name, "Does it.", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { return name, fn(ctx) })
	}
	l.Agent = &cairn.Agent{Name: "bot", Durability: cairn.PerTool,
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			l.asked.Add(1)
			if len(req.Messages) > 1 {
				return scripted.Text("done")
			}
			return scripted.Reply(scripted.Call("once", in{}).ID("c1"), scripted.Call("slow", in{}).ID("c2"))
		}),
		Tools: []cairn.Tool{
			do("once", func(context.Context) error { l.once.Add(1); return nil }),
			do("slow", func(ctx context.Context) error {
				if l.slow.Add(1) > 1 {
					return nil
				}
				l.working <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}),
		}}
	return l
}

// crash begins a turn and kills its process while one tool runs and another has returned. It returns the lease's token.
func (l *laborer) crash(p *player) int64 {
	p.Helper()
	if _, err := p.Execute(p.Context(), "s", "bot", cairn.Text("go")); err != nil {
		p.Fatal(err)
	}
	<-l.working
	testclock.Await(p.T, "the result to be staged", func() bool {
		pieces, err := driver.StagedOf(p.Context(), p.st, "s", "")
		if err != nil {
			p.Fatal(err)
		}
		return slices.ContainsFunc(pieces, func(s driver.Staged) bool { return strings.HasPrefix(s.Key, "call:") })
	})
	p.die()
	return p.token()
}

// The server hands a dead worker's activities to another worker, and no process takes the run over.
func TestServerRecoversBeforeAWorkerDoes(t *testing.T) {
	t.Parallel()
	st, bot := memstore.New(nil), newLaborer()
	opts := engine.Options{LeaseTTL: 2 * time.Second, WorkInterval: 20 * time.Millisecond}
	one := newPlayer(t, st, quick(t), opts, bot.Agent).play()
	two := newPlayer(t, st, quick(t), opts, bot.Agent)
	token := bot.crash(one)
	two.play().serve()
	if res := two.settled(); res.Status != cairn.RunCompleted {
		t.Fatalf("the turn came to %+v", res)
	}
	if once, slow, asked := bot.once.Load(), bot.slow.Load(), bot.asked.Load(); once != 1 || slow != 2 || asked != 2 {
		t.Errorf("the tools ran %d and %d times, want 1 and 2; the model was asked %d times, want 2", once, slow, asked)
	}
	two.wantDriven(token)
}

// An open workflow keeps its run even if no worker serves its queue for longer than the lease.
func TestServerKeepsWhatNoWorkerServes(t *testing.T) {
	t.Parallel()
	st, bot := memstore.New(nil), newLaborer()
	opts := engine.Options{LeaseTTL: 1200 * time.Millisecond, WorkInterval: 20 * time.Millisecond}
	one := newPlayer(t, st, quick(t), opts, bot.Agent).play()
	newPlayer(t, st, quick(t), opts, bot.Agent).serve()
	token := bot.crash(one)
	three := newPlayer(t, st, quick(t), opts, bot.Agent)
	for range 3 { // lease times
		row, err := driver.Load(t.Context(), st, "s")
		if err != nil {
			t.Fatal(err)
		}
		// Real time of Temporal's server: the lease would lapse if it were not kept.
		time.Sleep(time.Until(row.Lease.Until) + 200*time.Millisecond)
	}
	three.play()
	if res := three.settled(); res.Status != cairn.RunCompleted || bot.once.Load() != 1 {
		t.Fatalf("the turn came to %+v, the tool that had ended ran %d times", res, bot.once.Load())
	}
	three.wantDriven(token)
}

// A commit is retried for as long as the store is down, far beyond its limits, and the workflow stays open.
func TestCommitOutlastsTheStore(t *testing.T) {
	t.Parallel()
	own := quick(t)
	own.Commit.StartToCloseTimeout = 200 * time.Millisecond // bounds all attempts of the local activity
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("done"))}
	p := newPlayer(t, memstore.New(nil), own, engine.Options{}, agent)
	const outage = 2 * time.Second
	p.st.steps.Store(1 << 40)
	time.AfterFunc(outage, func() { p.st.steps.Store(0) })
	p.play()
	if _, err := p.Execute(t.Context(), "s", "bot", cairn.Text("go")); err != nil {
		t.Fatal(err)
	}
	if res := p.settled(); res.Status != cairn.RunCompleted || res.Text != "done" {
		t.Fatalf("the turn came to %+v", res)
	}
	p.wantDriven(p.token())
}

// Hooks and guards may take longer than a commit, because they are not part of it.
func TestJudgeOutlastsTheCommit(t *testing.T) {
	t.Parallel()
	own := quick(t)
	own.Commit.StartToCloseTimeout = 200 * time.Millisecond
	const takes = 500 * time.Millisecond
	var asked, heard, told atomic.Int64
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("done"))}
	slowly := func(n *atomic.Int64) {
		n.Add(1)
		testclock.Deaf(takes)
	}
	agent.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
		slowly(&asked)
		return cairn.Verdict{Text: "well done"}, nil
	}
	agent.Hooks = &cairn.Hooks{
		OnMessage:   func(context.Context, *cairn.Step, *cairn.Message) { slowly(&heard) },
		RunComplete: func(context.Context, *cairn.Step, *cairn.Result) { slowly(&told) },
	}
	p := newPlayer(t, memstore.New(nil), own, engine.Options{}, agent).play()
	run, err := p.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "well done" {
		t.Fatalf("the turn came to %+v, %v", res, err)
	}
	if asked.Load() != 1 || heard.Load() != 1 || told.Load() != 1 {
		t.Errorf("the guard was asked %d times, OnMessage called %d times, RunComplete %d times", asked.Load(), heard.Load(), told.Load())
	}
	p.wantDriven(p.token())
}

// A call runs as often as the policy allows and then fails: a tool's failure goes to the model, a model's fails the
// run.
func TestCallHasAsManyTriesAsThePolicyGives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model func(tries *atomic.Int64) cairn.Model
		want  cairn.RunStatus
		text  string
	}{
		"tool": {func(*atomic.Int64) cairn.Model { return rounds(1) }, cairn.RunCompleted, "done"},
		"model": {func(tries *atomic.Int64) cairn.Model {
			return scripted.Func(func(ctx context.Context, _ *cairn.Request) scripted.Step {
				tries.Add(1)
				return scripted.Gate(make(chan struct{}))
			})
		}, cairn.RunFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			hang := cairn.Func("note", "Hangs.", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
				tries.Add(1)
				<-ctx.Done()
				return "", ctx.Err()
			})
			own := quick(t)
			own.Activity.StartToCloseTimeout = 500 * time.Millisecond
			own.Activity.RetryPolicy = &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, MaximumAttempts: 2}
			agent := &cairn.Agent{Name: "bot", Model: c.model(&tries), Tools: []cairn.Tool{hang}}
			p := newPlayer(t, memstore.New(nil), own, engine.Options{LeaseTTL: 1500 * time.Millisecond, WorkInterval: 20 * time.Millisecond}, agent).play().serve()
			if _, err := p.Execute(t.Context(), "s", "bot", cairn.Text("go")); err != nil {
				t.Fatal(err)
			}
			res := p.settled()
			if res.Status != c.want || res.Text != c.text {
				t.Fatalf("the turn came to %+v, want %s", res, c.want)
			}
			if n := tries.Load(); n != 2 {
				t.Errorf("there were %d tries, want 2", n)
			}
			p.wantDriven(p.token())
			if c.want == cairn.RunFailed {
				if res.Error == nil || res.Error.Code != cairn.ErrTimeout {
					t.Errorf("the run failed with %v", res.Error)
				}
				return
			}
			list, err := driver.AllMessages(t.Context(), p.st, "s")
			if err != nil {
				t.Fatal(err)
			}
			if r := list[2].ToolResults()[0]; !r.IsError || r.Code != cairn.ErrTimeout {
				t.Errorf("the model is told %+v", r)
			}
		})
	}
}

// A failed workflow releases its run, so a worker takes it at once and not only when the lease lapses.
func TestWorkflowThatFailsLetsGo(t *testing.T) {
	t.Parallel()
	own := quick(t)
	own.Commit.StartToCloseTimeout = 200 * time.Millisecond
	own.Commit.RetryPolicy = &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 2}
	agent := &cairn.Agent{Name: "bot", Model: rounds(0)}
	p := newPlayer(t, memstore.New(nil), own, engine.Options{LeaseTTL: time.Hour, WorkInterval: 20 * time.Millisecond}, agent)
	p.st.steps.Store(4) // two attempts as a local activity, and two as an activity
	p.play().serve()
	if _, err := p.Execute(t.Context(), "s", "bot", cairn.Text("go")); err != nil {
		t.Fatal(err)
	}
	if res := p.settled(); res.Status != cairn.RunCompleted {
		t.Fatalf("the turn came to %+v", res)
	}
}

// A worker without the agent leaves a turn's activities to other workers, however long that takes.
func TestWorkerWithoutTheAgent(t *testing.T) {
	t.Parallel()
	own := quick(t)
	own.Activity.RetryPolicy = &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaximumAttempts: 2}
	st := memstore.New(nil)
	agent := &cairn.Agent{Name: "bot", Model: rounds(2), Tools: []cairn.Tool{cairn.Func("note", "Notes.",
		func(context.Context, *cairn.Call, in) (string, error) { return "noted", nil })}}
	front := newPlayer(t, st, own, engine.Options{}, agent)
	newPlayer(t, st, own, engine.Options{}).play()
	if _, err := front.Execute(t.Context(), "s", "bot", cairn.Text("go")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // Real time, in which Temporal's server offers the activities to the wrong worker repeatedly.
	newPlayer(t, st, own, engine.Options{}, agent).play()
	if res := front.settled(); res.Status != cairn.RunCompleted {
		t.Fatalf("the turn came to %+v", res)
	}
	front.wantDriven(front.token())
}

// A lease too short for the server to detect a dead worker is refused, with both times.
func TestLeaseThatIsTooShort(t *testing.T) {
	t.Parallel()
	h, err := temporalhost.New(connect(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.New(memstore.New(nil), nil, &engine.Options{Host: h}); err != nil {
		t.Errorf("the defaults do not fit: %v", err)
	}
	_, err = engine.New(memstore.New(nil), nil, &engine.Options{Host: h, LeaseTTL: 11 * time.Second})
	if !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), "heartbeat timeout of 10s and a retry interval of 1s") {
		t.Errorf("a lease of 11 seconds: %v", err)
	}
}
