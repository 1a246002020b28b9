package hosttest

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// awaited are scenarios of models that ask for answers, as an agent on another server does.
var awaited = []scenario{
	{"awaits", (*scene).awaits},
	{"awaits-child", (*scene).awaitsChild},
	{"awaits-withdrawn", (*scene).awaitsWithdrawn},
	{"awaits-restart", (*scene).awaitsRestart},
}

// await is a reply with a call that waits for an answer.
func await(id, tool string, a cairn.Awaits) scripted.Step {
	return scripted.Reply(
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: id, Tool: tool, Awaits: &a, Provider: json.RawMessage(`{"call":"` + id + `"}`), Model: "far:agent"}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: id, Text: `{"text":"x"}`}))
}

// awaiting returns an agent that waits for an approval, a client and an answer, of tools that it does not have.
func awaiting(name string) *cairn.Agent {
	return agent(name, plays(
		scripted.Reply(scripted.Text("One moment. "),
			await("c1", "pay", cairn.Awaits{Kind: cairn.CallApproval, Prompt: "May it?"}),
			await("c2", "locate", cairn.Awaits{Kind: cairn.CallClientTool, Schema: json.RawMessage(`{"type":"string"}`)}),
			await("c3", "choose", cairn.Awaits{Kind: cairn.CallQuestion, Prompt: "Which?"})),
		scripted.Text("Done."), scripted.Text("Bye.")))
}

// answerAll answers the pending calls of the tree, each in another process.
func (s *scene) answerAll() {
	p := s.process()
	p.refused("a number", "s", cairn.Answer(s.open("s", "locate"), 7), cairn.OutcomeInvalid, cairn.ErrInvalid)
	p.submit("s", cairn.Answer(s.open("s", "locate"), "Rome"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(s.open("s", "pay")).WithInput(words{"y"}), cairn.OutcomeAccepted)
	s.process().submit("s", cairn.Answer(s.open("s", "choose"), "b"), cairn.OutcomeAccepted)
	s.process().resume("s")
}

// A model's call that awaits an answer is pending whatever tools its agent has.
func (s *scene) awaits() {
	s.agents = []*cairn.Agent{awaiting("bot")}
	s.process().turn("s", "go")
	s.answerAll()
	s.process().turn("s", "thanks")
}

// In a sub-agent, such a call is pending at the root of the tree.
func (s *scene) awaitsChild() {
	s.agents = []*cairn.Agent{bot(plays(scripted.Call("far", map[string]string{"input": "go"}).ID("k1"), scripted.Text("It has.")), cairn.SubAgent(awaiting("far")))}
	s.process().turn("s", "go")
	s.answerAll()
}

// A stop closes such calls.
func (s *scene) awaitsWithdrawn() {
	s.agents = []*cairn.Agent{awaiting("bot")}
	s.process().turn("s", "go")
	p := s.process()
	p.submit("s", cairn.Deny(s.open("s", "pay"), "no"), cairn.OutcomeAccepted)
	s.must(p.Interrupt(s.Context(), "s", "enough"))
}

// When a reply restarts, only what follows the restart is kept and shown.
func (s *scene) awaitsRestart() {
	s.agents = []*cairn.Agent{bot(plays(scripted.Reply(scripted.Text("No. "), await("c1", "pay", cairn.Awaits{Kind: cairn.CallApproval}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkRestart}), scripted.Text("Yes."))))}
	s.process().turn("s", "go")
}
