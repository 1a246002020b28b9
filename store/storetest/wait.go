package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var waitTests = []storeTest{
	{name: "SuspendSetsTheRow", run: suspendRow},
	{name: "DueKinds", run: dueKinds},
	{name: "DueOnce", run: dueOnce},
	{name: "DueInOrder", run: dueKindsInOrder},
	{name: "DueSince", run: dueSince},
	{name: "DueUntilTaken", run: dueUntilTaken},
	{name: "EndingSetsTheRow", run: endingRow},
	{name: "EndingUntilTheWaitIsOver", run: endingUntilOver},
	{name: "EndingIsDueFirst", run: endingIsDueFirst},
}

func suspendRow(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	want := driver.Suspend{StepID: "step", OpenCalls: 3, NextDeadline: at(1)}
	check := func(s *cairn.Session, want driver.Suspend) {
		h.Helper()
		for _, row := range []*cairn.Session{s, h.load("session")} {
			same(h.T, "what the row waits for", driver.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls, NextDeadline: row.NextDeadline}, want)
		}
	}
	check(s, driver.Suspend{})
	check(h.commit("session", &driver.Commit{Suspend: &want, Status: cairn.SessionPaused, Lease: driver.LeaseChange{Action: driver.LeaseRelease}}), want)
	check(h.commit("session", &driver.Commit{Messages: says("meanwhile")}), want)
	want = driver.Suspend{StepID: "step", OpenCalls: 1}
	check(h.commit("session", &driver.Commit{Suspend: &want}), want)
	check(h.commit("session", &driver.Commit{Status: cairn.SessionActive}), want)
	check(h.commit("session", &driver.Commit{Suspend: &driver.Suspend{}}), driver.Suspend{})
	s = h.commit("session", &driver.Commit{Suspend: &driver.Suspend{StepID: "step", NextDeadline: at(1).Add(789)}})
	same(h.T, "row with a deadline between two microseconds", h.load("session"), s)
}

// stopOf returns the stop of a wait of a run.
func stopOf(run string) *cairn.Stop {
	return &cairn.Stop{RunID: run, Kind: cairn.StopAbort, Reason: "enough", At: at(1)}
}

// endingRow sets and replaces the stop of a wait. Commits that leave the wait as it is keep it.
func endingRow(h *harness) {
	parked := h.park("session", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1})
	check := func(s *cairn.Session, want *cairn.Stop) {
		h.Helper()
		for _, row := range []*cairn.Session{s, h.load("session"), &h.list(driver.SessionQuery{})[0]} {
			same(h.T, "the stop of the wait", row.Ending, want)
		}
	}
	check(parked, nil)
	check(h.commit("session", &driver.Commit{Guard: driver.Guard{Version: parked.Version}, Ending: stopOf("run")}), stopOf("run"))
	_, err := h.st.Commit(h.Context(), "session", &driver.Commit{Guard: driver.Guard{Version: parked.Version}, Ending: stopOf("another run")})
	h.wantError(err, cairn.ErrStale, "a stop of a wait that has changed")
	check(h.load("session"), stopOf("run"))
	check(h.commit("session", &driver.Commit{Messages: says("meanwhile"), Enqueue: &driver.QueuedTurn{ID: "turn"}}), stopOf("run"))
	check(h.commit("session", &driver.Commit{Suspend: &driver.Suspend{StepID: "step"}}), stopOf("run"))
	other := stopOf("run")
	other.Kind, other.At = cairn.StopInterrupt, at(2).Add(789)
	s := h.commit("session", &driver.Commit{Ending: other})
	other.At = at(2)
	check(s, other)
	bad := stopOf("run")
	bad.Reason = "\x00"
	_, err = h.st.Commit(h.Context(), "session", &driver.Commit{Ending: bad})
	h.wantError(err, cairn.ErrInvalid, "a stop with a NUL in its reason")
	if e := cairn.AsError(err); e.Field != "ending.reason" {
		h.Errorf("the error names %q", e.Field)
	}
}

// endingUntilOver writes each commit that ends a wait: it clears the stop of the wait, and may not set one.
func endingUntilOver(h *harness) {
	h.create("active")
	h.begin("active", "run")
	if s := h.commit("active", &driver.Commit{Ending: stopOf("run")}); s.Ending != nil {
		h.Errorf("the stop of a wait of an active session: %+v", s.Ending)
	}
	for name, over := range map[string]func(s *cairn.Session) *driver.Commit{
		"its end": func(s *cairn.Session) *driver.Commit {
			c := endCommit(s)
			c.Guard, c.Lease, c.Status, c.Suspend = driver.Guard{Version: s.Version, Idle: true}, driver.LeaseChange{}, cairn.SessionInterrupted, &driver.Suspend{}
			return c
		},
		"another wait": func(s *cairn.Session) *driver.Commit {
			c := endCommit(s)
			c.Guard, c.Lease, c.Status = driver.Guard{Version: s.Version, Idle: true}, driver.LeaseChange{}, cairn.SessionPaused
			return c
		},
		"the next run": func(*cairn.Session) *driver.Commit { return beginCommit("next run", "worker", time.Hour) },
		"a status":     func(*cairn.Session) *driver.Commit { return &driver.Commit{Status: cairn.SessionFailed} },
	} {
		h.create(name)
		s := h.begin(name, "run of "+name)
		c := endCommit(s)
		c.EndRun.Status, c.EndRun.Reason, c.Status, c.Suspend = cairn.RunSuspended, cairn.ReasonChildren, cairn.SessionPaused, &driver.Suspend{StepID: "step", OpenCalls: 1}
		h.commit(name, c)
		s = h.commit(name, &driver.Commit{Ending: stopOf(s.RunID)})
		if due := h.awaitDue(name); s.Ending == nil || due.Kind != driver.DueEnding {
			h.Fatalf("%s: the row has %+v and is due as %+v", name, s.Ending, due)
		}
		c = over(s)
		c.Ending = stopOf(s.RunID)
		if name == "another wait" {
			c.EndRun.Status, c.EndRun.Reason, c.Suspend = cairn.RunSuspended, cairn.ReasonChildren, &driver.Suspend{StepID: "step", OpenCalls: 1}
		}
		for _, row := range []*cairn.Session{h.commit(name, c), h.load(name)} {
			if row.Ending != nil {
				h.Errorf("after %s: the stop of the wait is still %+v", name, row.Ending)
			}
		}
		if list := h.due(10); len(list) > 0 {
			h.Errorf("after %s: due: %+v", name, list)
		}
	}
}

// endingIsDueFirst has waits that are being ended: they are due at once and for that, whatever else they are due for or
// will be, since the commit that said so.
func endingIsDueFirst(h *harness) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, wait := range map[string]driver.Suspend{
		"ready":   {StepID: "step"},
		"overdue": {StepID: "step", OpenCalls: 1, NextDeadline: past},
		"in time": {StepID: "step", OpenCalls: 1, NextDeadline: future},
		"open":    {StepID: "step", OpenCalls: 1},
		"nothing": {},
	} {
		h.park(name, cairn.SessionPaused, wait, "turn")
		tick()
		s := h.commit(name, &driver.Commit{Ending: stopOf("run")})
		for range 2 {
			if due := h.awaitDue(name); due.Kind != driver.DueEnding || !due.Since.Equal(s.UpdatedAt) {
				h.Errorf("%s: due: %+v, want %s since %v", name, due, driver.DueEnding, s.UpdatedAt)
			}
			tick()
			h.commit(name, &driver.Commit{Messages: says("more")})
		}
		h.must(h.st.Delete(h.Context(), name))
	}
}

// park makes a session that may wait for calls, and may have queued turns.
func (h *harness) park(id string, status cairn.SessionStatus, wait driver.Suspend, turns ...string) *cairn.Session {
	h.Helper()
	h.create(id)
	for _, turn := range turns {
		h.commit(id, &driver.Commit{Enqueue: &driver.QueuedTurn{ID: turn}})
	}
	return h.commit(id, &driver.Commit{Status: status, Suspend: &wait})
}

func dueKinds(h *harness) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ready, open := driver.Suspend{StepID: "step"}, driver.Suspend{StepID: "step", OpenCalls: 1}
	overdue, inTime := driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: past}, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: future}
	for i, test := range []struct {
		status cairn.SessionStatus
		wait   driver.Suspend
		turns  []string
		want   driver.DueKind
	}{
		{cairn.SessionPaused, ready, nil, driver.DueReady},
		{cairn.SessionPaused, overdue, nil, driver.DueDeadline},
		{cairn.SessionPaused, driver.Suspend{NextDeadline: past}, nil, driver.DueDeadline},
		{cairn.SessionPaused, open, nil, ""},
		{cairn.SessionPaused, inTime, nil, ""},
		{cairn.SessionPaused, driver.Suspend{}, nil, ""},
		{cairn.SessionPaused, driver.Suspend{OpenCalls: 1}, nil, ""},
		{cairn.SessionPaused, open, []string{"turn"}, ""},
		{cairn.SessionPaused, driver.Suspend{}, []string{"turn"}, ""},
		{cairn.SessionPaused, inTime, []string{"turn"}, ""},
		{cairn.SessionIdle, driver.Suspend{}, []string{"turn"}, driver.DueQueued},
		{cairn.SessionCompleted, driver.Suspend{}, []string{"turn", "another"}, driver.DueQueued},
		{cairn.SessionFailed, driver.Suspend{}, []string{"turn"}, driver.DueQueued},
		{cairn.SessionInterrupted, overdue, []string{"turn"}, driver.DueQueued},
		{cairn.SessionCompleted, ready, nil, ""},
		{cairn.SessionIdle, overdue, nil, ""},
	} {
		id := fmt.Sprint("session-", i)
		h.park(id, test.status, test.wait, test.turns...)
		list := h.due(10)
		switch {
		case test.want == "" && len(list) > 0:
			h.Fatalf("%s, %+v, turns %v: due: %+v", test.status, test.wait, test.turns, list)
		case test.want != "" && (len(list) != 1 || list[0].SessionID != id || list[0].Kind != test.want || list[0].RootID != id || list[0].Agent != agentName):
			h.Fatalf("%s, %+v, turns %v: due: %+v, want %s", test.status, test.wait, test.turns, list, test.want)
		}
		h.must(h.st.Delete(h.Context(), id))
	}
	h.create("boxed")
	row := h.commit("boxed", boxed(&driver.Commit{Status: cairn.SessionPaused, Suspend: &ready}, "boxed", 0, "kept")) // before it is ready
	if list := h.due(10); len(list) != 1 || list[0].Kind != driver.DueOutbox || !list[0].Since.Equal(row.UpdatedAt) {
		h.Fatalf("due: %+v, want one for its outbox", list)
	}
	row = h.commit("boxed", &driver.Commit{Drained: row.Outbox.Version})
	if list := h.due(10); len(list) != 1 || list[0].Kind != driver.DueReady || !list[0].Since.Equal(row.UpdatedAt) {
		h.Fatalf("due: %+v, want one that is ready", list)
	}
	h.must(h.st.Delete(h.Context(), "boxed"))
	h.create("running")
	h.commit("running", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "turn"}, Suspend: &overdue})
	h.begin("running", "run")
	h.tree("child", "running")
	h.commit("child", &driver.Commit{Status: cairn.SessionPaused, Suspend: &ready})
	if list := h.due(10); len(list) != 1 || list[0].SessionID != "child" || list[0].RootID != "running" {
		h.Fatalf("due: %+v, want the child alone", list)
	}
}

// dueOnce makes sessions due for several reasons at once.
func dueOnce(h *harness) {
	past := time.Now().Add(-time.Hour)
	h.park("ready", cairn.SessionPaused, driver.Suspend{StepID: "step", NextDeadline: past}, "turn")
	h.crash("crashed", "run")
	h.commit("crashed", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "turn"}, Suspend: &driver.Suspend{StepID: "step", NextDeadline: past}})
	got := map[string]driver.DueKind{}
	list := h.due(10)
	for _, due := range list {
		got[due.SessionID] = due.Kind
	}
	if len(list) != 2 || got["ready"] != driver.DueReady || got["crashed"] != driver.DueCrashed {
		h.Fatalf("due: %+v", list)
	}
}

func dueKindsInOrder(h *harness) {
	base := time.Now().Add(-time.Hour)
	h.park("deadline-2", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: base.Add(time.Minute)})
	h.crash("crashed", "run")
	h.park("z-ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	h.park("queued", cairn.SessionCompleted, driver.Suspend{}, "turn")
	h.park("deadline-1", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: base})
	h.park("a-ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	want := "deadline-1 deadline-2 crashed z-ready queued a-ready"
	for limit := 1; limit < 8; limit++ {
		var got []string
		for _, due := range h.due(limit) {
			got = append(got, due.SessionID)
		}
		if all := strings.Fields(want); strings.Join(got, " ") != strings.Join(all[:min(limit, len(all))], " ") {
			h.Fatalf("at most %d that are due: %q, want the first of %q", limit, got, want)
		}
	}
}

// dueSince writes to due sessions: the time since when they are due does not change.
func dueSince(h *harness) {
	wantSince := func(id string, want time.Time) {
		h.Helper()
		if got := h.awaitDue(id); !got.Since.Equal(want) {
			h.Fatalf("%s is due since %v, want %v", id, got.Since, want)
		}
	}
	ready := h.park("ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	wantSince("ready", ready.UpdatedAt)
	h.park("queued", cairn.SessionIdle, driver.Suspend{})
	queued := h.commit("queued", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "turn"}})
	wantSince("queued", queued.UpdatedAt)
	deadline := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	h.park("deadline", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 2, NextDeadline: deadline})
	for _, id := range []string{"ready", "queued", "deadline"} {
		h.commit(id, &driver.Commit{Messages: says("more"), Enqueue: &driver.QueuedTurn{ID: "another turn"}})
	}
	wantSince("ready", ready.UpdatedAt)
	wantSince("queued", queued.UpdatedAt)
	wantSince("deadline", deadline)
	answered := h.commit("deadline", &driver.Commit{Suspend: &driver.Suspend{StepID: "step"}})
	wantSince("deadline", answered.UpdatedAt)
	h.begin("ready", "run")
	again := h.commit("ready", &driver.Commit{Status: cairn.SessionPaused, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	wantSince("ready", again.UpdatedAt)
}

func dueUntilTaken(h *harness) {
	h.park("ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	h.park("queued", cairn.SessionCompleted, driver.Suspend{}, "turn")
	h.park("deadline", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(-time.Hour)})
	h.park("moved", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(-time.Hour)})
	h.park("emptied", cairn.SessionCompleted, driver.Suspend{}, "turn")
	h.park("deleted", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	if list := h.due(10); len(list) != 6 {
		h.Fatalf("due: %+v", list)
	}
	for _, id := range []string{"ready", "queued", "deadline"} {
		h.begin(id, "run")
	}
	h.commit("moved", &driver.Commit{Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(time.Hour)}})
	h.commit("emptied", &driver.Commit{Dequeue: []string{"turn"}})
	h.must(h.st.Delete(h.Context(), "deleted"))
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due: %+v", list)
	}
}
