package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
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
	want := store.Suspend{StepID: "step", OpenCalls: 3, NextDeadline: at(1)}
	check := func(s *cairn.Session, want store.Suspend) {
		h.Helper()
		for _, row := range []*cairn.Session{s, h.load("session")} {
			same(h.T, "what the row waits for", store.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls, NextDeadline: row.NextDeadline}, want)
		}
	}
	check(s, store.Suspend{})
	check(h.commit("session", &store.Commit{Suspend: &want, Status: cairn.SessionPaused, Lease: store.LeaseChange{Action: store.LeaseRelease}}), want)
	check(h.commit("session", &store.Commit{Messages: says("meanwhile")}), want)
	want = store.Suspend{StepID: "step", OpenCalls: 1}
	check(h.commit("session", &store.Commit{Suspend: &want}), want)
	check(h.commit("session", &store.Commit{Status: cairn.SessionActive}), want)
	check(h.commit("session", &store.Commit{Suspend: &store.Suspend{}}), store.Suspend{})
	s = h.commit("session", &store.Commit{Suspend: &store.Suspend{StepID: "step", NextDeadline: at(1).Add(789)}})
	same(h.T, "row with a deadline between two microseconds", h.load("session"), s)
}

// stopOf returns the stop of a wait of a run.
func stopOf(run string) *cairn.Stop {
	return &cairn.Stop{RunID: run, Kind: cairn.StopAbort, Reason: "enough", At: at(1)}
}

// endingRow sets and replaces the stop of a wait. Commits that leave the wait as it is keep it.
func endingRow(h *harness) {
	parked := h.park("session", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 1})
	check := func(s *cairn.Session, want *cairn.Stop) {
		h.Helper()
		for _, row := range []*cairn.Session{s, h.load("session"), &h.list(store.SessionQuery{})[0]} {
			same(h.T, "the stop of the wait", row.Ending, want)
		}
	}
	check(parked, nil)
	check(h.commit("session", &store.Commit{Guard: store.Guard{Version: parked.Version}, Ending: stopOf("run")}), stopOf("run"))
	_, err := h.st.Commit(h.Context(), "session", &store.Commit{Guard: store.Guard{Version: parked.Version}, Ending: stopOf("another run")})
	h.wantError(err, cairn.ErrStale, "a stop of a wait that has changed")
	check(h.load("session"), stopOf("run"))
	check(h.commit("session", &store.Commit{Messages: says("meanwhile"), Enqueue: &store.QueuedTurn{ID: "turn"}}), stopOf("run"))
	check(h.commit("session", &store.Commit{Suspend: &store.Suspend{StepID: "step"}}), stopOf("run"))
	other := stopOf("run")
	other.Kind, other.At = cairn.StopInterrupt, at(2).Add(789)
	s := h.commit("session", &store.Commit{Ending: other})
	other.At = at(2)
	check(s, other)
	bad := stopOf("run")
	bad.Reason = "\x00"
	_, err = h.st.Commit(h.Context(), "session", &store.Commit{Ending: bad})
	h.wantError(err, cairn.ErrInvalid, "a stop with a NUL in its reason")
	if e := cairn.AsError(err); e.Field != "ending.reason" {
		h.Errorf("the error names %q", e.Field)
	}
}

// endingUntilOver writes each commit that ends a wait: it clears the stop of the wait, and may not set one.
func endingUntilOver(h *harness) {
	h.create("active")
	h.begin("active", "run")
	if s := h.commit("active", &store.Commit{Ending: stopOf("run")}); s.Ending != nil {
		h.Errorf("the stop of a wait of an active session: %+v", s.Ending)
	}
	for name, over := range map[string]func(s *cairn.Session) *store.Commit{
		"its end": func(s *cairn.Session) *store.Commit {
			c := endCommit(s)
			c.Guard, c.Lease, c.Status, c.Suspend = store.Guard{Version: s.Version, Idle: true}, store.LeaseChange{}, cairn.SessionInterrupted, &store.Suspend{}
			return c
		},
		"another wait": func(s *cairn.Session) *store.Commit {
			c := endCommit(s)
			c.Guard, c.Lease, c.Status = store.Guard{Version: s.Version, Idle: true}, store.LeaseChange{}, cairn.SessionPaused
			return c
		},
		"the next run": func(*cairn.Session) *store.Commit { return beginCommit("next run", "worker", time.Hour) },
		"a status":     func(*cairn.Session) *store.Commit { return &store.Commit{Status: cairn.SessionFailed} },
	} {
		h.create(name)
		s := h.begin(name, "run of "+name)
		c := endCommit(s)
		c.EndRun.Status, c.Status, c.Suspend = cairn.SuspendedChildren, cairn.SessionPaused, &store.Suspend{StepID: "step", OpenCalls: 1}
		h.commit(name, c)
		s = h.commit(name, &store.Commit{Ending: stopOf(s.RunID)})
		if due := h.awaitDue(name); s.Ending == nil || due.Kind != store.DueEnding {
			h.Fatalf("%s: the row has %+v and is due as %+v", name, s.Ending, due)
		}
		c = over(s)
		c.Ending = stopOf(s.RunID)
		if name == "another wait" {
			c.EndRun.Status, c.Suspend = cairn.SuspendedChildren, &store.Suspend{StepID: "step", OpenCalls: 1}
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
	for name, wait := range map[string]store.Suspend{
		"ready":   {StepID: "step"},
		"overdue": {StepID: "step", OpenCalls: 1, NextDeadline: past},
		"in time": {StepID: "step", OpenCalls: 1, NextDeadline: future},
		"open":    {StepID: "step", OpenCalls: 1},
		"nothing": {},
	} {
		h.park(name, cairn.SessionPaused, wait, "turn")
		tick()
		s := h.commit(name, &store.Commit{Ending: stopOf("run")})
		for range 2 {
			if due := h.awaitDue(name); due.Kind != store.DueEnding || !due.Since.Equal(s.UpdatedAt) {
				h.Errorf("%s: due: %+v, want %s since %v", name, due, store.DueEnding, s.UpdatedAt)
			}
			tick()
			h.commit(name, &store.Commit{Messages: says("more")})
		}
		h.must(h.st.Delete(h.Context(), name))
	}
}

// park makes a session that may wait for calls, and may have queued turns.
func (h *harness) park(id string, status cairn.SessionStatus, wait store.Suspend, turns ...string) *cairn.Session {
	h.Helper()
	h.create(id)
	for _, turn := range turns {
		h.commit(id, &store.Commit{Enqueue: &store.QueuedTurn{ID: turn}})
	}
	return h.commit(id, &store.Commit{Status: status, Suspend: &wait})
}

func dueKinds(h *harness) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ready, open := store.Suspend{StepID: "step"}, store.Suspend{StepID: "step", OpenCalls: 1}
	overdue, inTime := store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: past}, store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: future}
	for i, test := range []struct {
		status cairn.SessionStatus
		wait   store.Suspend
		turns  []string
		want   store.DueKind
	}{
		{cairn.SessionPaused, ready, nil, store.DueReady},
		{cairn.SessionPaused, overdue, nil, store.DueDeadline},
		{cairn.SessionPaused, store.Suspend{NextDeadline: past}, nil, store.DueDeadline},
		{cairn.SessionPaused, open, nil, ""},
		{cairn.SessionPaused, inTime, nil, ""},
		{cairn.SessionPaused, store.Suspend{}, nil, ""},
		{cairn.SessionPaused, store.Suspend{OpenCalls: 1}, nil, ""},
		{cairn.SessionPaused, open, []string{"turn"}, ""},
		{cairn.SessionPaused, store.Suspend{}, []string{"turn"}, ""},
		{cairn.SessionPaused, inTime, []string{"turn"}, ""},
		{cairn.SessionIdle, store.Suspend{}, []string{"turn"}, store.DueQueued},
		{cairn.SessionCompleted, store.Suspend{}, []string{"turn", "another"}, store.DueQueued},
		{cairn.SessionFailed, store.Suspend{}, []string{"turn"}, store.DueQueued},
		{cairn.SessionInterrupted, overdue, []string{"turn"}, store.DueQueued},
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
	row := h.commit("boxed", boxed(&store.Commit{Status: cairn.SessionPaused, Suspend: &ready}, "boxed", 0, "kept")) // before it is ready
	if list := h.due(10); len(list) != 1 || list[0].Kind != store.DueOutbox || !list[0].Since.Equal(row.UpdatedAt) {
		h.Fatalf("due: %+v, want one for its outbox", list)
	}
	row = h.commit("boxed", &store.Commit{Drained: row.Outbox.Version})
	if list := h.due(10); len(list) != 1 || list[0].Kind != store.DueReady || !list[0].Since.Equal(row.UpdatedAt) {
		h.Fatalf("due: %+v, want one that is ready", list)
	}
	h.must(h.st.Delete(h.Context(), "boxed"))
	h.create("running")
	h.commit("running", &store.Commit{Enqueue: &store.QueuedTurn{ID: "turn"}, Suspend: &overdue})
	h.begin("running", "run")
	h.tree("child", "running")
	h.commit("child", &store.Commit{Status: cairn.SessionPaused, Suspend: &ready})
	if list := h.due(10); len(list) != 1 || list[0].SessionID != "child" || list[0].RootID != "running" {
		h.Fatalf("due: %+v, want the child alone", list)
	}
}

// dueOnce makes sessions due for several reasons at once.
func dueOnce(h *harness) {
	past := time.Now().Add(-time.Hour)
	h.park("ready", cairn.SessionPaused, store.Suspend{StepID: "step", NextDeadline: past}, "turn")
	h.crash("crashed", "run")
	h.commit("crashed", &store.Commit{Enqueue: &store.QueuedTurn{ID: "turn"}, Suspend: &store.Suspend{StepID: "step", NextDeadline: past}})
	got := map[string]store.DueKind{}
	list := h.due(10)
	for _, due := range list {
		got[due.SessionID] = due.Kind
	}
	if len(list) != 2 || got["ready"] != store.DueReady || got["crashed"] != store.DueCrashed {
		h.Fatalf("due: %+v", list)
	}
}

func dueKindsInOrder(h *harness) {
	base := time.Now().Add(-time.Hour)
	h.park("deadline-2", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: base.Add(time.Minute)})
	h.crash("crashed", "run")
	h.park("z-ready", cairn.SessionPaused, store.Suspend{StepID: "step"})
	h.park("queued", cairn.SessionCompleted, store.Suspend{}, "turn")
	h.park("deadline-1", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: base})
	h.park("a-ready", cairn.SessionPaused, store.Suspend{StepID: "step"})
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
	ready := h.park("ready", cairn.SessionPaused, store.Suspend{StepID: "step"})
	wantSince("ready", ready.UpdatedAt)
	h.park("queued", cairn.SessionIdle, store.Suspend{})
	queued := h.commit("queued", &store.Commit{Enqueue: &store.QueuedTurn{ID: "turn"}})
	wantSince("queued", queued.UpdatedAt)
	deadline := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	h.park("deadline", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 2, NextDeadline: deadline})
	for _, id := range []string{"ready", "queued", "deadline"} {
		h.commit(id, &store.Commit{Messages: says("more"), Enqueue: &store.QueuedTurn{ID: "another turn"}})
	}
	wantSince("ready", ready.UpdatedAt)
	wantSince("queued", queued.UpdatedAt)
	wantSince("deadline", deadline)
	answered := h.commit("deadline", &store.Commit{Suspend: &store.Suspend{StepID: "step"}})
	wantSince("deadline", answered.UpdatedAt)
	h.begin("ready", "run")
	again := h.commit("ready", &store.Commit{Status: cairn.SessionPaused, Lease: store.LeaseChange{Action: store.LeaseRelease}})
	wantSince("ready", again.UpdatedAt)
}

func dueUntilTaken(h *harness) {
	h.park("ready", cairn.SessionPaused, store.Suspend{StepID: "step"})
	h.park("queued", cairn.SessionCompleted, store.Suspend{}, "turn")
	h.park("deadline", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(-time.Hour)})
	h.park("moved", cairn.SessionPaused, store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(-time.Hour)})
	h.park("emptied", cairn.SessionCompleted, store.Suspend{}, "turn")
	h.park("deleted", cairn.SessionPaused, store.Suspend{StepID: "step"})
	if list := h.due(10); len(list) != 6 {
		h.Fatalf("due: %+v", list)
	}
	for _, id := range []string{"ready", "queued", "deadline"} {
		h.begin(id, "run")
	}
	h.commit("moved", &store.Commit{Suspend: &store.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: time.Now().Add(time.Hour)}})
	h.commit("emptied", &store.Commit{Dequeue: []string{"turn"}})
	h.must(h.st.Delete(h.Context(), "deleted"))
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due: %+v", list)
	}
}
