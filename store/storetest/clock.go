package storetest

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// clockTests are about the times that decide something: all of them are the store's.
var clockTests = []storeTest{
	{name: "RowsSayTheTime", run: rowsSayTheTime},
	{name: "CrashedByTheRowAlone", run: crashedByTheRow},
	{name: "Deadline", run: deadlineKept},
	{name: "DeadlineOfANewSession", run: deadlineOfANewSession},
	{name: "DueAtADeadline", run: dueAtADeadline},
}

// rowsSayTheTime reads a row with each method.
func rowsSayTheTime(h *harness) {
	last := time.Time{}
	check := func(what string, s *cairn.Session) {
		h.Helper()
		if s.AsOf.Before(s.UpdatedAt) || s.AsOf.Before(last) || s.AsOf.Location() != time.UTC {
			h.Fatalf("%s: as of %v, updated at %v, the row before as of %v", what, s.AsOf, s.UpdatedAt, last)
		}
		last = s.AsOf
	}
	check("create", h.create("session"))
	s := h.begin("session", "run")
	check("begin", s)
	c := h.stepCommit(s, "reply")
	s = h.commit("session", c)
	check("step", s)
	check("repeated step", h.commit("session", c))
	for range 3 {
		s = h.step(s, "reply")
		check("step", s)
	}
	check("load", h.load("session"))
	snap, err := h.st.Read(h.Context(), "session", driver.ToDrive(0))
	h.must(err)
	check("snapshot", snap.Session)
	page, err := h.st.List(h.Context(), driver.SessionQuery{})
	h.must(err)
	check("list", &page.Items[0])
	_, err = h.st.Commit(h.Context(), "session", &driver.Commit{Guard: driver.Guard{Idle: true}})
	check("guard", h.wantConflict(err, cairn.ErrAlreadyRunning, "a second run"))
	_, err = h.st.Commit(h.Context(), "session", &driver.Commit{Guard: driver.Guard{Version: 1}})
	check("version", h.wantConflict(err, cairn.ErrStale, "an old version"))
	check("delete", h.wantConflict(h.st.Delete(h.Context(), "session"), cairn.ErrAlreadyRunning, "delete"))
	branch, err := h.st.Branch(h.Context(), "session", driver.BranchPoint{}, &cairn.Session{ID: "branch", Agent: agentName})
	h.must(err)
	check("branch", branch)
}

// crashedByTheRow detects a lapsed lease by the row alone, without a clock.
func crashedByTheRow(h *harness) {
	h.create("session")
	s := h.commit("session", beginCommit("run", "worker", brief))
	if !s.Running(s.AsOf) {
		h.Fatalf("a lease until %v is not good as of %v", s.Lease.Until, s.AsOf)
	}
	testclock.Await(h.T, "the lease to lapse", func() bool {
		s := h.load("session")
		return s.Crashed(s.AsOf)
	})
	if due := h.due(10); len(due) != 1 {
		h.Fatalf("due: %+v", due)
	}
}

// ask returns the commit that suspends the run that holds a session until one call is answered, or until a deadline.
func ask(call string, deadline time.Time) *driver.Commit {
	return &driver.Commit{
		Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: deadline},
		Calls: []driver.CallWrite{{Call: cairn.PendingCall{
			CallRef: cairn.CallRef{ID: call, Kind: cairn.CallClientTool, Tool: "tool", Deadline: deadline}, StepID: "step", Status: cairn.CallOpen}}},
		Lease: driver.LeaseChange{Action: driver.LeaseRelease},
	}
}

// wantDeadline checks the deadline of a session and of its call.
func (h *harness) wantDeadline(s *cairn.Session, call string, want time.Time) {
	h.Helper()
	for what, got := range map[string]time.Time{
		"the row's next deadline":    s.NextDeadline,
		"that of the row when read":  h.load(s.ID).NextDeadline,
		"that of the call":           h.call(s.RootID, call).Deadline,
		"that of the call in a list": h.calls(driver.CallQuery{SessionID: s.ID, DueBefore: want.Add(time.Microsecond)})[0].Deadline,
	} {
		if !got.Equal(want) {
			h.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
	if list := h.calls(driver.CallQuery{SessionID: s.ID, DueBefore: want}); len(list) > 0 {
		h.Fatalf("calls with a deadline before %v: %+v", want, list)
	}
	snap, err := h.st.Read(h.Context(), s.ID, driver.ToDrive(0))
	h.must(err)
	if len(snap.Calls) != 1 || !snap.Calls[0].Deadline.Equal(want) {
		h.Fatalf("calls of the snapshot: %+v, want one with the deadline %v", snap.Calls, want)
	}
}

// deadlineKept has the deadline of a session and of its call, whatever the store has cached of the session. It stays when
// the call is written again.
func deadlineKept(h *harness) {
	for name, version := range map[string]int64{"unguarded": 0, "guarded": 1} {
		h.create(name)
		s := h.begin(name, "run of "+name)
		c := ask("call", s.AsOf.Add(10*time.Minute+789)) // which stores keep in microseconds
		c.Guard = driver.Guard{Token: s.Lease.Token, Version: version * s.Version}
		want := s.AsOf.Add(10 * time.Minute)
		s = h.commit(name, c)
		h.wantDeadline(s, "call", want)

		deadline, call := s.NextDeadline, *h.call(name, "call")
		call.ClaimedBy, call.ClaimedUntil = "ann", at(5)
		s = h.commit(name, &driver.Commit{Calls: []driver.CallWrite{{Call: call, Seen: call.Version}}})
		h.wantDeadline(s, "call", deadline)
		call = *h.call(name, "call")
		call.Deadline = deadline.Add(time.Minute)
		s = h.commit(name, &driver.Commit{Calls: []driver.CallWrite{{Call: call, Seen: call.Version}},
			Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: call.Deadline}})
		h.wantDeadline(s, "call", call.Deadline)
	}
}

func deadlineOfANewSession(h *harness) {
	deadline := h.create("before").AsOf.Add(time.Minute)
	c := ask("call", deadline)
	c.Create, c.Lease = &cairn.Session{ID: "session", Agent: agentName}, driver.LeaseChange{}
	h.wantDeadline(h.commit("session", c), "call", deadline)
}

func dueAtADeadline(h *harness) {
	h.create("later")
	later := h.begin("later", "run")
	h.commit("later", ask("another call", later.AsOf.Add(time.Hour)))
	h.create("session")
	s := h.begin("session", "run")
	s = h.commit("session", ask("call", s.AsOf.Add(brief)))
	due := h.awaitDue("session")
	if due.Kind != driver.DueDeadline || !due.Since.Equal(s.NextDeadline) {
		h.Fatalf("due: %+v, want since %v", due, s.NextDeadline)
	}
	if list := h.due(10); len(list) != 1 {
		h.Fatalf("due: %+v, want the one whose deadline has passed", list)
	}
}
