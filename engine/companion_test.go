package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// scribe is an agent that answers, after a time, with the number of tasks it was given so far.
func scribe(after time.Duration, tools ...cairn.Tool) *cairn.Agent {
	return &cairn.Agent{Name: "scribe", Description: "counts", Tools: tools, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		var told []string
		for i := range req.Messages {
			if m := &req.Messages[i]; m.Role == cairn.RoleUser && !m.Hidden {
				told = append(told, m.Text())
			}
		}
		return scripted.Reply(scripted.Pause(after), scripted.Text(fmt.Sprintf("%d: %s", len(told), strings.Join(told, ", "))))
	})}
}

// companions returns an agent with a scribe, which plays a script.
func companions(mode cairn.CompanionMode, who *cairn.Agent, steps ...scripted.Step) (*cairn.Agent, *scripted.Model) {
	model := scripted.New(steps...)
	a := bot(model)
	a.Companions = []cairn.Companion{{Agent: who, Mode: mode, Max: 2}}
	return a, model
}

func spawn(id, name, message string) scripted.Step {
	args := map[string]string{"agent": "scribe", "message": message}
	if name != "" {
		args["name"] = name
	}
	return scripted.Call(cairn.CompanionSpawn, args).ID(id)
}

func send(id, name, message string) scripted.Step {
	return scripted.Call(cairn.CompanionSend, map[string]string{"name": name, "message": message}).ID(id)
}

func about(id, tool, name string) scripted.Step {
	return scripted.Call(tool, map[string]string{"name": name}).ID(id)
}

// output returns the output of a session's nth call, from 1, as text.
func output(t *testing.T, st store.Store, session string, n int) string {
	t.Helper()
	return string(result(t, messages(t, st, session), callOf(t, st, session, n-1)).Output)
}

func TestBlockingCompanionRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent, model := companions(cairn.Blocking, scribe(time.Second),
			spawn("c1", "ann", "one"), send("c2", "ann", "two"), scripted.Text("done"),
			scripted.Reply(send("c3", "ann", "three"), spawn("c4", "", "else"), spawn("c5", "more", "too many")),
			scripted.Reply(scripted.Call(cairn.CompanionList, nil).ID("c6"), about("c7", cairn.CompanionStatus, "ann"), about("c8", cairn.CompanionWait, "ann"),
				send("c9", "nobody", "?")),
			scripted.Text("bye"))
		eng := open(t, st, agent)
		turn(t, eng, "s", "go")
		wantStatus(t, turn(t, eng, "s", "again"), cairn.RunCompleted, cairn.ReasonReply)
		for call, want := range map[int]string{
			1: `"1: one"`, 2: `"2: one, two"`, 3: `"3: one, two, three"`, 8: `"3: one, two, three"`,
			9: `"companion \"nobody\" not found"`,
			7: `{"name":"ann","agent":"scribe","status":"completed","turn":3,"answer":"3: one, two, three"}`,
		} {
			if got := output(t, st, "s", call); got != want {
				t.Errorf("call %d: %s, want %s", call, got, want)
			}
		}
		one, two := output(t, st, "s", 4), output(t, st, "s", 5) // concurrent calls: the second exceeds the limit
		if one != `"1: else"` || !strings.Contains(two, "terminate one first") {
			t.Errorf("call 4: %s, call 5: %s", one, two)
		}
		if n := len(decode[[]map[string]any](t, json.RawMessage(output(t, st, "s", 6)))); n != 2 {
			t.Errorf("%d companions are listed", n)
		}
		var names []string
		for _, tool := range model.Requests()[0].Tools {
			names = append(names, tool.Name)
		}
		if len(names) != 6 {
			t.Errorf("the model has %v", names)
		}
		wantSound(t, st, "s")
	})
}

func TestFailedCompanionIsStartedFresh(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent, _ := companions(cairn.Blocking, scribe(0),
		spawn("c1", "ann", "one"), about("c2", cairn.CompanionTerminate, "ann"), send("c3", "ann", "two"), spawn("c4", "ann", "three"),
		scripted.Text("done"))
	eng := open(t, st, agent)
	turn(t, eng, "s", "go")
	if got := output(t, st, "s", 3); !strings.Contains(got, "spawn it again") {
		t.Errorf("a message to a terminated companion: %s", got)
	}
	if got := output(t, st, "s", 4); got != `"1: three"` {
		t.Errorf("spawned again: %s", got)
	}
	wantSound(t, st, "s")
}

func TestCompanionInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent, model := companions(cairn.NonBlocking, scribe(time.Minute), spawn("c1", "ann", "one"),
			scripted.Text("ann is at work"), scripted.Text("ann is done"), scripted.Text("nothing new"))
		eng := open(t, st, agent)
		turn(t, eng, "s", "go")
		testclock.Advance(time.Hour)
		turn(t, eng, "s", "and now?")
		turn(t, eng, "s", "and now?")
		heard := 0
		for _, m := range messages(t, st, "s") {
			if m.Hidden && m.Text() == "Companion ann is done: 1: one" {
				heard++
			}
		}
		if heard != 1 {
			t.Errorf("the parent heard of the answer %d times", heard)
		}
		for _, tool := range model.Requests()[0].Tools {
			if tool.Name == cairn.CompanionWait {
				t.Error("there is nobody to wait for, but a tool for it")
			}
		}
		wantSound(t, st, "s")
	})
}

// The results of companions are read from the store before the model is asked. Neither a short outage of the store nor
// a concurrent stop request fails the run.
func TestStoreIsAwayWhenCompanionsAreHeardOf(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"unavailable": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent, _ := companions(cairn.NonBlocking, scribe(time.Minute), spawn("c1", "ann", "one"),
					scripted.Text("ann is at work"), scripted.Text("ann is done"))
				eng := open(t, st, agent)
				turn(t, eng, "s", "go")
				testclock.Advance(time.Hour)
				var done atomic.Bool
				var interrupts sync.WaitGroup
				st.stepIn(func(ctx context.Context, op string) error {
					if row, _ := driver.Load(t.Context(), st.Store, "s"); op != "Load" || row.Status != cairn.SessionActive || done.Swap(true) {
						return nil
					}
					if !stop {
						return cairn.Errorf(cairn.ErrUnavailable, "away")
					}
					interrupts.Go(func() {
						if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
							t.Error(err)
						}
					})
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(20 * time.Second):
						return nil
					}
				}, nil)
				run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("and now?"))
				if err != nil {
					t.Fatal(err)
				}
				want := cairn.RunCompleted
				if stop {
					want = cairn.RunInterrupted
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Status != want {
					t.Errorf("the run came to %+v, %v; want %s", res, err, want)
				}
				interrupts.Wait()
				st.stepIn(nil, nil)
				wantSound(t, st, "s")
			})
		})
	}
}

func TestCompanionInTheBackgroundOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent, _ := companions(cairn.NonBlocking, scribe(time.Minute), spawn("c1", "ann", "one"), scripted.Text("ann is at work"))
		dead := open(t, st, agent)
		turn(t, dead, "s", "go")
		leave(t, dead)
		agent, _ = companions(cairn.NonBlocking, scribe(time.Minute), scripted.Text("ann is done"))
		eng := open(t, st, agent, named("b"))
		go func() { _ = eng.Work(t.Context()) }()
		testclock.Advance(time.Hour)
		turn(t, eng, "s", "and now?")
		list := messages(t, st, "s")
		if got := list[len(list)-2]; !got.Hidden || got.Text() != "Companion ann is done: 1: one" {
			t.Errorf("the parent heard %q", got.Text())
		}
		wantSound(t, st, "s")
	})
}

func TestCompanionThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		who := func() *cairn.Agent {
			return &cairn.Agent{Name: "scribe", Tools: []cairn.Tool{echo("act", cairn.RequireApproval())},
				Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
						return scripted.Text("it was " + string(last.ToolResults()[0].Output))
					}
					return scripted.Call("act", in{"done"})
				})}
		}
		agent, _ := companions(cairn.Blocking, who(), spawn("c1", "ann", "one"))
		one := open(t, st, agent)
		res := turn(t, one, "s", "go")
		wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
		agent, _ = companions(cairn.Blocking, who(), send("c2", "ann", "again"), scripted.Text("fine"))
		two := open(t, st, agent, named("b"))
		go func() { _ = two.Work(t.Context()) }()
		submit(t, two, "s", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
		testclock.Advance(time.Hour)
		if got := output(t, st, "s", 1); got != `"it was \"done\""` {
			t.Errorf("the first consultation: %s", got)
		}
		page, err := two.Inbox(t.Context(), store.CallQuery{RootID: "s"})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("inbox %+v, %v", page, err)
		}
		submit(t, two, "s", cairn.Deny(page.Items[0].CallRef, "enough"), cairn.OutcomeAccepted)
		testclock.Advance(time.Hour)
		if got := output(t, st, "s", 2); !strings.Contains(got, "not approved by the user: enough") {
			t.Errorf("the second consultation: %s", got)
		}
		if row := load(t, st, "s"); row.Status != cairn.SessionCompleted {
			t.Errorf("the parent is %s", row.Status)
		}
		wantSound(t, st, "s")
	})
}

// A companion that waits may have its answer before its parent, which is about to wait for it, has committed that.
func TestCompanionIsAnsweredBeforeItsParentWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		who := &cairn.Agent{Name: "scribe", Tools: []cairn.Tool{echo("act", cairn.RequireApproval())},
			Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
					return scripted.Text("acted")
				}
				return scripted.Call("act", in{"done"})
			})}
		agent, _ := companions(cairn.Blocking, who, scripted.Reply(spawn("c1", "ann", "one"), scripted.Call("rest", in{})), scripted.Text("fine"))
		agent.Tools = append(agent.Tools, tool("rest", func(context.Context, *cairn.Call, in) (string, error) {
			testclock.Deaf(time.Hour)
			return "rested", nil
		}))
		eng := open(t, st, agent)
		go func() { _ = eng.Work(t.Context()) }()
		start(t, eng, "s", "go")
		testclock.Advance(time.Minute)
		page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("inbox %+v, %v", page, err)
		}
		submit(t, eng, "s", cairn.Approve(page.Items[0].CallRef), cairn.OutcomeAccepted)
		testclock.Advance(2 * time.Hour)
		if row := load(t, st, "s"); row.Status != cairn.SessionCompleted {
			t.Fatalf("the parent is %s", row.Status)
		}
		if got := output(t, st, "s", 1); got != `"acted"` {
			t.Errorf("the companion's answer: %s", got)
		}
		wantSound(t, st, "s")
	})
}

// Steps repeated after a crash may talk to another companion by a call of the same id: its run is another one.
func TestRunsOfCompanionsDifferWhenStepsAreDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent, _ := companions(cairn.Blocking, scribe(0), scripted.Call("note", in{}), spawn("c1", "ann", "one"), scripted.Reply(scripted.Do(st.cut), scripted.Text("lost")))
		agent.Durability, agent.Tools = cairn.Manual, []cairn.Tool{note()}
		_, err := start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
		if err == nil {
			t.Fatal("the run came to an end")
		}
		testclock.Advance(ttl)
		next := tapOn(st.Store)
		agent, _ = companions(cairn.Blocking, scribe(0), spawn("c0", "bob", "one"), spawn("c1", "bob", "two"), scripted.Text("done"))
		agent.Durability, agent.Tools = cairn.Manual, []cairn.Tool{note()}
		wantStatus(t, resume(t, open(t, next, agent, named("b")), "s"), cairn.RunCompleted, cairn.ReasonReply)
		page, err := next.List(t.Context(), store.SessionQuery{ParentID: "s"})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("companions %+v, %v", page.Items, err)
		}
		if bob, ann := page.Items[0], page.Items[1]; bob.RunID == ann.RunID {
			t.Errorf("%s and %s both have run %s", bob.Name, ann.Name, bob.RunID)
		}
	})
}

func TestMessageInterruptsACompanion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent, _ := companions(cairn.NonBlocking, scribe(time.Hour), spawn("c1", "ann", "one"), send("c2", "ann", "two"), scripted.Text("ok"), scripted.Text("so"))
		eng := open(t, st, agent, patient)
		turn(t, eng, "s", "go")
		testclock.Advance(2 * time.Hour)
		turn(t, eng, "s", "and?")
		list := messages(t, st, "s")
		if got := list[len(list)-2].Text(); got != "Companion ann is done: 2: one, two" {
			t.Errorf("the parent heard %q", got)
		}
		wantSound(t, st, "s")
	})
}

func TestStoppingAParentStopsItsCompanions(t *testing.T) {
	t.Parallel()
	for _, mode := range []cairn.CompanionMode{cairn.Blocking, cairn.NonBlocking} {
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			agent, _ := companions(mode, scribe(time.Hour), spawn("c1", "ann", "one"), scripted.Reply(scripted.Pause(10*time.Minute), scripted.Text("ok")), scripted.Text("next"))
			eng := open(t, st, agent)
			run := start(t, eng, "s", "go")
			testclock.Advance(time.Minute)
			if err := eng.Interrupt(t.Context(), "s", "stop"); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
			page, err := eng.Sessions(t.Context(), store.SessionQuery{ParentID: "s"})
			if err != nil || len(page.Items) != 1 || page.Items[0].Status != cairn.SessionInterrupted {
				t.Errorf("companions %+v, %v", page.Items, err)
			}
			wantStatus(t, turn(t, eng, "s", "next"), cairn.RunCompleted, cairn.ReasonReply)
			wantSound(t, st, "s")
		})
	}
}

func TestCompanionMistakes(t *testing.T) {
	t.Parallel()
	for what, list := range map[string][]cairn.Companion{
		"agent is nil":                 {{}},
		"must be Blocking":             {{Agent: scribe(0), Mode: 7}},
		"Max -1 is negative":           {{Agent: scribe(0), Max: -1}},
		"duplicate companion":          {{Agent: scribe(0)}, {Agent: scribe(0)}},
		"has the same name as another": {{Agent: &cairn.Agent{Name: "bot", Model: scripted.New()}}},
		`agent "broken": model: is`:    {{Agent: &cairn.Agent{Name: "broken"}}},
	} {
		a := bot(scripted.New())
		a.Companions = list
		if _, err := engine.New(tapOn(nil), []*cairn.Agent{a}, nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
