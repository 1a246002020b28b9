package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/model/scripted"
)

// changes are scenarios of agents that change while sessions are suspended. Processes with the old and the new agent
// share the store.
var changes = []scenario{
	{"changed-tools-removed", (*scene).changedToolsRemoved},
	{"changed-tool-kinds", (*scene).changedToolKinds},
	{"changed-schemas", (*scene).changedSchemas},
	{"changed-output", (*scene).changedOutput},
	{"changed-sub-agent-renamed", (*scene).changedSubAgentRenamed},
	{"changed-sub-agent-tool", (*scene).changedSubAgentTool},
	{"changed-sub-agent-unanswered", (*scene).changedSubAgentUnanswered},
	{"changed-sub-agent-worker", (*scene).changedSubAgentWorker},
	{"changed-grandchild-tool", (*scene).changedGrandchildTool},
	{"changed-companion-removed", (*scene).changedCompanionRemoved},
	{"changed-companion-blocking", (*scene).changedCompanionBlocking},
	{"changed-companion-background", (*scene).changedCompanionBackground},
}

// released starts a process with other agents than those of earlier processes.
func (s *scene) released(agents ...*cairn.Agent) *process {
	s.Helper()
	s.agents = agents
	return s.process()
}

// grant approves each pending approval of a suspended turn, and answers each client tool.
func (p *process) grant(waits *cairn.Result) {
	p.s.Helper()
	for _, call := range waits.Suspended.Calls {
		if call.Kind == cairn.CallApproval {
			p.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
		} else {
			p.submit("s", cairn.Answer(call, place{"Oslo"}), cairn.OutcomeAccepted)
		}
	}
}

// A client's answer reaches the model although its tool was removed. An approved call gets an error, a denied one is
// denied as usual.
func (s *scene) changedToolsRemoved() {
	says := plays(scripted.Reply(asks("c1", "locate", "here"), asks("c2", "refund", "42"), asks("c3", "refund", "43"), asks("c4", "note", "n")),
		scripted.Text("So be it."), scripted.Text("Bye."))
	old := s.released(bot(says, locate(), s.refund(), s.note()))
	next := s.released(bot(says, s.note()))
	calls := old.turn("s", "go").Suspended.Calls
	next.submit("s", cairn.Answer(calls[0], place{"Oslo"}), cairn.OutcomeAccepted)
	next.submit("s", cairn.Approve(calls[1]), cairn.OutcomeAccepted)
	next.submit("s", cairn.Deny(calls[2], "too much"), cairn.OutcomeAccepted)
	next.resume("s")
	old.turn("s", "thanks")
}

// The kind of the call decides. A client's answer is the result, whatever the tool is now. A tool that no longer
// needs approval runs. A tool that is now a client tool or an agent must be called again.
func (s *scene) changedToolKinds() {
	says := plays(scripted.Reply(asks("c1", "locate", "here"), asks("c2", "refund", "42"), asks("c3", "pay", "43"), scripted.Call("ask", task{"why"}).ID("c4")),
		asks("c5", "pay", "43"), scripted.Text("So be it."))
	gated := func(name string) cairn.Tool {
		return s.tool(name, func(context.Context, *cairn.Call, words) (string, error) { return "done", nil }, cairn.RequireApproval())
	}
	ask := cairn.Func("ask", "Asks.", func(context.Context, *cairn.Call, task) (string, error) { return "asked", nil }, cairn.RequireApproval())
	old := s.released(bot(says, locate(), s.refund(), gated("pay"), ask))
	server := s.tool("locate", func(context.Context, *cairn.Call, words) (string, error) { return "never said", nil }, cairn.RequireApproval())
	free := s.tool("refund", func(_ context.Context, _ *cairn.Call, in words) (string, error) { return "refunded " + in.Text, nil })
	next := s.released(bot(says, server, free, cairn.ClientTool[words, place]("pay", "Pays."), cairn.SubAgent(agent("ask", plays(scripted.Text("never said"))))))
	next.grant(old.turn("s", "go"))
	next.grant(next.resume("s"))
	next.resume("s")
}

// task is the input of a sub-agent's tool.
type task struct {
	Input string `json:"input"`
}

// An answer is validated against the schema of its call. An approved call is validated against the tool's current
// schema.
func (s *scene) changedSchemas() {
	says := plays(scripted.Reply(asks("c1", "locate", "here"), asks("c2", "refund", "42")), scripted.Text("So be it."))
	old := s.released(bot(says, locate(), s.refund()))
	refund := cairn.Func("refund", "Refunds.", func(context.Context, *cairn.Call, place) (string, error) { return "never said", nil }, cairn.RequireApproval())
	next := s.released(bot(says, cairn.ClientTool[words, verdict]("locate", "Says where the user is."), refund))
	calls := old.turn("s", "go").Suspended.Calls
	next.refused("an answer of the new type", "s", cairn.Answer(calls[0], verdict{"yes"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	next.submit("s", cairn.Answer(calls[0], place{"Oslo"}), cairn.OutcomeAccepted)
	next.submit("s", cairn.Approve(calls[1]), cairn.OutcomeAccepted)
	next.resume("s")
}

// A turn ends with the output type that the agent has in the process that ends it.
func (s *scene) changedOutput() {
	says := plays(asks("c1", "refund", "42"), scripted.Text("So be it."), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c2"))
	old := s.released(bot(says, s.refund()))
	typed := bot(says, s.refund())
	typed.Output = cairn.OutputOf[verdict]()
	next := s.released(typed)
	next.grant(old.turn("s", "go"))
	next.resume("s")
}

// helping returns a helper with a given name whose refund needs approval.
func (s *scene) helping(name string) *cairn.Agent {
	return agent(name, plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())
}

// The session of a removed sub-agent is ended, and its call gets an error.
func (s *scene) changedSubAgentRenamed() {
	says := plays(delegates("c1", "helper"), delegates("c2", "assistant"), scripted.Text("Done."))
	old := s.released(bot(says, cairn.SubAgent(s.helping("helper"))))
	next := s.released(bot(says, cairn.SubAgent(s.helping("assistant"))))
	next.grant(old.turn("s", "go"))
	next.grant(next.resume("s"))
	next.resume("s")
}

// A sub-agent is also ended if its name is now a tool's.
func (s *scene) changedSubAgentTool() {
	says := plays(scripted.Reply(delegates("c1", "helper"), asks("c2", "locate", "here")), scripted.Text("Done."))
	old := s.released(bot(says, cairn.SubAgent(s.helping("helper")), locate()))
	helper := cairn.Func("helper", "Helps.", func(context.Context, *cairn.Call, task) (string, error) { return "never said", nil })
	next := s.released(bot(says, helper, locate()))
	next.grant(old.turn("s", "go"))
	next.resume("s")
}

// The removed sub-agent's calls may still be pending: another answer of the step resumes the session.
func (s *scene) changedSubAgentUnanswered() {
	says := plays(scripted.Reply(delegates("c1", "helper"), delegates("c2", "scout")), scripted.Text("Done."))
	scout := agent("scout", plays(asks("c1", "locate", "here"), scripted.Text("Found.")), locate())
	old := s.released(bot(says, cairn.SubAgent(s.helping("helper")), cairn.SubAgent(scout)))
	next := s.released(bot(says, cairn.SubAgent(scout)))
	old.turn("s", "go")
	call := s.open("s", "refund")
	next.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	next.resume("s")
	next.refused("an answer to what was ended", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
}

// A worker resumes the session although it does not have the sub-agent's agent.
func (s *scene) changedSubAgentWorker() {
	says := plays(delegates("c1", "helper"), scripted.Text("Done."))
	old := s.released(bot(says, cairn.SubAgent(s.helping("helper"))))
	next := s.released(bot(says))
	old.grant(old.turn("s", "go"))
	next.work()
	s.awaitEnd("s", 2)
}

// The removal of a tool two levels below fails only the calls of that tool.
func (s *scene) changedGrandchildTool() {
	s.dynasty(s.refund())
	old := s.process()
	s.dynasty(s.note())
	next := s.process()
	payer := define.Of(&define.Of(&s.agents[0].Tools[0]).Agent.Tools[0]).Agent
	payer.Model = plays(asks("c1", "refund", "42"), scripted.Text("Not paid."))
	next.grant(old.turn("s", "go"))
	next.resume("s")
}

// A suspended companion that was removed from the agent is ended like a sub-agent.
func (s *scene) changedCompanionRemoved() {
	says := plays(scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "helper", "name": "harry", "message": "do it"}).ID("c1"),
		scripted.Text("Done."), scripted.Text("Bye."))
	with := bot(says)
	with.Companions = []cairn.Companion{{Agent: s.helping("helper"), Mode: cairn.Blocking}}
	old := s.released(with)
	next := s.released(bot(says))
	next.grant(old.turn("s", "go"))
	next.resume("s")
	next.turn("s", "thanks")
}

// A companion that works in the background uses an answer although it would block its parent now.
func (s *scene) changedCompanionBlocking() {
	steps := []scripted.Step{spawns("c1", "ann", "pay"), scripted.Text("Ann is at it."), scripted.Text("Ann is done.")}
	s.accompanied(cairn.NonBlocking, asking(), []cairn.Tool{s.refund()}, steps...)
	old := s.process()
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, steps...)
	next := s.process()
	old.turn("s", "go")
	ann := s.child("s")
	s.awaitEnd(ann, 1)
	next.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	next.work()
	s.awaitEnd(ann, 2)
	next.turn("s", "and now?")
}

// A call that waits for a companion gets its answer although the companion would work in the background now.
func (s *scene) changedCompanionBackground() {
	steps := []scripted.Step{spawns("c1", "ann", "pay"), scripted.Text("Ann is done.")}
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, steps...)
	old := s.process()
	s.accompanied(cairn.NonBlocking, asking(), []cairn.Tool{s.refund()}, steps...)
	next := s.process()
	old.turn("s", "go")
	next.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	next.resume("s")
}
