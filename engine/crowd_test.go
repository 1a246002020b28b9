package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

var flagCrowdSeed = flag.Uint64("crowd.seed", 0, "seed of the crowd that calls verbs; 0 chooses one for each")

// Whatever verbs two processes call concurrently on the same sessions, each either happens as a whole or is refused
// because of the session's state: what is left is sound. -crowd.seed repeats the calls, though hardly their
// interleaving.
func TestVerbsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	for range testenv.Choose(40, 20_000) {
		seed := cmp.Or(*flagCrowdSeed, rand.Uint64())
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newCrowd(t, seed).meet() })
		})
	}
}

// crowd calls verbs on the sessions s0 and s1 and on branches of them, in two processes at a time.
type crowd struct {
	*testing.T
	st   *memstore.Store
	host hosttest.Host

	mu    sync.Mutex
	rng   *rand.Rand
	lives [2]*living
	born  int
	did   []string
}

// living is a process of a crowd.
type living struct {
	name string
	*engine.Engine
	tap *tap
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	hosts := []hosttest.Host{hosttest.InProcess, hosttest.Cold, hosttest.Repeating, hosttest.Alternating}
	return &crowd{T: t, st: memstore.New(nil), host: hosts[seed%4], rng: rand.New(rand.NewPCG(seed, 7))}
}

// live begins another process, which works until ctx is done.
func (c *crowd) live(ctx context.Context, working *sync.WaitGroup, i int) {
	slow := func(context.Context, string) error {
		testclock.Deaf(time.Duration(c.draw(4)) * time.Millisecond)
		return nil
	}
	st := tapOn(c.st)
	st.stepIn(slow, slow)
	c.mu.Lock()
	defer c.mu.Unlock()
	name := string(rune('a' + c.born))
	c.born++
	eng := c.host.Start(c.T, st, []*cairn.Agent{crowdAgent()}, &engine.Options{Coalesce: -1, NewID: counted(name), WorkInterval: time.Second})
	c.Cleanup(func() { leave(c.T, eng) })
	p := &living{name, eng, st}
	c.lives[i] = p
	working.Go(func() {
		if err := p.Work(ctx); err != nil && !c.isDead(p) {
			c.Errorf("work: %v", err)
		}
	})
}

// die cuts a process off from its store, and begins another one in its place.
func (c *crowd) die(ctx context.Context, working *sync.WaitGroup, i int) {
	c.mu.Lock()
	p := c.lives[i]
	c.did = append(c.did, fmt.Sprintf("%s process %s dies", time.Now().Format("05.000"), p.name))
	c.mu.Unlock()
	c.live(ctx, working, i)
	p.tap.cut()
}

func (c *crowd) isDead(p *living) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.Contains(c.lives[:], p)
}

func (c *crowd) process(i int) *living {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lives[i]
}

// crowdAgent decides what to do by a hash of its request.
func crowdAgent() *cairn.Agent {
	reply := func(req *cairn.Request, calls ...scripted.Step) scripted.Step {
		h := fnv.New64a()
		for i := range req.Messages {
			fmt.Fprint(h, req.Messages[i].Text(), len(req.Messages[i].Parts))
		}
		n := h.Sum64()
		pause := scripted.Pause(time.Duration(n%50) * time.Millisecond)
		last := &req.Messages[len(req.Messages)-1]
		if last.Role == cairn.RoleTool && n%3 == 0 || n%7 == 0 || len(calls) == 0 {
			return scripted.Reply(pause, scripted.Text(fmt.Sprintf("done %x", n%1000)))
		}
		steps := []scripted.Step{pause, scripted.Text("so ")}
		for i := range 1 + n/7%2 {
			steps = append(steps, calls[(n/31+i)%uint64(len(calls))])
		}
		return scripted.Reply(steps...)
	}
	approved := echo("pay", cairn.RequireApproval())
	asks := cairn.ClientTool[in, string]("ask", "Asks.", cairn.WaitAtMost(time.Hour))
	helper := &cairn.Agent{Name: "helper", Tools: []cairn.Tool{approved, note()}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return reply(req, scripted.Call("pay", in{"h"}), scripted.Call("note", in{"h"}))
	})}
	scribe := scribe(30 * time.Millisecond)
	slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
		return "slept", testclock.Pause(ctx, 20*time.Millisecond)
	})
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return reply(req, scripted.Call("note", in{"n"}), scripted.Call("pay", in{"p"}), scripted.Call("slow", in{"s"}), scripted.Call("ask", in{"q"}),
			scripted.Call("helper", map[string]string{"input": "help"}),
			scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "scribe", "message": "write"}))
	}), note(), approved, asks, slow, cairn.SubAgent(helper))
	a.Companions = []cairn.Companion{{Agent: scribe, Mode: cairn.NonBlocking, Max: 2}}
	return a
}

func (c *crowd) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// meet lets several callers call verbs, lets everything come to rest, and checks what is left.
func (c *crowd) meet() {
	ctx, stop := context.WithCancel(c.Context())
	var working, calling sync.WaitGroup
	c.live(ctx, &working, 0)
	c.live(ctx, &working, 1)
	for range c.draw(3) {
		calling.Go(func() {
			_ = testclock.Pause(ctx, time.Duration(c.draw(300))*time.Millisecond)
			c.die(ctx, &working, c.draw(2))
		})
	}
	for n := range 4 {
		calling.Go(func() {
			for range 8 {
				_ = testclock.Pause(ctx, time.Duration(c.draw(40))*time.Millisecond)
				c.call(ctx, fmt.Sprint("s", c.draw(2)), n)
			}
		})
	}
	calling.Wait()
	testclock.Advance(time.Minute)
	for _, id := range []string{"s0", "s1"} {
		c.rest(ctx, id)
	}
	stop()
	working.Wait()
}

// rest lets a session come to rest, and take one more turn.
func (c *crowd) rest(ctx context.Context, id string) {
	if _, err := c.process(0).Restore(ctx, id); err != nil && !errors.Is(err, cairn.ErrExists) && !errors.Is(err, cairn.ErrNotFound) {
		c.Errorf("restore %s: %v", id, err)
	}
	c.calm(ctx, id)
	if _, err := c.process(0).Execute(ctx, id, "bot", cairn.Text("bye")); err != nil {
		c.Errorf("%s: the last turn: %v", id, err)
	}
	c.calm(ctx, id)
	problems, err := hosttest.Unsound(ctx, c.st, c.st.EventLog(), id)
	if err != nil {
		c.Error(err)
	}
	for _, problem := range problems {
		c.Error(problem)
	}
	if c.Failed() {
		c.Log(render(c.T, c.st, id))
		for _, ev := range history(c.T, c.st, id) {
			c.Logf("%d %s %s %s step %d %s %s %s", ev.Sequence, ev.Time.Format("05.000"), ev.Type, ev.SessionID, ev.Step, ev.RunID, ev.CallID, ev.Status)
		}
		c.Log(c.story())
	}
}

// calm ends every wait for a person until nothing of a session is due.
func (c *crowd) calm(ctx context.Context, id string) {
	for range 100 {
		testclock.Advance(10 * time.Second)
		row, err := driver.Load(ctx, c.st, id)
		switch {
		case errors.Is(err, cairn.ErrNotFound):
			return
		case err != nil:
			c.Fatal(err)
		case row.Status == cairn.SessionPaused:
			if err := c.process(0).Interrupt(ctx, id, "enough"); err != nil && !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrAlreadyRunning) {
				c.Errorf("interrupt %s: %v", id, err)
			}
		case row.Status != cairn.SessionActive && row.Queued == 0:
			return
		}
	}
	row := load(c.T, c.st, id)
	c.Fatalf("%s is %s with %d queued turns for ever\n%s\n%s", id, row.Status, row.Queued, c.story(), render(c.T, c.st, id))
}

func (c *crowd) story() (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.did {
		text += line + "\n"
	}
	return text
}

// call calls a verb at random.
func (c *crowd) call(ctx context.Context, id string, n int) {
	p := c.process(c.draw(2))
	ctx, enough := context.WithTimeout(ctx, 5*time.Minute) // a verb may wait for a dead process
	defer enough()
	name, err := c.verb(ctx, p.Engine, id)
	c.mu.Lock()
	c.did = append(c.did, fmt.Sprintf("%s caller %d at %s: %s %s: %v", time.Now().Format("05.000"), n, p.name, name, id, err))
	c.mu.Unlock()
	var known *cairn.Error
	switch {
	case err == nil, c.isDead(p):
	case !errors.As(err, &known):
		c.Errorf("%s %s: %v has no code", name, id, err)
	case known.Code == cairn.ErrInternal, known.Code == cairn.ErrCorrupt, known.Code == cairn.ErrUnavailable, known.Code == cairn.ErrState:
		c.Errorf("%s %s: %v", name, id, err)
	}
}

func (c *crowd) verb(ctx context.Context, eng *engine.Engine, id string) (string, error) {
	switch n := c.draw(30); n {
	case 0, 1, 2, 3, 4, 5, 6:
		busy, way := engine.OnBusy(c.draw(5)), engine.OnWaiting(c.draw(3))
		_, err := eng.Execute(ctx, id, "bot", cairn.Text(fmt.Sprint("do ", c.draw(1000))), engine.WithOnBusy(busy), engine.WithOnWaiting(way))
		return fmt.Sprintf("execute(%v %v)", busy, way), err
	case 7:
		_, err := eng.Resume(ctx, id)
		return "resume", err
	case 8:
		_, err := eng.Retry(ctx, id)
		return "retry", err
	case 9, 10:
		return "interrupt", eng.Interrupt(ctx, id, "enough")
	case 11:
		return "abort", eng.Abort(ctx, id, "enough")
	case 12, 13, 14, 15:
		return c.answer(ctx, eng, id)
	case 16:
		return "add context", eng.AddContext(ctx, id, "by the way")
	case 17:
		title := fmt.Sprint("title ", c.draw(100))
		_, err := eng.SetContext(ctx, id, store.ContextChange{Title: &title})
		return "set context", err
	case 18:
		_, err := driver.MergeState(ctx, c.st, id, cairn.Op{Kind: cairn.OpAppend, Path: "/notes", Items: []json.RawMessage{json.RawMessage(`"merged"`)}})
		return "merge state", err
	case 19:
		_, err := eng.Checkpoint(ctx, id)
		return "checkpoint", err
	case 20, 21, 22:
		page, err := eng.Checkpoints(ctx, id, store.PageQuery{})
		if err != nil || len(page.Items) == 0 {
			return "rewind to nothing", err
		}
		cp := page.Items[c.draw(len(page.Items))].ID
		_, err = eng.Rewind(ctx, id, cp)
		return "rewind " + cp, err
	case 23:
		to := fmt.Sprint("b", c.draw(1000))
		if _, err := eng.Branch(ctx, id, to); err != nil {
			return "branch", err
		}
		_, err := eng.Execute(ctx, to, "bot", cairn.Text("in the branch"))
		return "branch", err
	case 24:
		return "delete", eng.Delete(ctx, id)
	case 25:
		_, err := eng.Restore(ctx, id)
		return "restore", err
	case 26:
		turns, err := eng.Queue(ctx, id)
		if err != nil || len(turns) == 0 {
			return "dequeue nothing", err
		}
		return "dequeue", eng.Dequeue(ctx, id, turns[c.draw(len(turns))].ID)
	case 27:
		return "switch tools", eng.SwitchTools(ctx, id, map[string]bool{"slow": c.draw(2) == 0})
	case 28:
		_, err := eng.Prune(ctx, id, 1+c.draw(3))
		return "prune", err
	default:
		_, err := eng.Snapshot(ctx, id)
		return "read", err
	}
}

// answer answers one of the open calls of a tree.
func (c *crowd) answer(ctx context.Context, eng *engine.Engine, id string) (string, error) {
	page, err := eng.Inbox(ctx, store.CallQuery{RootID: id})
	if err != nil || len(page.Items) == 0 {
		return "answer nothing", err
	}
	call := page.Items[c.draw(len(page.Items))]
	s := cairn.Answer(call.CallRef, "yes")
	if call.Kind == cairn.CallApproval {
		if s = cairn.Approve(call.CallRef); c.draw(4) == 0 {
			s = cairn.Deny(call.CallRef, "no")
		}
	}
	receipt, err := eng.Submit(ctx, id, s)
	if err == nil && c.draw(2) == 0 {
		_, err = eng.Resume(ctx, id)
	}
	return fmt.Sprintf("answer %s (%s)", call.ID, receipt.Outcome), err
}
