package hosttest

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// aimed are scenarios of stops that name their run, and of what becomes of tools that are at work then.
var aimed = []scenario{
	{"stop-run", (*scene).stopRun},
	{"stop-run-waiting", (*scene).stopRunWaiting},
	{"stop-run-late", (*scene).stopRunLate},
	{"stop-run-crashed", (*scene).stopRunCrashed},
	{"stop-run-taken-over", (*scene).stopRunTakenOver},
}

// busyBot sets a bot that calls a tool that returns, one that does not, and one whose turn has not come yet.
func (s *scene) busyBot(d cairn.Durability) {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("I begin. "), asks("c1", "note", "n"), asks("c2", "slow", ""), asks("c3", "close", "it")),
		scripted.Text("Where was I?"), scripted.Text("Bye.")), s.note(), s.slow(), s.closing())}
	s.agents[0].Durability = d
}

// The handle of the run stops it; what had begun is distinguished from what had not.
func (s *scene) stopRun() {
	s.busyBot(cairn.PerStep)
	one, two := s.process(), s.process()
	run := one.start("s", "go")
	s.awaitTool("s", cairn.EventToolEnd, "note")
	s.atWork("slow")
	s.must(run.Interrupt(s.Context(), "enough"))
	s.outcome(run)
	s.want("another interrupt", run.Interrupt(s.Context(), "again"), cairn.ErrNotRunning)
	s.want("an abort", run.Abort(s.Context(), "again"), cairn.ErrNotRunning)
	two.resume("s")
}

// A run that waits is stopped by its handle until it is resumed as another run.
func (s *scene) stopRunWaiting() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Then not."), asks("c2", "refund", "43"), scripted.Text("Done.")), s.refund())}
	one, two := s.process(), s.process()
	first := one.start("s", "refund it")
	s.outcome(first)
	s.must(first.Interrupt(s.Context(), "enough"))
	one.resume("s")
	second := two.start("s", "refund the other")
	s.outcome(second)
	s.want("a stop of an earlier run", first.Abort(s.Context(), "late"), cairn.ErrNotRunning)
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
	s.want("a stop of the run that was resumed", second.Abort(s.Context(), "late"), cairn.ErrNotRunning)
}

// A stop of a run that has ended does not hit the next one, whose tool is at work.
func (s *scene) stopRunLate() {
	s.agents = []*cairn.Agent{bot(plays(scripted.Text("Hello."), asks("c1", "slow", ""), scripted.Text("Bye.")), s.slow())}
	one, two := s.process(), s.process()
	first := one.start("s", "hello")
	s.outcome(first)
	second := two.start("s", "go")
	s.atWork("slow")
	s.want("a stop of an earlier run", first.Interrupt(s.Context(), "late"), cairn.ErrNotRunning)
	if row := s.row("s"); row.Status != cairn.SessionActive {
		s.Fatalf("the session is %s", row.Status)
	}
	s.must(second.Abort(s.Context(), "enough"))
	s.outcome(second)
}

// crashAtWork leaves the run of a process that died while a tool was at work. Its reply was staged.
func (s *scene) crashAtWork() *engine.Run {
	s.Helper()
	s.busyBot(cairn.PerTool)
	one := s.process(s.mortal())
	run := one.start("s", "go")
	s.awaitTool("s", cairn.EventToolEnd, "note")
	s.atWork("slow")
	one.die()
	one.leave() // otherwise it would keep running until its lease lapses
	s.awaitDeath(run)
	return run
}

// A stop of a run whose process died keeps what was staged: nobody knows what the tool that was at work has done.
func (s *scene) stopRunCrashed() {
	s.crashAtWork()
	two := s.process()
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.resume("s")
}

// So does a worker that takes over a run that is to stop.
func (s *scene) stopRunTakenOver() {
	run := s.crashAtWork()
	s.must(s.st.RequestStop(s.Context(), "s", cairn.Stop{RunID: run.ID(), Kind: cairn.StopInterrupt, Reason: "enough"}))
	two := s.process()
	two.work()
	s.await("the hook", func() bool {
		s.diary.mu.Lock()
		defer s.diary.mu.Unlock()
		return slices.ContainsFunc(s.diary.list, func(e entry) bool { return e.session == "s" && e.hook == "RunInterrupt" })
	})
	two.resume("s")
}
