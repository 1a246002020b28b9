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
