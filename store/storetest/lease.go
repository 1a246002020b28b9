package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

var leaseTests = []storeTest{
	{name: "TakeRenewRelease", run: leaseActions},
	{name: "Renew", run: renew},
	{name: "RenewIsFenced", run: renewFenced},
	{name: "RenewAfterRelease", run: renewReleased},
	{name: "LateHolderKeepsTheLease", run: renewLate},
	{name: "DueWhenItRunsOut", run: dueWhenLapsed},
	{name: "DueHoweverItEnds", run: dueHoweverItEnds},
	{name: "DueInTurnHoweverItEnds", run: dueInTurn},
	{name: "DueOnlyWhileActive", run: dueOnlyActive},
	{name: "DueInOrder", run: dueInOrder},
}

// wantTTL checks a lease's end by the store's own clock, from which the row's UpdatedAt was read.
func (h *harness) wantTTL(s *cairn.Session, ttl time.Duration) {
	h.Helper()
	const clockStep = 10 * time.Millisecond
	if off := s.Lease.Until.Sub(s.UpdatedAt) - ttl; off < -clockStep || off > clockStep {
		h.Fatalf("the lease lapses %v after the commit, want %v", s.Lease.Until.Sub(s.UpdatedAt), ttl)
	}
}

func leaseActions(h *harness) {
	first := h.create("session").Lease.Token
	lease := func(change driver.LeaseChange) *cairn.Session {
		h.Helper()
		return h.commit("session", &driver.Commit{Lease: change})
	}
	s := lease(driver.LeaseChange{Action: driver.LeaseTake, Owner: "one", TTL: time.Minute})
	h.wantTTL(s, time.Minute)
	one := s.Lease.Token
	if s.Lease.Owner != "one" || one <= first {
		h.Fatalf("lease %+v after it was taken", s.Lease)
	}
	kept := lease(driver.LeaseChange{})
	same(h.T, "lease that was left as it is", kept.Lease, s.Lease)
	s = lease(driver.LeaseChange{Action: driver.LeaseRenew, Owner: "ignored", TTL: time.Hour})
	h.wantTTL(s, time.Hour)
	if s.Lease.Owner != "one" || s.Lease.Token != one {
		h.Fatalf("lease %+v after it was renewed", s.Lease)
	}
	s = lease(driver.LeaseChange{Action: driver.LeaseTake, Owner: "two", TTL: time.Minute})
	two := s.Lease.Token
	if s.Lease.Owner != "two" || two <= one {
		h.Fatalf("lease %+v after another took it", s.Lease)
	}
	s = lease(driver.LeaseChange{Action: driver.LeaseRelease})
	if s.Lease.Owner != "" || s.Lease.Token != two || !s.Lease.Until.Equal(s.UpdatedAt) {
		h.Fatalf("lease %+v after it was released", s.Lease)
	}
	s = lease(driver.LeaseChange{Action: driver.LeaseTake, Owner: "three", TTL: time.Minute})
	if s.Lease.Token <= two {
		h.Fatalf("fencing token %d after a release at %d", s.Lease.Token, two)
	}
	same(h.T, "lease as loaded", h.load("session").Lease, s.Lease)
}

// renew extends the lease without a commit: the holder's next step is not stale.
func renew(h *harness) {
	h.create("session")
	s := h.commit("session", beginCommit("run", "worker", time.Minute))
	stop, err := h.st.Renew(h.Context(), "session", s.Lease.Token, time.Hour)
	if err != nil || stop != nil {
		h.Fatalf("renewed with stop %+v, %v", stop, err)
	}
	got := h.load("session")
	if extended := got.Lease.Until.Sub(s.Lease.Until); extended < 58*time.Minute || extended > 2*time.Hour {
		h.Fatalf("renewing to an hour moved a lease of a minute by %v", extended)
	}
	want := *s
	want.Lease.Until, want.Lease.TTL, want.UpdatedAt = got.Lease.Until, cairn.Duration(time.Hour), got.UpdatedAt
	same(h.T, "row", got, &want)
	h.step(s, "reply")
}

func renewFenced(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	for _, token := range []int64{0, s.Lease.Token + 1, -1} {
		h.unchanged("session", "a fenced heartbeat", func() {
			_, err := h.st.Renew(h.Context(), "session", token, time.Hour)
			same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrFenced, fmt.Sprint("token ", token)), s)
		})
	}
	_, err := h.st.Renew(h.Context(), "nobody", 1, time.Hour)
	h.wantError(err, cairn.ErrNotFound, "heartbeat of no session")
}

// renewReleased: a holder that released its lease cannot renew it, whether its run continues or has ended: an effect
// that it abandoned comes too late.
func renewReleased(h *harness) {
	h.create("left")
	left := h.begin("left", "run")
	left = h.commit("left", &driver.Commit{Guard: driver.Guard{Version: left.Version, Token: left.Lease.Token}, Status: cairn.SessionActive,
		Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	h.create("ended")
	ended := h.begin("ended", "run")
	ended = h.commit("ended", endCommit(ended))
	for _, s := range []*cairn.Session{left, ended} {
		h.unchanged(s.ID, "a heartbeat after the release", func() {
			_, err := h.st.Renew(h.Context(), s.ID, s.Lease.Token, time.Hour)
			same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrFenced, s.ID), s)
		})
	}
	if list := h.due(10); len(list) != 1 || list[0].SessionID != "left" || list[0].Kind != driver.DueCrashed {
		h.Fatalf("due after a heartbeat of a released lease: %+v", list)
	}
}

// renewLate: until a takeover, a late holder can renew.
func renewLate(h *harness) {
	s := h.crash("session", "run")
	_, err := h.st.Renew(h.Context(), "session", s.Lease.Token, time.Hour)
	h.must(err)
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due after a late heartbeat: %+v", list)
	}
	_, err = h.st.Commit(h.Context(), "session", &driver.Commit{Guard: driver.Guard{Lapsed: true}})
	h.wantConflict(err, cairn.ErrAlreadyRunning, "takeover after a late heartbeat")
	h.step(h.load("session"), "reply")
}

func (h *harness) due(limit int) []driver.Due {
	h.Helper()
	page, err := h.st.Due(h.Context(), driver.DueQuery{Limit: limit})
	h.must(err)
	return page.Items
}

func dueWhenLapsed(h *harness) {
	h.create("good")
	h.begin("good", "run")
	h.create("idle")
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due while every lease is good: %+v", list)
	}
	s := h.crash("crashed", "run")
	list := h.due(10)
	if len(list) != 1 || list[0].SessionID != "crashed" || list[0].Agent != agentName || list[0].Kind != driver.DueCrashed {
		h.Fatalf("due: %+v", list)
	}
	if !list[0].Since.Equal(s.Lease.Until) {
		h.Fatalf("due since %v, want the end of the lease, %v", list[0].Since, s.Lease.Until)
	}
	h.commit("crashed", takeoverCommit(s, "worker"))
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due after a takeover: %+v", list)
	}
}

// dueInTurn lets leases end in both ways alternately: however many leases are released, sessions that became due
// earlier come first.
func dueInTurn(h *harness) {
	var want []string
	for i := range 6 {
		id := fmt.Sprint("session", 9-i)
		if i%2 == 0 {
			h.crash(id, "run")
		} else {
			h.create(id)
			s := h.begin(id, "run")
			h.commit(id, &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
		}
		want = append(want, id)
	}
	for limit := 1; limit <= len(want); limit++ {
		var got []string
		for _, d := range h.due(limit) {
			got = append(got, d.SessionID)
		}
		if !slices.Equal(got, want[:limit]) {
			h.Fatalf("the first %d of those that are due are %v, want %v", limit, got, want[:limit])
		}
	}
}

// leaseEnd is a way in which a lease can end.
type leaseEnd struct {
	name    string
	end     func(*cairn.Session)
	crashed bool // the run is active, but no process drives it
	due     driver.DueKind
}

// dueHoweverItEnds checks, for every way in which a lease can end, what is due and who may take the session over. An
// active run can be taken over at once, whether its lease lapsed or was released.
func dueHoweverItEnds(h *harness) {
	let := func(lease driver.LeaseAction, ttl time.Duration, more func(*driver.Commit)) func(*cairn.Session) {
		return func(s *cairn.Session) {
			c := &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token}, Lease: driver.LeaseChange{Action: lease, TTL: ttl}}
			if more != nil {
				more(c)
			}
			h.commit(s.ID, c)
		}
	}
	released := func(more func(*driver.Commit)) func(*cairn.Session) { return let(driver.LeaseRelease, 0, more) }
	status := func(status cairn.SessionStatus) func(*cairn.Session) {
		return released(func(c *driver.Commit) { c.Status = status })
	}
	for _, test := range []leaseEnd{
		{"released", released(nil), true, driver.DueCrashed},
		{"released at a version", released(func(c *driver.Commit) { c.Guard.Version = h.load("released at a version").Version }),
			true, driver.DueCrashed},
		{"released with a step", func(s *cairn.Session) {
			c := h.stepCommit(s, "reply")
			c.Lease.Action = driver.LeaseRelease
			h.commit(s.ID, c)
		}, true, driver.DueCrashed},
		{"released, then added to", func(s *cairn.Session) {
			released(nil)(s)
			h.commit(s.ID, &driver.Commit{Messages: []cairn.Message{cairn.Context("a word from outside")}})
		}, true, driver.DueCrashed},
		{"released twice", func(s *cairn.Session) {
			released(nil)(s)
			released(nil)(s)
		}, true, driver.DueCrashed},
		{"run out after a renewal", let(driver.LeaseRenew, brief, nil), true, driver.DueCrashed},
		{"run out after a heartbeat", func(s *cairn.Session) {
			h.must(failureOf(h.st.Renew(h.Context(), s.ID, s.Lease.Token, brief)))
		}, true, driver.DueCrashed},
		{"run out after a step", func(s *cairn.Session) {
			c := h.stepCommit(s, "reply")
			c.Lease = driver.LeaseChange{Action: driver.LeaseRenew, TTL: brief}
			h.commit(s.ID, c)
		}, true, driver.DueCrashed},
		{"run out after a takeover", func(s *cairn.Session) {
			released(nil)(s)
			c := takeoverCommit(h.load(s.ID), "worker")
			c.Lease.TTL = brief
			h.commit(s.ID, c)
		}, true, driver.DueCrashed},
		{"completed", func(s *cairn.Session) { h.end(s) }, false, ""},
		{"failed", status(cairn.SessionFailed), false, ""},
		{"interrupted", status(cairn.SessionInterrupted), false, ""},
		{"paused", status(cairn.SessionPaused), false, ""},
		{"paused and ready", released(func(c *driver.Commit) {
			c.Status, c.Suspend = cairn.SessionPaused, &driver.Suspend{StepID: "step"}
		}), false, driver.DueReady},
		{"ended with a queue", released(func(c *driver.Commit) {
			c.Status, c.Enqueue = cairn.SessionCompleted, &driver.QueuedTurn{ID: "turn"}
		}), false, driver.DueQueued},
	} {
		h.endsDue(&test)
	}
}

// endsDue ends the lease of a session in a way, and checks the consequences.
func (h *harness) endsDue(test *leaseEnd) {
	h.create(test.name)
	test.end(h.begin(test.name, "run"))
	if test.due != "" {
		testclock.Await(h.T, test.name+": to be due", func() bool { return len(h.due(10)) > 0 })
	}
	var due []driver.DueKind
	for _, d := range h.due(10) {
		due = append(due, d.Kind)
	}
	if want := []driver.DueKind{test.due}[:min(len(test.due), 1)]; !slices.Equal(due, want) {
		h.Fatalf("%s: due %q, want %q", test.name, due, want)
	}
	s := h.load(test.name)
	if crashed := s.Crashed(time.Now().Add(time.Hour)); crashed != test.crashed {
		h.Fatalf("%s: crashed is %t, want %t", test.name, crashed, test.crashed)
	}
	if !test.crashed {
		_, err := h.st.Commit(h.Context(), test.name, &driver.Commit{Guard: driver.Guard{Lapsed: true}})
		h.wantConflict(err, cairn.ErrNotRunning, test.name+": takeover of what is not running")
		h.must(h.st.Delete(h.Context(), test.name))
		return
	}
	_, err := h.st.Commit(h.Context(), test.name, beginCommit("next", "worker", time.Hour))
	h.wantConflict(err, cairn.ErrAlreadyRunning, test.name+": a second run while one is under way")
	h.must(h.st.RequestStop(h.Context(), test.name, cairn.Stop{RunID: s.RunID, Kind: cairn.StopInterrupt}))
	takeover := takeoverCommit(s, "worker")
	takeover.Guard.Lapsed = true
	taken := h.commit(test.name, takeover)
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("%s: due after a takeover: %+v", test.name, list)
	}
	h.commit(test.name, &driver.Commit{Guard: driver.Guard{Token: taken.Lease.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	h.must(h.st.Delete(h.Context(), test.name))
}

func dueOnlyActive(h *harness) {
	for _, status := range []cairn.SessionStatus{cairn.SessionIdle, cairn.SessionPaused, cairn.SessionCompleted, cairn.SessionFailed, cairn.SessionInterrupted} {
		id := string(status)
		h.crash(id, "run")
		h.commit(id, &driver.Commit{Status: status})
		if list := h.due(10); len(list) > 0 {
			h.Fatalf("due though it is %s: %+v", status, list)
		}
	}
	h.crash("deleted", "run")
	h.must(h.st.Delete(h.Context(), "deleted"))
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due though it is deleted: %+v", list)
	}
}

func dueInOrder(h *harness) {
	var want []string
	for _, id := range []string{"m", "z", "a", "k"} {
		h.crash(id, "run")
		want = append(want, id)
	}
	for limit := 1; limit <= 5; limit++ {
		var got []string
		for _, due := range h.due(limit) {
			got = append(got, due.SessionID)
		}
		same(h.T, fmt.Sprintf("at most %d that are due, the longest ago first", limit), got, want[:min(limit, len(want))])
	}
}
