package hosttest

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// serials are scenarios of tools that run alone, between their siblings.
var serials = []scenario{
	{"serial", (*scene).serial},
	{"serial-approval", (*scene).serialApproval},
	{"serial-stopped", (*scene).serialStopped},
	{"serial-crash-per-tool", (*scene).serialCrash},
}

// tally is a serial tool that counts the notes it sees and adds their number to the state. Its name is also its text.
func (s *scene) tally(name string, opts ...cairn.ToolOption) cairn.Tool {
	return s.tool(name, func(_ context.Context, call *cairn.Call, _ words) (string, error) {
		state, err := cairn.State[struct {
			Notes []string `json:"notes"`
			Sum   int      `json:"sum"`
		}](call)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d notes, %d before", len(state.Notes), state.Sum), call.Add([]string{"sum"}, len(state.Notes))
	}, append([]cairn.ToolOption{cairn.Serial()}, opts...)...)
}

// accounts sets an agent that takes notes and counts them, in one reply.
func (s *scene) accounts(opts ...cairn.ToolOption) *cairn.Agent {
	a := bot(plays(
		scripted.Reply(asks("c1", "note", "a"), asks("c2", "note", "b"), asks("c3", "tally", "t"), asks("c4", "note", "c"), asks("c5", "total", "u")),
		scripted.Text("Counted."), scripted.Text("Bye.")), s.note(), s.tally("tally", opts...), s.tally("total"))
	s.agents = []*cairn.Agent{a}
	return a
}

// Each serial tool sees what the calls before it wrote, and nothing of those after it.
func (s *scene) serial() {
	s.accounts()
	s.process().turn("s", "count")
}

// Calls after a serial one that must be approved wait for it. Another process runs them.
func (s *scene) serialApproval() {
	s.accounts(cairn.RequireApproval())
	one, two := s.process(), s.process()
	one.turn("s", "count")
	two.submit("s", cairn.Approve(s.open("s", "tally")), cairn.OutcomeAccepted)
	two.resume("s")
}

// A new message ends the wait: neither the serial call nor those after it are executed.
func (s *scene) serialStopped() {
	s.accounts(cairn.RequireApproval())
	p := s.process()
	p.turn("s", "count")
	s.must(p.Interrupt(s.Context(), "s", ""))
}

// With PerTool, a process that dies behind a serial call leaves the later calls to the next lease holder, and no call
// runs twice.
func (s *scene) serialCrash() {
	s.accounts(cairn.RequireApproval()).Durability = cairn.PerTool
	s.process().turn("s", "count")
	two := s.process(s.mortal())
	two.submit("s", cairn.Approve(s.open("s", "tally")), cairn.OutcomeAccepted)
	two.dieBefore(step("s", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	s.process().work()
	s.awaitEnd("s", 2)
}
