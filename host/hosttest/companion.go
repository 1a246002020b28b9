package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// companions are scenarios of sub-agents that keep their session between consultations.
var companions = []scenario{
	{"companion", (*scene).companion},
	{"companion-again", (*scene).companionAgain},
	{"companion-rewind", (*scene).companionRewind},
	{"companion-tools", (*scene).companionTools},
	{"companion-limit", (*scene).companionLimit},
	{"companions-spawned", (*scene).companionsSpawned},
	{"companion-fresh", (*scene).companionFresh},
	{"companion-fails", (*scene).companionFails},
	{"companion-waits", (*scene).companionWaits},
	{"companion-waits-again", (*scene).companionWaitsAgain},
	{"companion-deadline", (*scene).companionDeadline},
	{"companions-together", (*scene).companionsTogether},
	{"companion-nested", (*scene).companionNested},
	{"companion-terminated-waiting", (*scene).companionTerminatedWaiting},
	{"background", (*scene).background},
	{"background-waits", (*scene).backgroundWaits},
	{"background-fails", (*scene).backgroundFails},
	{"background-message", (*scene).backgroundMessage},
	{"background-terminated", (*scene).backgroundTerminated},
	{"interrupt-companion", (*scene).interruptCompanion},
	{"abort-background", (*scene).abortBackground},
	{"interrupt-companion-waiting", (*scene).interruptCompanionWaiting},
	{"execute-companion-waiting", (*scene).executeCompanionWaiting},
	{"interrupt-background-waiting", (*scene).interruptBackgroundWaiting},
	{"crash-companion-begun", (*scene).crashCompanionBegun},
	{"crash-companion-done", (*scene).crashCompanionDone},
	{"crash-companion-again", (*scene).crashCompanionAgain},
	{"crash-companion-waits", (*scene).crashCompanionWaits},
	{"crash-companion-waits-again", (*scene).crashCompanionWaitsAgain},
	{"crash-background", (*scene).crashBackground},
}

// accompanied gives the bot scribes as companions in the given mode, and a script.
func (s *scene) accompanied(mode cairn.CompanionMode, scribe cairn.Model, tools []cairn.Tool, steps ...scripted.Step) {
	a := bot(plays(steps...))
	a.Companions = []cairn.Companion{{Agent: agent("scribe", scribe, tools...), Mode: mode, Max: 2}}
	s.agents = []*cairn.Agent{a}
}

// listens returns a model that answers its first message with "One.", the second with "Two.", and so on.
func listens() cairn.Model {
	return plays(scripted.Text("One."), scripted.Text("Two."), scripted.Text("Three."))
}

// spawns is a reply that spawns a companion with a task.
func spawns(id, name, message string) scripted.Step {
	return scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "scribe", "name": name, "message": message}).ID(id)
}

// sends is a reply that sends a companion a message.
func sends(id, name, message string) scripted.Step {
	return scripted.Call(cairn.CompanionSend, map[string]string{"name": name, "message": message}).ID(id)
}

// about is a reply that calls another companion tool with a companion's name.
func about(id, tool, name string) scripted.Step {
	return scripted.Call(tool, map[string]string{"name": name}).ID(id)
}

// A companion that is consulted twice in one turn remembers the first time.
func (s *scene) companion() {
	notes := plays(asks("c1", "note", "n"), scripted.Text("One."), scripted.Text("Two."))
	s.accompanied(cairn.Blocking, notes, []cairn.Tool{s.note()},
		scripted.Reply(scripted.Text("I ask ann. "), spawns("c1", "ann", "take a note")),
		sends("c2", "ann", "and now?"), scripted.Text("She says two."))
	s.process().turn("s", "go")
}

// A completed companion continues in a later turn, in another process, with either tool.
func (s *scene) companionAgain() {
	s.accompanied(cairn.Blocking, listens(), nil, spawns("c1", "ann", "first"), scripted.Text("Done."),
		sends("c2", "ann", "second"), scripted.Text("Done again."), spawns("c3", "ann", "third"), scripted.Text("Done for good."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.turn("s", "once more")
	one.turn("s", "and again")
}

// A rewind does not reach companions: messages sent to them stay. If the call is made again, under any call id,
// they get the message again.
func (s *scene) companionRewind() {
	s.accompanied(cairn.Blocking, listens(), nil, scripted.Text("Hello."), spawns("c1", "ann", "go"), scripted.Text("Done."))
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	first := s.row("s").CheckpointID
	one.turn("s", "go")
	_, err := two.Rewind(s.Context(), "s", first)
	s.must(err)
	two.turn("s", "go again")
}

// The other companion tools work, and calls that make no sense get errors.
func (s *scene) companionTools() {
	s.accompanied(cairn.Blocking, listens(), nil,
		about("c1", cairn.CompanionList, ""),
		scripted.Call(cairn.CompanionList, nil).ID("c2"), spawns("c3", "ann", "first"), spawns("c4", "", "first"),
		scripted.Reply(scripted.Call(cairn.CompanionList, nil).ID("c5"), about("c6", cairn.CompanionStatus, "ann"),
			about("c7", cairn.CompanionWait, "ann"), about("c8", cairn.CompanionStatus, "bob"), sends("c9", "bob", "hello"),
			about("c10", cairn.CompanionTerminate, "bob"), about("c11", cairn.CompanionWait, "bob"),
			scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "painter", "message": "paint"}).ID("c12"),
			sends("c13", "ann", ""), spawns("c14", "a\x01b", "hello")),
		scripted.Text("I see."))
	s.process().turn("s", "go")
}

// The number of live companions is limited; terminating one makes room.
func (s *scene) companionLimit() {
	s.accompanied(cairn.Blocking, listens(), nil,
		spawns("c1", "ann", "first"), spawns("c2", "bob", "first"), spawns("c3", "cleo", "first"),
		about("c4", cairn.CompanionTerminate, "ann"), spawns("c5", "cleo", "first"), scripted.Text("Enough."))
	s.process().turn("s", "go")
}

// The limit also holds for companions spawned by one reply: the first of them win. One gets a generated name.
func (s *scene) companionsSpawned() {
	unnamed := scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "scribe", "message": "first"}).ID("c2")
	s.accompanied(cairn.Blocking, listens(), nil,
		scripted.Reply(spawns("c1", "ann", "first"), unnamed, spawns("c3", "ann", "second"), spawns("c4", "bob", "first")),
		scripted.Reply(about("c5", cairn.CompanionStatus, "ann"), about("c6", cairn.CompanionStatus, "scribe-2")),
		scripted.Text("Enough."))
	s.process().turn("s", "go")
}

// A terminated companion accepts no messages, and the next one of its name starts fresh.
func (s *scene) companionFresh() {
	s.accompanied(cairn.Blocking, listens(), nil, spawns("c1", "ann", "first"), about("c2", cairn.CompanionTerminate, "ann"),
		scripted.Reply(
			sends("c3", "ann", "second"), about("c4", cairn.CompanionStatus, "ann"), about("c5", cairn.CompanionTerminate, "ann")),
		spawns("c6", "ann", "first again"), sends("c7", "ann", "second"), scripted.Call(cairn.CompanionList, nil).ID("c8"),
		scripted.Text("Done."))
	s.process().turn("s", "go")
}

// A failed companion is replaced by a fresh one of its name.
func (s *scene) companionFails() {
	scribe := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[0].Text() == "fail" {
			return scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "not in this house"))
		}
		return scripted.Text("Fine.")
	})
	s.accompanied(cairn.Blocking, scribe, nil, spawns("c1", "ann", "fail"),
		scripted.Reply(sends("c2", "ann", "well?"), about("c3", cairn.CompanionStatus, "ann")),
		spawns("c4", "ann", "be fine"), scripted.Text("Done."))
	s.process().turn("s", "go")
}

// asking returns a model that asks for a refund at each message, and then reports the outcome.
func asking() cairn.Model {
	return plays(asks("c1", "refund", "1"), scripted.Text("First."), asks("c2", "refund", "2"), scripted.Text("Second."))
}

// A session that consults a suspended companion is suspended as well.
func (s *scene) companionWaits() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()},
		scripted.Reply(spawns("c1", "ann", "pay"), about("c2", cairn.CompanionStatus, "bob")),
		scripted.Text("She did it."), scripted.Text("Bye."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	_, err := two.Resume(s.Context(), "s")
	s.want("resume while the companion waits", err, cairn.ErrNotResumable)
	two.submit("s", cairn.Approve(s.open("s", "refund")).By("eve"), cairn.OutcomeAccepted)
	two.resume("s")
	one.turn("s", "thanks")
}

// A companion may be suspended again at its next consultation, in the same run of its parent and in the next one. A
// worker resumes.
func (s *scene) companionWaitsAgain() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()},
		spawns("c1", "ann", "pay"), sends("c2", "ann", "pay again"), scripted.Text("Done."))
	one, two := s.process(), s.process()
	two.work()
	one.turn("s", "go")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
	one.submit("s", cairn.Deny(s.open("s", "refund"), "once is enough"), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// A companion's pending call is not answered before its deadline.
func (s *scene) companionDeadline() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund(cairn.WaitAtMost(s.soon))},
		spawns("c1", "ann", "pay"), scripted.Text("She could not."))
	s.process().turn("s", "go")
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// One companion is suspended while another completes, along with a tool and a pending call of the bot's own.
func (s *scene) companionsTogether() {
	scribe := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool || last.Text() != "pay" {
			return scripted.Text("Fine.")
		}
		return asks("c1", "refund", "42")
	})
	s.accompanied(cairn.Blocking, scribe, []cairn.Tool{s.refund()},
		scripted.Reply(spawns("c1", "ann", "pay"), spawns("c2", "bob", "rest"), asks("c3", "note", "n"), asks("c4", "locate", "here")),
		scripted.Text("All done."))
	s.agents[0].Tools = []cairn.Tool{s.note(), locate()}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	one.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	one.resume("s")
}

// A companion has a companion and a sub-agent of its own, both suspended.
func (s *scene) companionNested() {
	payer := agent("payer", plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())
	scout := agent("scout", plays(asks("c1", "locate", "here"), scripted.Text("Found.")), locate())
	spawnScout := scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "scout", "name": "sue", "message": "find"}).ID("c2")
	s.accompanied(cairn.Blocking, plays(scripted.Reply(delegates("c1", "payer"), spawnScout), scripted.Text("Paid and found.")),
		[]cairn.Tool{cairn.SubAgent(payer)}, spawns("c1", "ann", "see to it"), scripted.Text("All done."))
	s.agents[0].Companions[0].Agent.Companions = []cairn.Companion{{Agent: scout}}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	two.resume("s")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
}

// A new turn terminates a suspended companion: its call can no longer be answered.
func (s *scene) companionTerminatedWaiting() {
	s.accompanied(cairn.NonBlocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("She is at it."),
		about("c2", cairn.CompanionStatus, "ann"), about("c3", cairn.CompanionTerminate, "ann"),
		scripted.Text("No more of that."), scripted.Text("Bye."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.awaitEnd(s.child("s"), 1)
	call := s.open("s", "refund")
	two.turn("s", "stop her")
	two.refused("an answer to one who was terminated", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.turn("s", "thanks")
}

// busyScribe gives the bot a non-blocking scribe. Each of the scribe's two answers stops halfway until the
// corresponding function is called.
func (s *scene) busyScribe(steps ...scripted.Step) (first, second func()) {
	one, two := make(chan struct{}), make(chan struct{})
	s.accompanied(cairn.NonBlocking, plays(
		scripted.Reply(scripted.Text("Let me "), scripted.Gate(one), scripted.Text("see: one.")),
		scripted.Reply(scripted.Text("Let me "), scripted.Gate(two), scripted.Text("see: two."))), nil, steps...)
	return func() { close(one) }, func() { close(two) }
}

// awaitAnn waits until the session's only companion is halfway through its n-th answer, and returns its session.
func (s *scene) awaitAnn(n int) string {
	s.Helper()
	said := 0
	return s.awaitEvent("s", "ann to say something", func(ev *cairn.Event) bool {
		if ev.SessionID != "s" && ev.Text == "me " {
			said++
		}
		return said == n
	}).SessionID
}

// A non-blocking companion works while its parent's turn ends. The parent gets its answer at the next step, once.
func (s *scene) background() {
	done, _ := s.busyScribe(spawns("c1", "ann", "count"), about("c2", cairn.CompanionStatus, "ann"), scripted.Text("Ann is at it."),
		scripted.Call(cairn.CompanionList, nil).ID("c3"), scripted.Text("Ann is done."), scripted.Text("Nothing new."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	done()
	s.awaitEnd(s.child("s"), 1)
	two.turn("s", "and now?")
	one.turn("s", "and now?")
}

// A suspended non-blocking companion does not suspend its parent, which gets its answer once it has completed.
func (s *scene) backgroundWaits() {
	s.accompanied(cairn.NonBlocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("Ann is at it."),
		scripted.Text("Still at it."), scripted.Text("Ann is done."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	ann := s.child("s")
	s.awaitEnd(ann, 1)
	one.turn("s", "well?")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.work()
	s.awaitEnd(ann, 2)
	one.turn("s", "and now?")
}

// The parent also gets the failure of a non-blocking companion.
func (s *scene) backgroundFails() {
	gate := make(chan struct{})
	refusal := scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "not in this house"))
	s.accompanied(cairn.NonBlocking, plays(scripted.Reply(scripted.Gate(gate), refusal)), nil,
		spawns("c1", "ann", "count"), scripted.Text("Ann is at it."), scripted.Text("Ann failed."))
	p := s.process()
	p.turn("s", "go")
	close(gate)
	s.awaitEnd(s.child("s"), 1)
	p.turn("s", "and now?")
}

// A message interrupts the companion's current turn. The rest of the interrupted answer is never published.
func (s *scene) backgroundMessage() {
	busy := make(chan struct{})
	_, done := s.busyScribe(spawns("c1", "ann", "count"), scripted.Reply(scripted.Gate(busy), sends("c2", "ann", "count again")),
		scripted.Text("Ann is at it."), scripted.Text("Ann is done."))
	p := s.process()
	run := p.start("s", "go")
	ann := s.awaitAnn(1)
	close(busy)
	s.outcome(run)
	done()
	s.awaitEnd(ann, 1)
	p.turn("s", "and now?")
}

func (s *scene) backgroundTerminated() {
	s.busyScribe(spawns("c1", "ann", "count"), scripted.Text("Ann is at it."), about("c2", cairn.CompanionTerminate, "ann"),
		scripted.Text("Ann is gone."), scripted.Text("Nothing new."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.awaitAnn(1)
	two.turn("s", "stop her")
	one.turn("s", "and now?")
}

// A stop reaches a companion that its parent waits for. The companion can be consulted again.
func (s *scene) interruptCompanion() {
	s.accompanied(cairn.Blocking, plays(asks("c1", "slow", ""), scripted.Text("That was slow.")), []cairn.Tool{s.slow()},
		spawns("c1", "ann", "take your time"), sends("c2", "ann", "go on"), scripted.Text("Done."))
	one, two := s.process(), s.process()
	run := s.toil(one)
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.resume("s")
}

// A stop reaches a companion that works in the background.
func (s *scene) abortBackground() {
	s.busyScribe(spawns("c1", "ann", "count"), asks("c2", "slow", ""), scripted.Text("Nobody is at work."))
	s.agents[0].Tools = []cairn.Tool{s.slow()}
	one, two := s.process(), s.process()
	run := s.toil(one)
	s.awaitAnn(1)
	s.must(two.Abort(s.Context(), "s", "enough"))
	s.outcome(run)
	two.turn("s", "and now?")
}

// A stop of a session that waits for its suspended companion interrupts the companion.
func (s *scene) interruptCompanionWaiting() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("She did not."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	call := s.open("s", "refund")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.resume("s")
}

// The next turn interrupts a suspended companion as well. The companion can be consulted again.
func (s *scene) executeCompanionWaiting() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("As you like."),
		sends("c2", "ann", "well?"), scripted.Text("Good."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	call := s.open("s", "refund")
	two.turn("s", "never mind", withdraw)
	two.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.turn("s", "ask her")
}

// A new turn leaves a non-blocking suspended companion alone. A stop does not.
func (s *scene) interruptBackgroundWaiting() {
	s.accompanied(cairn.NonBlocking, asking(), []cairn.Tool{s.refund()},
		spawns("c1", "ann", "pay"), asks("c2", "refund", "by myself"), asks("c3", "refund", "once more"), scripted.Text("Nobody paid."))
	s.agents[0].Tools = []cairn.Tool{s.refund()}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	ann := s.child("s")
	s.awaitEnd(ann, 1)
	two.turn("s", "never mind", withdraw)
	s.say("%d calls are open", len(s.openCalls("s")))
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.say("%d calls are open", len(s.openCalls("s")))
	one.turn("s", "and now?")
}

// The process dies once the companion's session has begun.
func (s *scene) crashCompanionBegun() {
	s.accompanied(cairn.Blocking, listens(), nil, spawns("c1", "ann", "first"), scripted.Text("Done."))
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool {
		return o.commit != nil && o.commit.Create != nil && o.commit.Create.ParentID != ""
	})
	s.awaitDeath(one.start("s", "go"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The companion has answered when its parent's process dies.
func (s *scene) crashCompanionDone() {
	s.accompanied(cairn.Blocking, listens(), nil, spawns("c1", "ann", "first"), scripted.Text("Done."))
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "go"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// A message reaches the companion once, although the call that sent it is repeated.
func (s *scene) crashCompanionAgain() {
	s.accompanied(cairn.Blocking, listens(), nil, spawns("c1", "ann", "first"), sends("c2", "ann", "second"), scripted.Text("Done."))
	one := s.process(s.mortal())
	one.dieBefore(step("s", 2))
	s.awaitDeath(one.start("s", "go"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The companion is suspended when the process dies, but its parent has not recorded that yet.
func (s *scene) crashCompanionWaits() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("She did it."))
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "go"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// A companion that existed before is suspended when the process dies: its new suspension is kept.
func (s *scene) crashCompanionWaitsAgain() {
	pays := plays(scripted.Text("Hello."), asks("c1", "refund", "42"), scripted.Text("I paid."))
	s.accompanied(cairn.Blocking, pays, []cairn.Tool{s.refund()},
		spawns("c1", "ann", "hello"), scripted.Text("She is there."), sends("c2", "ann", "pay"), scripted.Text("She did it."))
	s.process().turn("s", "go")
	two := s.process(s.mortal())
	two.dieBefore(step("s", 1))
	s.awaitDeath(two.start("s", "go on"))
	three := s.process()
	three.work()
	s.awaitEnd("s", 2)
	three.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// A non-blocking companion outlives its process.
func (s *scene) crashBackground() {
	done, _ := s.busyScribe(spawns("c1", "ann", "count"), scripted.Text("Ann is at it."), scripted.Text("Ann is done."))
	one, two := s.process(s.mortal()), s.process()
	one.turn("s", "go")
	ann := s.awaitAnn(1)
	one.die()
	one.leave()
	done()
	s.later()
	two.work()
	s.awaitEnd(ann, 1)
	two.turn("s", "and now?")
}
