package hosttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// children are scenarios of sub-agents.
var children = []scenario{
	{"child", (*scene).oneChild},
	{"child-output", (*scene).childOutput},
	{"child-approval", (*scene).childApproval},
	{"grandchild-approval", (*scene).grandchildApproval},
	{"child-client-tool", (*scene).childClientTool},
	{"two-children", (*scene).twoChildren},
	{"two-children-other-process", (*scene).twoChildrenOtherProcess},
	{"child-and-own", (*scene).childAndOwn},
	{"child-waits-twice", (*scene).childWaitsTwice},
	{"child-deadline", (*scene).childDeadline},
	{"child-timeout-running", (*scene).childTimeoutRunning},
	{"child-timeout-waiting", (*scene).childTimeoutWaiting},
	{"grandchild-timeout-running", (*scene).grandchildTimeoutRunning},
	{"child-fails", (*scene).childFails},
	{"child-step-limit", (*scene).childStepLimit},
	{"child-depth-limit", (*scene).childDepthLimit},
	{"tree-size-limit", (*scene).treeSizeLimit},
}

// family makes the bot consult one helper, who uses a tool and then reports the outcome.
func (s *scene) family(tools ...cairn.Tool) {
	helper := agent("helper", plays(
		scripted.Reply(scripted.Text("I try. "), asks("c1", tools[0].Name(), "42")), scripted.Text("I did it.")), tools...)
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("I ask. "), delegates("c1", "helper")), scripted.Text("It is done."), scripted.Text("Bye.")),
		cairn.SubAgent(helper))}
}

func (s *scene) oneChild() {
	s.family(s.note())
	p := s.process()
	p.turn("s", "do it")
	p.turn("s", "thanks")
}

func (s *scene) childOutput() {
	helper := agent("helper", plays(asks("c1", "note", "n"), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c2")), s.note())
	helper.Output = cairn.OutputOf[verdict]()
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("It says yes.")), cairn.SubAgent(helper))}
	s.process().turn("s", "ask", engine.WithUser("u1"))
	if row := s.row(s.child("s")); row.UserID != "u1" || row.RootID != "s" {
		s.Errorf("the child belongs to user %q and root %q", row.UserID, row.RootID)
	}
}

func (s *scene) childApproval() {
	s.family(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	_, err := two.Resume(s.Context(), "s")
	s.want("resume while the child waits", err, cairn.ErrNotResumable)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	one.turn("s", "thanks")
}

func (s *scene) childClientTool() {
	s.family(locate())
	p := s.process()
	p.turn("s", "where am I?")
	p.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	p.resume("s")
}

// dynasty makes the bot consult a clerk, who consults a payer, who uses a tool.
func (s *scene) dynasty(tools ...cairn.Tool) {
	payer := agent("payer", plays(asks("c1", tools[0].Name(), "42"), scripted.Text("Paid.")), tools...)
	clerk := agent("clerk", plays(delegates("c1", "payer"), scripted.Text("The payer did it.")), cairn.SubAgent(payer))
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "clerk"), scripted.Text("All done.")), cairn.SubAgent(clerk))}
}

func (s *scene) grandchildApproval() {
	s.dynasty(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// twins makes the bot consult two helpers at once. Each of them needs a person.
func (s *scene) twins() {
	payer := agent("payer", plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())
	scout := agent("scout", plays(asks("c1", "locate", "here"), scripted.Text("Found.")), locate())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(delegates("c1", "payer"), delegates("c2", "scout"), asks("c3", "note", "n")), scripted.Text("Both are back."),
		scripted.Text("Bye.")), cairn.SubAgent(payer), cairn.SubAgent(scout), s.note())}
}

// One child is answered and resumes while the other is still suspended.
func (s *scene) twoChildren() {
	s.twins()
	p := s.process()
	p.turn("s", "go")
	p.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	p.resume("s")
	_, err := p.Resume(s.Context(), "s")
	s.want("resume while the other child waits", err, cairn.ErrNotResumable)
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	p.turn("s", "thanks")
}

// Two children are answered and resumed, with each verb in another process.
func (s *scene) twoChildrenOtherProcess() {
	s.twins()
	one, two, three := s.process(), s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	three.resume("s")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	three.turn("s", "thanks")
}

// The session has its own pending call in addition to its child's. The child's answer comes first, and the process
// that resumes is the one that suspended.
func (s *scene) childAndOwn() {
	helper := agent("helper", plays(asks("c1", "locate", "here"), scripted.Text("Found.")), locate())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(delegates("c1", "helper"), asks("c2", "refund", "42")), scripted.Text("Both are done."), scripted.Text("Bye.")),
		cairn.SubAgent(helper), s.refund())}
	p := s.process()
	p.turn("s", "go")
	p.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	p.resume("s")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	p.turn("s", "thanks")
}

// A child may be suspended again after an answer.
func (s *scene) childWaitsTwice() {
	helper := agent("helper", plays(asks("c1", "refund", "1"), asks("c2", "refund", "2"), scripted.Text("Both paid.")), s.refund())
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("All done.")), cairn.SubAgent(helper))}
	p := s.process()
	p.turn("s", "go")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	p.submit("s", cairn.Deny(s.open("s", "refund"), "once is enough"), cairn.OutcomeAccepted)
	p.resume("s")
}

// After the deadline of a child's call the whole tree resumes.
func (s *scene) childDeadline() {
	s.family(s.refund(cairn.WaitAtMost(s.soon)))
	s.process().turn("s", "refund it")
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// slow returns a helper whose model answers only after any deadline of the suite.
func slow() *cairn.Agent {
	return agent("helper", plays(scripted.Reply(scripted.Text("I think. "), scripted.Pause(time.Hour))))
}

// A child that runs is stopped at its call's deadline, and the parent continues.
func (s *scene) childTimeoutRunning() {
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("It was too slow.")), cairn.SubAgent(slow(), cairn.Timeout(s.soon)))}
	s.process().turn("s", "do it")
}

// The deadline of a call stops everything below it.
func (s *scene) grandchildTimeoutRunning() {
	clerk := agent("clerk", plays(delegates("c1", "helper"), scripted.Text("never said")), cairn.SubAgent(slow()))
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "clerk"), scripted.Text("It was too slow.")), cairn.SubAgent(clerk, cairn.Timeout(s.soon)))}
	s.process().turn("s", "do it")
}

// A child that waits for people is ended at its call's deadline, by the run that continues the parent.
func (s *scene) childTimeoutWaiting() {
	helper := agent("helper", plays(asks("c1", "refund", "42"), scripted.Text("never said")), s.refund())
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("Nobody answers.")), cairn.SubAgent(helper, cairn.Timeout(s.soon)))}
	s.process().turn("s", "refund it")
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// A child's failure is its call's result, and its siblings are not affected.
func (s *scene) childFails() {
	fails := agent("fails", plays(asks("c1", "note", "n"),
		scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "not in this house"))), s.note())
	vetoed := agent("vetoed", plays(scripted.Text("never said")))
	homeless := agent("homeless", plays(scripted.Text("never said")))
	works := agent("works", plays(asks("c1", "note", "w"), scripted.Text("I am fine.")), s.note())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(delegates("c1", "fails"), delegates("c2", "vetoed"), delegates("c3", "works"), scripted.Call("works", words{"bad"}).ID("c4"),
			delegates("c5", "homeless"), asks("c6", "note", "n")),
		scripted.Text("One of them works.")),
		cairn.SubAgent(fails), cairn.SubAgent(vetoed), cairn.SubAgent(works), cairn.SubAgent(homeless), s.note())}
	s.agents[0].Hooks = &cairn.Hooks{BeforeSubAgent: func(_ context.Context, _ *cairn.Call, agent string) error {
		if agent == "vetoed" {
			return errors.New("not this one")
		}
		return nil
	}}
	p := s.process()
	p.tap.watch(func(o operation) error {
		if o.commit != nil && o.commit.Create != nil && o.commit.Create.Agent == "homeless" {
			return cairn.Errorf(cairn.ErrInternal, "no room")
		}
		return nil
	}, nil)
	p.turn("s", "go")
}

func (s *scene) childStepLimit() {
	helper := agent("helper", plays(asks("c1", "note", "1"), asks("c2", "note", "2"), scripted.Text("never said")), s.note())
	helper.MaxSteps = 2
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("It gave up.")), cairn.SubAgent(helper))}
	s.process().turn("s", "go")
	page, err := s.st.List(s.Context(), driver.SessionQuery{RootsOnly: true})
	s.must(err)
	s.say("%s", fmt.Sprint(len(page.Items), " roots"))
}

// An agent that delegates to itself gets an error at the depth limit.
func (s *scene) childDepthLimit() {
	helper := agent("helper", plays(delegates("c1", "bot"), scripted.Text("It is deep enough.")))
	s.agents = []*cairn.Agent{bot(plays(delegates("c1", "helper"), scripted.Text("I see.")), cairn.SubAgent(helper))}
	helper.Tools = []cairn.Tool{cairn.SubAgent(s.agents[0])}
	s.process(func(o *engine.Options) { o.MaxDepth = 3 }).turn("s", "go")
}

// A sub-agent or companion over the tree's size limit does not begin. Ended children count towards the limit.
func (s *scene) treeSizeLimit() {
	helper := agent("helper", plays(scripted.Text("Here.")))
	s.agents = []*cairn.Agent{bot(plays(
		delegates("c1", "helper"), delegates("c2", "helper"), delegates("c3", "helper"),
		scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "helper", "message": "hello"}).ID("c4"), scripted.Text("Two will do.")),
		cairn.SubAgent(helper))}
	s.agents[0].Companions = []cairn.Companion{{Agent: helper}}
	s.process(func(o *engine.Options) { o.MaxTreeSessions = 3 }).turn("s", "go")
}
