package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// turnsInTheWay are scenarios of turns that arrive while another turn is running.
var turnsInTheWay = []scenario{
	{"busy-reject", (*scene).busyReject},
	{"busy-delete", (*scene).busyDelete},
	{"busy-repeated", (*scene).busyRepeated},
	{"busy-enqueue", (*scene).busyEnqueue},
	{"busy-enqueue-waiting", (*scene).busyEnqueueWaiting},
	{"busy-enqueue-interrupted", (*scene).busyEnqueueInterrupted},
	{"busy-enqueue-crash", (*scene).busyEnqueueCrash},
	{"busy-interrupt", (*scene).busyInterrupt},
	{"busy-interrupt-child", (*scene).busyInterruptChild},
	{"busy-rollback", (*scene).busyRollback},
	{"busy-rollback-child", (*scene).busyRollbackChild},
	{"busy-rollback-first", (*scene).busyRollbackFirst},
}

// occupied sets an agent whose second reply to "one" stops halfway until free is called. To any other message it
// replies with what it received.
func (s *scene) occupied(tools ...cairn.Tool) (free func()) {
	gate := make(chan struct{})
	s.agents = []*cairn.Agent{bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		switch {
		case last.Role == cairn.RoleTool:
			return scripted.Reply(scripted.Text("One is "), scripted.Gate(gate), scripted.Text("done."))
		case last.Text() == "one":
			return asks("c1", tools[0].Name(), "one")
		}
		return scripted.Text("I heard " + last.Text() + ".")
	}), tools...)}
	return func() { close(gate) }
}

// occupy begins a turn of an occupied bot and returns halfway through its second reply.
func (s *scene) occupy(p *process) *engine.Run {
	s.Helper()
	run := p.start("s", "one")
	s.awaitEvent("s", "the bot to say something", func(ev *cairn.Event) bool { return ev.Text == "is " })
	return run
}

// own checks that the events of a run's handle begin and end with that run.
func (s *scene) own(run *engine.Run) {
	s.Helper()
	var first, last cairn.Event
	for ev, err := range run.Events(s.Context()) {
		s.must(err)
		if first.Type == "" {
			first = ev
		}
		last = ev
	}
	if first.Type != cairn.EventRunStart || first.RunID != run.ID() || !last.Ends(run.ID()) {
		s.Errorf("events of run %s: from %s of %s to %s of %s", run.ID(), first.Type, first.RunID, last.Type, last.RunID)
	}
}

// Other verbs are refused while a run is under way, and change nothing.
func (s *scene) busyReject() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	for _, p := range []*process{one, two} {
		_, err := p.Execute(s.Context(), "s", "bot", cairn.Text("two"))
		s.want("a turn in the way", err, cairn.ErrAlreadyRunning)
		_, err = p.Resume(s.Context(), "s")
		s.want("a resume in the way", err, cairn.ErrAlreadyRunning)
		_, err = p.Retry(s.Context(), "s")
		s.want("a retry in the way", err, cairn.ErrAlreadyRunning)
		_, err = p.Rewind(s.Context(), "s", s.row("s").CheckpointID)
		s.want("a rewind in the way", err, cairn.ErrAlreadyRunning)
	}
	free()
	s.outcome(run)
}

// A busy session is deleted by any process: its run is aborted, and its queued turns never begin.
func (s *scene) busyDelete() {
	free := s.occupied(s.note())
	defer free()
	one, two := s.process(), s.process()
	s.occupy(one)
	queued := two.enqueue("two")
	s.must(two.Delete(s.Context(), "s"))
	s.roots = nil
	for _, p := range []*process{one, two} {
		_, err := p.Session(s.Context(), "s")
		s.want("the session", err, cairn.ErrDeleted)
	}
	if _, err := queued.Wait(s.Context()); err == nil {
		s.Error("the queued turn has run")
	}
	row, err := two.Restore(s.Context(), "s")
	s.must(err)
	s.say("restored it is %s after turn %d, with %d queued turns", row.Status, row.Turn, row.Queued)
}

// enqueue queues a turn of the bot.
func (p *process) enqueue(text string) *engine.Run {
	p.s.Helper()
	return p.start("s", text, engine.WithOnBusy(engine.BusyEnqueue))
}

// Queued turns follow in order, whichever process enqueued them.
func (s *scene) busyEnqueue() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	runs := []*engine.Run{s.occupy(one), two.enqueue("two"), one.enqueue("three"), two.enqueue("four")}
	s.say("%d turns are queued", s.row("s").Queued)
	free()
	for _, run := range runs {
		s.outcome(run)
		s.own(run)
	}
	s.awaitHooks("s", 4)
}

// A message begins a new session once, whichever process gets it again, and is queued once behind another turn.
func (s *scene) busyRepeated() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	give := func(p *process, message string, opts ...engine.RunOption) (*engine.Run, error) {
		m := cairn.User(cairn.TextPart(message))
		m.ID = "message-" + message
		return p.Execute(s.Context(), "s", "bot", cairn.Messages(m), append(opts, engine.OncePerMessage())...)
	}
	run, err := give(one, "one", engine.OnlyNew(), engine.WithTags("new"))
	s.must(err)
	s.awaitEvent("s", "the bot to say something", func(ev *cairn.Event) bool { return ev.Text == "is " })
	_, err = give(two, "two", engine.OnlyNew())
	s.want("a new session of the id", err, cairn.ErrExists)
	queued, err := give(one, "two", engine.WithOnBusy(engine.BusyEnqueue), engine.HavingSeen(run.ID()))
	s.must(err)
	again := func(when string) {
		for _, p := range []*process{one, two} {
			for message, of := range map[string]*engine.Run{"one": run, "two": queued} {
				if message == "one" && when == "afterwards" {
					continue // it is of an earlier turn
				}
				found, err := give(p, message, engine.WithOnBusy(engine.BusyEnqueue))
				s.must(err)
				if found.ID() != of.ID() || !found.Found() || of.Found() {
					s.Errorf("%s, message %s is of run %s, want %s", when, message, found.ID(), of.ID())
				}
			}
		}
	}
	again("meanwhile")
	free()
	s.outcome(run)
	s.own(run)
	s.outcome(queued)
	s.own(queued)
	again("afterwards")
	next, err := give(two, "three", engine.HavingSeen(run.ID()))
	s.must(err)
	s.outcome(next)
	s.awaitHooks("s", 3)
}

// Queued turns stay queued while the session is suspended.
func (s *scene) busyEnqueueWaiting() {
	gate := make(chan struct{})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("One is "), scripted.Gate(gate), asks("c1", "refund", "42")),
		scripted.Text("I paid."), scripted.Text("I heard two.")), s.refund())}
	one, two := s.process(), s.process()
	run := s.occupy(one)
	queued := two.enqueue("two")
	close(gate)
	s.outcome(run)
	s.say("%d turns are queued, the session is %s", s.row("s").Queued, s.row("s").Status)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
	s.outcome(queued)
	s.awaitHooks("s", 3)
}

// A stop applies to the current run. The next turn follows.
func (s *scene) busyEnqueueInterrupted() {
	s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	queued := two.enqueue("two")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	s.outcome(queued)
	s.awaitHooks("s", 1)
}

// The process that should begin the next turn dies once the previous turn has ended: a worker begins it.
func (s *scene) busyEnqueueCrash() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	queued := two.enqueue("two")
	one.dieAfter(func(o operation) bool { return o.ends("s") })
	free()
	s.awaitDeath(run)
	two.work()
	s.outcome(queued)
	s.awaitHooks("s", 1)
}

// BusyInterrupt keeps what was committed and seen.
func (s *scene) busyInterrupt() {
	s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	s.outcome(two.start("s", "two", engine.WithOnBusy(engine.BusyInterrupt)))
	s.outcome(run)
}

// BusyInterrupt also keeps the sub-agent's session, which ends with its parent's run.
func (s *scene) busyInterruptChild() { s.busyChild(engine.BusyInterrupt) }

func (s *scene) busyRollbackChild() { s.busyChild(engine.BusyRollback) }

func (s *scene) busyChild(way engine.OnBusy) {
	helper := agent("helper", plays(asks("c1", "note", "n"), asks("c2", "slow", "")), s.note(), s.slow())
	s.agents = []*cairn.Agent{bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Text() != "one" {
			return scripted.Text("I heard " + last.Text() + ".")
		}
		return scripted.Reply(delegates("c1", "helper"), asks("c2", "note", "m"))
	}), cairn.SubAgent(helper), s.note())}
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	run := one.start("s", "one")
	s.atWork("slow")
	s.awaitEvent("s", "the end of the bot's own tool", func(ev *cairn.Event) bool {
		return ev.SessionID == "s" && ev.Type == cairn.EventToolEnd
	})
	s.outcome(two.start("s", "two", engine.WithOnBusy(way)))
	s.outcome(run)
}

// A rollback removes the run's messages, state and checkpoints, but not those of earlier turns.
func (s *scene) busyRollback() {
	s.occupied(s.note())
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	run := s.occupy(one)
	s.outcome(two.start("s", "two", engine.WithOnBusy(engine.BusyRollback)))
	s.outcome(run)
	one.turn("s", "three")
}

// A session with nothing left after a rollback begins anew.
func (s *scene) busyRollbackFirst() {
	s.occupied(s.note())
	p := s.process()
	run := s.occupy(p)
	s.outcome(p.start("s", "two", engine.WithOnBusy(engine.BusyRollback)))
	s.outcome(run)
}
