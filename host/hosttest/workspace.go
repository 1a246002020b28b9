package hosttest

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// workspaces are scenarios of an agent with a workspace.
var workspaces = []scenario{
	{"workspace", (*scene).workspace},
	{"workspace-waiting", (*scene).workspaceWaiting},
	{"workspace-crash", (*scene).workspaceCrash},
	{"workspace-crash-per-tool", (*scene).workspaceCrashPerTool},
}

// slate is a workspace of one line, which is also its reference.
type slate struct{ s *scene }

// slated gives the scene's agent a workspace.
func (s *scene) slated(steps []scripted.Step, tools ...cairn.Tool) *cairn.Agent {
	a := bot(plays(steps...), tools...)
	a.Workspace = &slate{s}
	s.agents = []*cairn.Agent{a}
	return a
}

func (w *slate) Name() string { return "slate" }

func (w *slate) Offer(context.Context, *cairn.Step, json.RawMessage) (*cairn.Offer, error) {
	return &cairn.Offer{Pinned: json.RawMessage(`{}`), Note: "There is a slate."}, nil
}

func (w *slate) Tools(json.RawMessage) ([]cairn.Tool, error) {
	return []cairn.Tool{w.s.tool("chalk", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		line := call.Workspace() + in.Text
		return "the slate has " + line, call.SetWorkspace(line)
	}, cairn.Serial())}, nil
}

func (w *slate) Branched(context.Context, string, *cairn.Session, *cairn.Session) error { return nil }

// Each call sees the workspace as the call before it left it, in whichever process that ran.
func (s *scene) workspace() {
	s.slated([]scripted.Step{scripted.Reply(asks("c1", "chalk", "a"), asks("c2", "chalk", "b")), asks("c3", "chalk", "c"), scripted.Text("Done."),
		asks("c4", "chalk", "d"), scripted.Text("As well.")})
	one, two := s.process(), s.process()
	one.turn("s", "write abc")
	two.turn("s", "write d")
}

// A call that was approved sees the workspace of the call before it, which ran in another process.
func (s *scene) workspaceWaiting() {
	s.slated([]scripted.Step{scripted.Reply(asks("c1", "chalk", "a"), asks("c2", "refund", "42")), asks("c3", "chalk", "b"), scripted.Text("Done.")}, s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// The process that takes over does not see what a call of the discarded step did.
func (s *scene) workspaceCrash() {
	s.slated([]scripted.Step{asks("c1", "chalk", "a"), scripted.Reply(asks("c2", "chalk", "b"), asks("c3", "chalk", "c")), scripted.Text("Done.")})
	s.chalked()
}

// With PerTool it sees what the calls whose results were kept did.
func (s *scene) workspaceCrashPerTool() {
	s.slated([]scripted.Step{asks("c1", "chalk", "a"), scripted.Reply(asks("c2", "chalk", "b"), asks("c3", "chalk", "c")), scripted.Text("Done.")}).Durability = cairn.PerTool
	s.chalked()
}

func (s *scene) chalked() {
	one := s.process(s.mortal())
	one.dieBefore(step("s", 2))
	s.awaitDeath(one.start("s", "write abc"))
	s.process().work()
	s.awaitEnd("s", 1)
}
