package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var guardTests = []storeTest{
	{name: "EachConflict", run: eachConflict},
	{name: "Precedence", run: precedence},
	{name: "AllThatHoldAreNoConflict", run: guardHolds},
	{name: "NoGuardIsNotRefused", run: noGuard},
	{name: "LapsedLease", run: lapsedGuard},
	{name: "NoSession", run: guardWithoutSession},
}

var againTests = []storeTest{
	{name: "SameStep", run: sameStep},
	{name: "SameStepAfterOthers", run: sameStepAfterOthers},
	{name: "UnderAGuardThatHolds", run: unguarded},
	{name: "SameStepInParallel", run: sameStepInParallel},
	{name: "SameBegin", run: sameBegin},
	{name: "SameLastStep", run: sameLastStep},
	{name: "AnotherStepIsRefused", run: anotherStep},
	{name: "StepOfAnotherSession", run: stepOfAnother},
}

// conflicts returns the guards that do not hold on an active session, in the order in which they are checked.
func conflicts(s *cairn.Session) []struct {
	name string
	set  func(*driver.Guard)
	want cairn.Code
} {
	return []struct {
		name string
		set  func(*driver.Guard)
		want cairn.Code
	}{
		{"new", func(g *driver.Guard) { g.New = true }, cairn.ErrExists},
		{"token", func(g *driver.Guard) { g.Token = s.Lease.Token + 1 }, cairn.ErrFenced},
		{"agent", func(g *driver.Guard) { g.Agent = "another agent" }, cairn.ErrInvalid},
		{"idle", func(g *driver.Guard) { g.Idle = true }, cairn.ErrAlreadyRunning},
		{"lapsed", func(g *driver.Guard) { g.Lapsed = true }, cairn.ErrAlreadyRunning},
		{"version", func(g *driver.Guard) { g.Version = s.Version + 1 }, cairn.ErrStale},
	}
}

func (h *harness) refused(s *cairn.Session, g driver.Guard, want cairn.Code, what string) {
	h.Helper()
	c := h.everythingBut(s)
	c.Guard = g
	c.Create = &cairn.Session{ID: s.ID, Agent: agentName}
	h.unchanged(s.ID, what, func() {
		_, err := h.st.Commit(h.Context(), s.ID, c)
		same(h.T, what+": the row the store saw", h.wantConflict(err, want, what), s)
	})
}

func eachConflict(h *harness) {
	s := h.running("session")
	for _, c := range conflicts(s) {
		var g driver.Guard
		c.set(&g)
		h.refused(s, g, c.want, "guard "+c.name)
	}
	h.refused(s, driver.Guard{Version: s.Version - 1}, cairn.ErrStale, "an older version")
}

func precedence(h *harness) {
	s := h.running("session")
	var g driver.Guard
	list := conflicts(s)
	for i := range list {
		c := list[len(list)-1-i]
		c.set(&g)
		h.refused(s, g, c.want, fmt.Sprintf("guard %s before %d others", c.name, i))
	}
}

func guardHolds(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	s = h.commit("session", &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token, Agent: agentName, Version: s.Version}})
	s = h.end(s)
	h.commit("session", &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token, Agent: agentName, Idle: true, Version: s.Version}})
}

func noGuard(h *harness) {
	h.running("session")
	s := h.commit("session", &driver.Commit{Messages: says("from elsewhere")})
	if s.MessageCount != 3 {
		h.Fatalf("%d messages, want 3", s.MessageCount)
	}
}

func lapsedGuard(h *harness) {
	dead := h.crash("session", "run")
	s := h.commit("session", &driver.Commit{Guard: driver.Guard{Lapsed: true}, Recovered: true,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}})
	if s.Lease.Token <= dead.Lease.Token || s.Recoveries != 1 {
		h.Fatalf("row is %+v", s)
	}
	h.refused(s, driver.Guard{Lapsed: true}, cairn.ErrAlreadyRunning, "lapsed, with a good lease")
	s = h.end(s)
	h.refused(s, driver.Guard{Lapsed: true}, cairn.ErrNotRunning, "lapsed, on a session that is not active")
}

func guardWithoutSession(h *harness) {
	for name, g := range map[string]driver.Guard{"none": {}, "idle": {Idle: true}, "agent": {Agent: agentName}, "version": {Version: 1},
		"token": {Token: 1}, "lapsed": {Lapsed: true}} {
		_, err := h.st.Commit(h.Context(), "nobody", &driver.Commit{Guard: g, Messages: says("hello")})
		h.wantError(err, cairn.ErrNotFound, "commit to no session with guard "+name)
		if _, err := driver.Load(h.Context(), h.st, "nobody"); !errors.Is(err, cairn.ErrNotFound) {
			h.Fatalf("commit with guard %s made a session: %v", name, err)
		}
	}
}

// again repeats a commit that was applied before: it must return the current row and change nothing.
func (h *harness) again(id string, c *driver.Commit, what string) {
	h.Helper()
	h.unchanged(id, what, func() {
		row, err := h.st.Commit(h.Context(), id, c)
		if err != nil {
			h.Fatalf("%s: %v", what, err)
		}
		same(h.T, what+": row", row, h.load(id))
	})
}

// withSideEffects adds to a step everything that would be doubled if the step were applied twice.
func (h *harness) withSideEffects(c *driver.Commit, s *cairn.Session) *driver.Commit {
	c.State = h.change(s, cairn.Op{Kind: cairn.OpAppend, Path: "/list", Items: items("1")})
	c.Usage = cairn.Usage{ModelCalls: 1}
	c.Recovered = true
	return c
}

func sameStep(h *harness) {
	s := h.running("session")
	c := h.withSideEffects(h.stepCommit(s, "once"), s)
	first := h.commit("session", c)
	for range 3 {
		h.again("session", c, "the same step again")
	}
	same(h.T, "row", h.load("session"), first)
}

func sameStepAfterOthers(h *harness) {
	s := h.running("session")
	c := h.withSideEffects(h.stepCommit(s, "once"), s)
	s = h.commit("session", c)
	s = h.step(s, "another")
	h.again("session", c, "a step again after another")
	h.commit("session", &driver.Commit{Messages: says("from elsewhere")})
	h.end(s)
	h.again("session", c, "a step again after the run")
	h.begin("session", "next run")
	// Now the commit could be a zombie's, and another holder could have done the step.
	h.unchanged("session", "a step again with a fenced token", func() {
		_, err := h.st.Commit(h.Context(), "session", c)
		h.wantConflict(err, cairn.ErrFenced, "a step again with a fenced token")
	})
}

// unguarded repeats a step and a begin whose guards hold.
func unguarded(h *harness) {
	s := h.running("session")
	c := h.withSideEffects(h.stepCommit(s, "once"), s)
	c.Guard = driver.Guard{Token: s.Lease.Token}
	s = h.commit("session", c)
	h.again("session", c, "a step again under a guard that holds")
	h.end(s)
	begin := beginCommit("second", "worker", time.Hour)
	h.end(h.commit("session", begin))
	h.again("session", begin, "a begin again when the session is idle again")
}

func sameStepInParallel(h *harness) {
	s := h.running("session")
	for n := range h.rounds(50) {
		c := h.withSideEffects(h.stepCommit(s, fmt.Sprint("step ", n)), s)
		errs := race(racers, func(int) error {
			_, err := h.st.Commit(h.Context(), "session", c)
			return err
		})
		h.must(errors.Join(errs...))
		s = h.load("session")
	}
	if want := h.rounds(50); s.MessageCount != want+2 || s.Usage.ModelCalls != int64(want) {
		h.Fatalf("%d messages, %d model calls, want %d and %d", s.MessageCount, s.Usage.ModelCalls, want+2, want)
	}
}

func sameBegin(h *harness) {
	h.create("session")
	c := beginCommit("run", "worker", time.Hour)
	s := h.commit("session", c)
	h.again("session", c, "the same begin again")
	s = h.step(s, "reply")
	h.again("session", c, "a begin again after its first step")
	h.end(s)
	h.begin("session", "next run")
	h.again("session", c, "a begin again in the next run")
	if runs := h.runs("session"); len(runs) != 2 {
		h.Fatalf("%d runs, want 2", len(runs))
	}

	// The same holds if it names the token of the previous holder, as long as the session has no other holder.
	s = h.end(h.load("session"))
	c = beginCommit("run after that", "worker", time.Hour)
	c.Guard.Token = s.Lease.Token
	h.commit("session", c)
	h.again("session", c, "a begin again that its own lease has fenced off")
	h.unchanged("session", "another's begin", func() {
		other := *c
		other.Lease.Owner = "another worker"
		_, err := h.st.Commit(h.Context(), "session", &other)
		h.wantConflict(err, cairn.ErrFenced, "another's begin with a token that is not current")
	})

	// The same holds for a session that the commit created.
	first := beginCommit("first", "worker", time.Hour)
	first.Create = &cairn.Session{Agent: agentName}
	first.Guard = driver.Guard{New: true}
	h.commit("created", first)
	h.again("created", first, "the same creating begin again")
}

// sameLastStep repeats the commit that ends the run and releases the lease.
func sameLastStep(h *harness) {
	s := h.running("session")
	c := h.stepCommit(s, "last words")
	end := endCommit(s)
	c.EndRun, c.Status, c.Lease = end.EndRun, end.Status, end.Lease
	h.commit("session", c)
	h.again("session", c, "the last step again")
}

func anotherStep(h *harness) {
	s := h.running("session")
	late := h.stepCommit(s, "late")
	h.step(s, "first")
	h.unchanged("session", "a stale step", func() {
		_, err := h.st.Commit(h.Context(), "session", late)
		h.wantConflict(err, cairn.ErrStale, "another step under the same version")
	})
}

// stepOfAnother uses the id of another session's step: it is not the same step.
func stepOfAnother(h *harness) {
	one, two := h.running("one"), h.running("two")
	c := h.stepCommit(one, "in one")
	h.commit("one", c)
	mine := h.stepCommit(two, "in two")
	mine.Checkpoint.StepID = c.Checkpoint.StepID
	h.commit("two", mine)
	stale := h.stepCommit(two, "too late")
	h.unchanged("two", "a stale step", func() {
		stale.Checkpoint.StepID = one.CheckpointID
		_, err := h.st.Commit(h.Context(), "two", stale)
		h.wantConflict(err, cairn.ErrStale, "a step under an old version")
	})
}
