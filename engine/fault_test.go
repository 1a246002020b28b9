package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// eventful returns an agent whose turn has a bit of everything: state from hooks and parallel tools, context rows,
// custom events and usage, several steps. It decides from the request alone, so that any process can drive it.
func eventful(d cairn.Durability) *cairn.Agent {
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch n := len(req.Messages); {
		case n <= 1:
			return scripted.Reply(scripted.Text("first I look "), scripted.Call("look", in{"left"}).ID("c1"), scripted.Call("look", in{"right"}).ID("c2"))
		case req.Messages[n-1].Text() == "the door is open":
			return scripted.Reply(scripted.Text("then I note "), scripted.Call("note", in{"open"}).ID("c3")).Usage(7, 2)
		}
		return scripted.Text("now I am done").Usage(20, 4)
	})
	look := tool("look", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		call.RecordUsage("looks", 1)
		if err := call.Emit("gaze", in); err != nil {
			return "", err
		}
		if in.Text == "right" {
			if err := call.AddContext("the door is open"); err != nil {
				return "", err
			}
		}
		return "saw " + in.Text, call.Append([]string{"seen"}, in.Text)
	})
	agent := bot(model, look, note())
	agent.Durability = d
	agent.Hooks = &cairn.Hooks{
		RunStart: func(_ context.Context, step *cairn.Step) { _ = step.Set([]string{"started"}, true) },
		AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
			_ = call.Append([]string{"after"}, call.ID)
		},
	}
	return agent
}

// durabilities are those with which a crash must be survived.
var durabilities = []cairn.Durability{cairn.PerStep, cairn.PerTool, cairn.Interval(time.Hour), cairn.Manual}

// undisturbed returns what an eventful turn leaves behind, events excluded, when nothing fails.
func undisturbed(t *testing.T, d cairn.Durability) string {
	st := tapOn(nil)
	wantStatus(t, turn(t, open(t, st, eventful(d)), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	wantSound(t, st, "s")
	return withoutEvents(render(t, st, "s"))
}

func withoutEvents(text string) string {
	text, _, _ = strings.Cut(text, "\nevents:")
	return text
}

const ttl = 3 * time.Second

func shortLease(o *engine.Options) { o.LeaseTTL = ttl; o.WorkInterval = time.Second }

// bringToEnd lets a new process do what is left: the turn itself if it never began, otherwise what a worker finds.
func bringToEnd(t *testing.T, from *tap, agent *cairn.Agent) *tap {
	t.Helper()
	st := from.twin()
	eng := open(t, st, agent, shortLease)
	if exists, err := driver.Exists(t.Context(), st, "s"); err != nil {
		t.Fatal(err)
	} else if !exists {
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		return st
	}
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- eng.Work(ctx) }()
	run, err := eng.Attach(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	wantEnd(t, run)
	cancel()
	if err := <-worked; err != nil {
		t.Fatalf("work: %v", err)
	}
	return st
}

// fault makes the k-th store call of a process fail. fired reports whether there was one.
type fault struct {
	name string
	arm  func(st *tap, k int, cancel context.CancelFunc) (fired func() bool)
}

// nth calls fn at the k-th call.
func nth(k int, fn func(ctx context.Context) error) (step func(context.Context, string) error, fired func() bool) {
	calls := make(chan struct{}, 1<<20)
	return func(ctx context.Context, op string) error {
		if op == "Renew" { // its timing depends on the clock alone
			return nil
		}
		calls <- struct{}{}
		if len(calls) != k {
			return nil
		}
		return fn(ctx)
	}, func() bool { return len(calls) >= k }
}

var faults = []fault{
	{"the call is refused", func(st *tap, k int, _ context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { return context.Canceled })
		st.stepIn(step, nil)
		return fired
	}},
	{"the call fails for a moment", func(st *tap, k int, _ context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { return cairn.Errorf(cairn.ErrUnavailable, "for a moment") })
		st.stepIn(step, nil)
		return fired
	}},
	{"the answer is lost", func(st *tap, k int, _ context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { return cairn.Errorf(cairn.ErrUnavailable, "answer lost") })
		st.stepIn(nil, step)
		return fired
	}},
	{"the process dies before it", func(st *tap, k int, _ context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { st.cut(); return context.Canceled })
		st.stepIn(step, nil)
		return fired
	}},
	{"the process dies after it", func(st *tap, k int, _ context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { st.cut(); return context.Canceled })
		st.stepIn(nil, step)
		return fired
	}},
	{"the client goes away before it", func(st *tap, k int, cancel context.CancelFunc) func() bool {
		step, fired := nth(k, func(context.Context) error { cancel(); return nil })
		st.stepIn(step, nil)
		return fired
	}},
}

// A turn whose k-th store call fails can be brought to its end, for every k, and it leaves behind what an undisturbed
// turn does.
func TestNothingIsLostWhicheverStoreCallFails(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		want := ""
		synctest.Test(t, func(t *testing.T) { want = undisturbed(t, d) })
		for _, f := range faults {
			for name, log := range logs {
				t.Run(d.String()+"/"+f.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					for k, fired := 1, true; fired; k++ {
						t.Run(fmt.Sprint(k), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { fired = survive(t, log(), d, f, k, want) })
						})
					}
				})
			}
		}
	}
}

func survive(t *testing.T, st *tap, d cairn.Durability, f fault, k int, want string) (fired bool) {
	agent := eventful(d)
	eng := open(t, st, agent, shortLease)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hit := f.arm(st, k, cancel)
	if run, err := eng.Execute(ctx, "s", "bot", cairn.Text("go")); err == nil {
		_, _ = run.Wait(t.Context())
	}
	after := bringToEnd(t, st, agent)
	wantSound(t, after, "s")
	if got := withoutEvents(render(t, after, "s")); got != want {
		t.Errorf("left behind\n%s\nwant\n%s", got, want)
	}
	return hit()
}
