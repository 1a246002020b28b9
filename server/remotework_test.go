package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// standing returns the events of a session's log without those of discarded steps.
func standing(t *testing.T, eng *engine.Engine) (list []cairn.Event) {
	t.Helper()
	all, err := eng.History(t.Context(), "s", cairn.Cursor{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range all {
		if ev.Type == cairn.EventStepDiscarded {
			list = slices.DeleteFunc(list, func(before cairn.Event) bool { return ev.Voids(&before) })
		}
		list = append(list, ev.Public())
	}
	return list
}

// innerOf lists the events of other servers on a log, one per line, with the words of the local agent.
func innerOf(t *testing.T, eng *engine.Engine) (lines []string) {
	t.Helper()
	run, step := "", 0
	for _, ev := range standing(t, eng) {
		switch {
		case ev.Type == cairn.EventStepStart && ev.Agent == "sage":
			run, step = ev.RunID, ev.Step
		case ev.Type == cairn.EventTextDelta && ev.Agent == "sage":
			lines = append(lines, "says "+strings.TrimSpace(ev.Text))
		case ev.Origin != "" && (ev.RunID != run || ev.Step != step || ev.SessionID == ev.Origin):
			lines = append(lines, fmt.Sprintf("%s is in session %s, run %s, step %d, not in the step under way", ev.Type, ev.SessionID, ev.RunID, ev.Step))
		case ev.Origin != "":
			lines = append(lines, strings.TrimSpace(fmt.Sprint(ev.Agent, " ", ev.Type, " ", ev.Tool, ev.Name, " ", string(ev.Data))))
		}
	}
	return lines
}

// busy is a working agent. It has a tool that reports its progress, one that fails, and an agent of its own. Both
// the tool and that agent can be made to wait.
func busy(wait func(agent string)) *cairn.Agent {
	look := cairn.Func("look", "Looks.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		if err := call.Emit("progress", "half"); err != nil {
			return "", err
		}
		if call.Agent == "clerk" {
			wait("clerk")
		}
		return "42", nil
	})
	fall := cairn.Func("fall", "Fails.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		return "", errors.New("password hunter2")
	})
	rest := cairn.Func("rest", "Rests.", func(context.Context, *cairn.Call, struct{}) (string, error) { wait("sage"); return "rested", nil })
	answered := func(req *cairn.Request) int { return len(req.Messages) / 2 }
	clerk := &cairn.Agent{Name: "clerk", Tools: []cairn.Tool{look}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if answered(req) == 0 {
			return scripted.Call("look", nil)
		}
		return scripted.Text("The clerk's own words.")
	})}
	return &cairn.Agent{Name: "sage", Tools: []cairn.Tool{look, fall, rest, cairn.SubAgent(clerk)}, Durability: cairn.PerTool,
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			switch answered(req) {
			case 0:
				return scripted.Reply(scripted.Text("First."), scripted.Call("look", nil))
			case 1:
				return scripted.Call("fall", nil)
			case 2:
				return scripted.Call("clerk", map[string]string{"input": "look"})
			case 3:
				return scripted.Call("rest", nil)
			}
			return scripted.Text("Done.")
		})}
}

var busyLines = []string{
	"says First.", "sage tool_start look {}", `sage custom progress "half"`, `sage tool_end look "42"`,
	"sage tool_start fall {}", `sage tool_end fall "the tool failed"`,
	`sage tool_start clerk {"input":"look"}`, `sage subagent_start clerkclerk {"input":"look"}`,
	"clerk tool_start look {}", `clerk custom progress "half"`, `clerk tool_end look "42"`,
	"sage subagent_end clerkclerk", `sage tool_end clerk "The clerk's own words."`,
	"sage tool_start rest {}", `sage tool_end rest "rested"`, "says Done.",
}

// scene is a caller, and the agent on another server that works for it.
type scene struct {
	t       *testing.T
	c       *callee
	st      *memstore.Store
	eng     *engine.Engine
	run     *engine.Run
	release func() // resumes what was made to wait
}

// begun returns once an agent is seen at the work that was made to wait.
func (s *scene) begun(agent string) {
	for ev, err := range s.run.Events(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		if ev.Type == cairn.EventToolStart && ev.Tool == "rest" || ev.Type == cairn.EventCustom && ev.Agent == "clerk" && agent == "clerk" {
			return
		}
	}
	s.t.Fatal("the agent's tool is not seen to begin")
}

// breaks interrupts the connection.
func (s *scene) breaks() { s.c.srv.CloseClientConnections(); s.release() }

// dies stops the other server. Another process takes over its work.
func (s *scene) dies() { s.c.leaves(); s.release(); s.c.serve(busy(func(string) {})) }

// isFollowed stops the caller's process. Another one takes over its run.
func (s *scene) isFollowed() {
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	s.eng.Close(ctx)
	s.eng = caller(s.t, s.st, asks(s.c.remote("sage")))
	var err error
	if s.run, err = s.eng.Resume(s.t.Context(), "s"); err != nil {
		s.t.Fatal(err)
	}
	s.release()
}

// The work of a remote agent's tools and agents is on the caller's log, each event once, whatever happens to the
// processes that do the work and to the one that follows it.
func TestRemoteAgentShowsItsWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		waits   string // agent at work when it happens
		disturb func(*scene)
	}{
		{"undisturbed", "", func(*scene) {}},
		{"the connection breaks", "sage", (*scene).breaks},
		{"the other server dies", "sage", (*scene).dies},
		{"the other server dies while its agent's agent works", "clerk", (*scene).dies},
		{"the caller dies", "sage", (*scene).isFollowed},
		{"the caller dies while its agent's agent works", "clerk", (*scene).isFollowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			far := newCallee(t, busy(func(agent string) {
				if agent == c.waits {
					<-gate
				}
			}))
			s := &scene{t: t, c: far, st: memstore.New(nil), release: sync.OnceFunc(func() { close(gate) })}
			defer s.release()
			s.eng = caller(t, s.st, asks(far.remote("sage")))
			s.run = ask(t, s.eng)
			if c.waits != "" {
				s.begun(c.waits)
			}
			c.disturb(s)
			if res := came(t, s.run, cairn.RunCompleted); !strings.Contains(res.Text, "Done.") {
				t.Errorf("came to %q", res.Text)
			}
			if got := innerOf(t, s.eng); !slices.Equal(got, busyLines) {
				t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(busyLines, "\n"))
			}
		})
	}
}
