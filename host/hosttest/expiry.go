package hosttest

import (
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// expiries are scenarios of sessions that expire and are purged.
var expiries = []scenario{
	{"sweep", (*scene).sweep},
	{"sweep-worker", (*scene).sweepWorker},
	{"sweep-crash", (*scene).sweepCrash},
}

// idle leaves two sessions, each with a child: "gone" expires soon, "s" stays. "gone" is given its expiry after its
// turn, which it would otherwise not outlive on a slow machine with a real clock.
func (s *scene) idle(p *process) {
	s.Helper()
	if _, ok := s.st.(driver.Sweeper); !ok {
		s.Fatal("the store is no Sweeper: nothing would expire")
	}
	p.turn("s", "do it")
	p.turn("gone", "do it")
	_, err := p.SetContext(s.Context(), "gone", driver.ContextChange{ExpiresAt: new(s.now().Add(s.soon))})
	s.must(err)
}

// retains makes a process purge soon after a session has expired.
func (s *scene) retains() option { return func(o *engine.Options) { o.Retention = s.soon } }

// sweepUntil sweeps until the reports add up to want. The golden text shows the sum, so nothing may be swept twice.
func (p *process) sweepUntil(what string, want engine.SweepReport) {
	s := p.s
	s.Helper()
	var sum engine.SweepReport
	testclock.Await(s.T, what, func() bool {
		r, err := p.Sweep(s.Context())
		s.must(err)
		for _, bad := range r.Errors {
			s.Errorf("sweep: %s: %v", bad.SessionID, bad.Error)
		}
		sum.Expired += r.Expired
		sum.Purged += r.Purged
		sum.SnapshotsDeleted += r.SnapshotsDeleted
		return s.Failed() || sum.Expired >= want.Expired && sum.Purged >= want.Purged
	})
	s.say("%s: %d expired, %d purged with %d checkpoints", what, sum.Expired, sum.Purged, sum.SnapshotsDeleted)
}

// isGone reports whether a session is hidden.
func (p *process) isGone(id string) bool {
	_, err := p.Session(p.s.Context(), id)
	return errors.Is(err, cairn.ErrNotFound)
}

// One process leaves a session behind. Another process finds it expired and later purges it with its tree.
func (s *scene) sweep() {
	s.family(s.note())
	one, two := s.process(), s.process(s.retains())
	s.idle(one)
	s.later()
	two.sweepUntil("the session expires", engine.SweepReport{Expired: 1})
	if !one.isGone("gone") {
		s.Error("the session that has expired is there")
	}
	s.later()
	two.sweepUntil("its retention ends", engine.SweepReport{Purged: 1})
	one.turn("s", "thanks")
}

// A worker sweeps by itself.
func (s *scene) sweepWorker() {
	s.family(s.note())
	one := s.process()
	s.idle(one)
	s.later()
	s.process(s.retains(), func(o *engine.Options) { o.SweepInterval = o.WorkInterval }).work()
	testclock.Await(s.T, "the worker to sweep", func() bool { return one.isGone("gone") })
	one.turn("s", "thanks")
}

// A process dies once it has hidden an expired session: another process purges it.
func (s *scene) sweepCrash() {
	s.family(s.note())
	one := s.process(s.retains())
	s.idle(one)
	s.later()
	one.dieAfter(func(o operation) bool { return o.name == "Remove" && o.session == "gone" })
	testclock.Await(s.T, "a sweep to die", func() bool {
		one.Sweep(s.Context())
		return !one.alive()
	})
	s.later()
	two := s.process(s.retains())
	two.sweepUntil("what the dead process hid is purged", engine.SweepReport{Purged: 1})
	two.turn("s", "thanks")
}
