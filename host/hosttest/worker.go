package hosttest

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// workers are scenarios of workers that resume sessions by themselves.
var workers = []scenario{
	{"worker", (*scene).worker},
	{"worker-tree", (*scene).workerTree},
	{"workers", (*scene).severalWorkers},
	{"auto-resume", (*scene).autoResume},
	{"auto-resume-tree", (*scene).autoResumeTree},
	{"auto-resume-crashed", (*scene).autoResumeCrashed},
}

func (s *scene) worker() {
	s.oneRefund()
	one := s.process()
	s.process().work()
	one.turn("s", "refund it")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// After the answer to a grandchild's call, a worker resumes the root.
func (s *scene) workerTree() {
	s.dynasty(s.refund())
	one := s.process()
	s.process().work()
	one.turn("s", "refund it")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// Several workers claim each session once.
func (s *scene) severalWorkers() {
	s.oneRefund()
	one := s.process()
	s.roots = nil
	for n := range 6 {
		s.roots = append(s.roots, fmt.Sprint("s", n))
	}
	for _, id := range s.roots {
		one.turn(id, "refund it")
	}
	for range 3 {
		s.process().work()
	}
	for _, id := range s.roots {
		one.submit(id, cairn.Approve(s.open(id, "refund")), cairn.OutcomeAccepted)
	}
	for _, id := range s.roots {
		s.awaitEnd(id, 2)
	}
}

func (s *scene) autoResume() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "refund", "42"), asks("c2", "locate", "here")), scripted.Text("Done.")), s.refund(), locate())}
	one, two := s.process(), s.process(func(o *engine.Options) { o.AutoResume = true })
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

func (s *scene) autoResumeTree() {
	s.twins()
	one, two := s.process(), s.process(func(o *engine.Options) { o.AutoResume = true })
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// The answer to a child's call takes over the run of a parent whose process died before it was suspended. Submit does
// not wait for that.
func (s *scene) autoResumeCrashed() {
	s.family(s.refund())
	one := s.process(s.mortal())
	one.dieBefore(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "refund it"))
	testclock.Await(s.T, "the dead process's lease to run out", func() bool { row := s.row("s"); return row.Crashed(row.AsOf) })
	two := s.process(func(o *engine.Options) { o.AutoResume = true })
	answered := make(chan struct{})
	two.tap.watch(func(o operation) error {
		if o.session == "s" && o.commit != nil && o.commit.Lease.Action == driver.LeaseTake {
			<-answered
		}
		return nil
	}, nil)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	close(answered)
	s.awaitEnd("s", 1)
}

// durabilities are scenarios of when steps are committed. A suspended step is always committed.
var durabilities = []scenario{
	{"per-tool", func(s *scene) { s.endure(cairn.PerTool) }},
	{"manual", func(s *scene) { s.endure(cairn.Manual) }},
	{"interval", func(s *scene) { s.endure(cairn.Interval(time.Hour)) }},
}

func (s *scene) endure(d cairn.Durability) {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "note", "1"),
		scripted.Reply(asks("c2", "refund", "42"), asks("c3", "note", "2")),
		asks("c4", "note", "3"),
		scripted.Reply(asks("c5", "locate", "here"), asks("c6", "note", "4")),
		scripted.Text("Done.")), s.note(), s.refund(), locate())}
	s.agents[0].Durability = d
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	one.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	one.resume("s")
}
