package hosttest

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// aimed are scenarios of stops that name their run, and of tools that are running when the stop arrives.
var aimed = []scenario{
	{"stop-run", (*scene).stopRun},
	{"stop-run-waiting", (*scene).stopRunWaiting},
	{"stop-run-late", (*scene).stopRunLate},
	{"stop-run-crashed", (*scene).stopRunCrashed},
	{"stop-run-taken-over", (*scene).stopRunTakenOver},
}

// busyBot sets a bot that calls three tools: one that returns, one that does not, and one that has not started yet.
func (s *scene) busyBot(d cairn.Durability) {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("I begin. "), asks("c1", "note", "n"), asks("c2", "slow", ""), asks("c3", "close", "it")),
		scripted.Text("Where was I?"), scripted.Text("Bye.")), s.note(), s.slow(), s.closing())}
	s.agents[0].Durability = d
}

// The run's handle stops it. The transcript distinguishes calls that had started from those that had not.
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

// The handle of a suspended run stops it, until the turn is resumed as another run.
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

// A stop of a run that has ended does not affect the next run, whose tool is running.
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

// crashAtWork leaves the run of a process that died while a tool was running. The step's reply was staged.
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

// A stop of a dead process's run keeps what was staged: what the running tool has done is unknown.
func (s *scene) stopRunCrashed() {
	s.crashAtWork()
	two := s.process()
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.resume("s")
}

// A worker that takes over a run with a stop request keeps it as well.
func (s *scene) stopRunTakenOver() {
	run := s.crashAtWork()
	s.must(s.st.RequestStop(s.Context(), "s", cairn.Stop{RunID: run.ID(), Kind: cairn.StopInterrupt, Reason: "enough"}))
	two := s.process()
	two.work()
	testclock.Await(s.T, "the hook", func() bool {
		s.diary.mu.Lock()
		defer s.diary.mu.Unlock()
		return slices.ContainsFunc(s.diary.list, func(e entry) bool { return e.session == "s" && e.hook == "RunInterrupt" })
	})
	two.resume("s")
}
