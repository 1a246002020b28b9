package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// delegating is a model that delegates its task n times in one reply, and repeats the results.
func delegating(to string, n int) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
			var heard []string
			for _, r := range last.ToolResults() {
				heard = append(heard, string(r.Output))
			}
			return scripted.Text(strings.Join(heard, ", "))
		}
		var parts []scripted.Step
		for range n {
			parts = append(parts, scripted.Call(to, map[string]string{"input": "you do it"}))
		}
		return scripted.Reply(parts...)
	})
}

// ring returns an agent that delegates to one that delegates back to it, n calls a reply.
func ring(n int) *cairn.Agent {
	one, two := &cairn.Agent{Name: "bot", Model: delegating("two", n)}, &cairn.Agent{Name: "two", Model: delegating("bot", n)}
	one.Tools, two.Tools = []cairn.Tool{cairn.SubAgent(two)}, []cairn.Tool{cairn.SubAgent(one)}
	return one
}

// inTree lists the sessions of a tree.
func inTree(t *testing.T, st store.Store, root string, statuses ...cairn.SessionStatus) (list []cairn.Session) {
	t.Helper()
	q := store.SessionQuery{RootID: root, Statuses: statuses, Limit: 1000}
	for {
		page, err := st.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page.Items...)
		if q.Cursor = page.Next; page.Next == "" {
			return list
		}
	}
}

// An agent that delegates to itself ends: the model on the last level gets an error that says it cannot.
func TestDepthOfDelegationIsLimited(t *testing.T) {
	t.Parallel()
	for limit, levels := range map[int]int{0: 8, 3: 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			eng := open(t, st, ring(1), with(func(o *engine.Options) { o.MaxDepth = limit }))
			res := turn(t, eng, "s", "go")
			wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
			if want := fmt.Sprintf("delegation depth limit of %d reached", levels); !strings.Contains(res.Text, want) {
				t.Errorf("the last one was told %q, want %q in it", res.Text, want)
			}
			if n := len(inTree(t, st, "s")); n != levels+1 {
				t.Errorf("%d sessions, want %d", n, levels+1)
			}
			wantSound(t, st, "s")
		})
	}
}

// A tree has no more sessions than the limit, however many calls would begin one concurrently. Sessions that have ended
// and companions count.
func TestSessionsOfATreeAreLimited(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	limit := with(func(o *engine.Options) { o.MaxTreeSessions = 30 })
	ring := ring(10)
	friend := &cairn.Agent{Name: "friend", Description: "Helps.", Model: scripted.New(scripted.Text("never said"))}
	ring.Companions = []cairn.Companion{{Agent: friend, Mode: cairn.Blocking}}
	eng := open(t, st, ring, limit)
	res := turn(t, eng, "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if n := len(inTree(t, st, "s")); n != 30 {
		t.Errorf("%d sessions, want 30", n)
	}
	const told = "conversation already has the maximum of 30 agent sessions"
	if !strings.Contains(res.Text, told) {
		t.Errorf("the model was told %q", res.Text)
	}
	ring.Model = scripted.New(
		scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "friend", "message": "hi"}).ID("c1"), scripted.Text("Well."))
	wantStatus(t, turn(t, eng, "s", "ask your friend"), cairn.RunCompleted, cairn.ReasonReply)
	list := messages(t, st, "s")
	if r := list[len(list)-2].ToolResults()[0]; !strings.Contains(string(r.Output), told) || r.Code != cairn.ErrTooLarge {
		t.Errorf("the companion's call has the result %s (%s)", r.Output, r.Code)
	}
	wantSound(t, st, "s")
}

// An interrupt of the root reaches every session of a large tree at once: it takes at most five times as long as
// their beginning took. It has the processors to itself, and three attempts.
func TestInterruptReachesALargeTreeAtOnce(t *testing.T) {
	for try := 0; ; try++ {
		began, stopped := interruptLargeTree(t)
		t.Logf("the beginning took %s, the stop %s", began, stopped)
		if stopped <= 5*began {
			return
		}
		if try == 2 {
			t.Fatal("the stop should take at most five times as long as the beginning")
		}
	}
}

// interruptLargeTree begins a tree of some 1,000 sessions and stops it. It returns how long each took.
func interruptLargeTree(t *testing.T) (began, stopped time.Duration) {
	t.Helper()
	const clerks, leaves = 30, 32
	st := memstore.New(nil)
	var working atomic.Int64
	grown := make(chan struct{})
	leaf := &cairn.Agent{Name: "leaf", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Do(func() {
			if working.Add(1) == clerks*leaves {
				close(grown)
			}
		}), scripted.Pause(time.Hour))
	})}
	clerk := &cairn.Agent{Name: "clerk", Model: delegating("leaf", leaves), Tools: []cairn.Tool{cairn.SubAgent(leaf)}}
	eng := open(t, st, bot(delegating("clerk", clerks), cairn.SubAgent(clerk)))
	asked := time.Now()
	start(t, eng, "s", "go")
	<-grown
	began, asked = time.Since(asked), time.Now()
	if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
		t.Fatal(err)
	}
	stopped = time.Since(asked)
	if left := inTree(t, st, "s", cairn.SessionActive, cairn.SessionPaused); len(left) > 0 {
		t.Errorf("%d sessions are not stopped", len(left))
	}
	return began, stopped
}

// An interrupt catches up with a tree that grows, whenever it comes.
func TestInterruptCatchesUpWithATreeThatGrows(t *testing.T) {
	t.Parallel()
	for wait := time.Millisecond; wait < 100*time.Millisecond; wait *= 2 {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			eng := open(t, st, ring(3), with(func(o *engine.Options) { o.MaxDepth, o.MaxTreeSessions = -1, -1 }))
			start(t, eng, "s", "go")
			time.Sleep(wait) // Real time: the tree grows on all processors meanwhile.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begun := time.Now()
			if err := eng.Interrupt(ctx, "s", "enough"); err != nil {
				t.Fatal(err)
			}
			all := inTree(t, st, "s")
			t.Logf("%d sessions, stopped after %s", len(all), time.Since(begun))
			for i := range all {
				if s := all[i].Status; s == cairn.SessionActive || s == cairn.SessionPaused {
					t.Errorf("session %s is %s", all[i].ID, s)
				}
			}
		})
	}
}
