package storetest

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// wantOutbox checks the names of the events in a row's outbox.
func (h *harness) wantOutbox(row *cairn.Session, want string) {
	h.Helper()
	got := ""
	if row.Outbox != nil {
		got = names(row.Outbox.Events)
	}
	if got != want {
		h.Fatalf("the outbox has %q, want %q", got, want)
	}
	if h.opts.bringsLog {
		h.wantLog(row.RootID, "")
	}
	same(h.T, "the row", h.load(row.ID), asOf(row, h.load(row.ID)))
}

// boxed adds events for an outbox to a commit.
func boxed(c *driver.Commit, session string, drained int64, names ...string) *driver.Commit {
	c = with(c, session, names...)
	c.Outbox, c.Drained = true, drained
	for i := range c.Events {
		c.Events[i].Time = at(i)
	}
	return c
}

func outboxKept(h *harness) {
	two := h.twoHandles()
	c := boxed(beginCommit("run", "worker", time.Hour), "session", 0, "started", "asked")
	c.Guard, c.Create, c.LogSequence = driver.Guard{New: true}, &cairn.Session{Agent: agentName}, 7
	c.Events[1].Version = 1
	row := h.commit("session", c)
	c.Events[0].Name = "changed by its caller"
	h.wantOutbox(row, "started asked")
	if row.Outbox.Version != row.Version || row.Outbox.Events[1].Version != row.Version || row.LogSequence != 7 {
		h.Fatalf("the outbox is of version %d, its event of %d, the row at %d; want %d, %d, 7", row.Outbox.Version, row.Outbox.Events[1].Version, row.LogSequence, row.Version, row.Version)
	}
	first := row.Outbox.Version
	for _, on := range two { // events of another commit wait until these are on the log
		_, err := on.st.Commit(h.Context(), "session", boxed(on.stepCommit(row, "reply"), "session", 0, "committed"))
		seen := h.wantConflict(err, cairn.ErrStale, "a commit beside an outbox")
		if seen.Outbox == nil || seen.Outbox.Version != first {
			h.Fatal("the conflict does not have the outbox")
		}
		_, err = on.st.Commit(h.Context(), "session", boxed(on.stepCommit(row, "reply"), "session", first+1, "committed"))
		h.wantConflict(err, cairn.ErrStale, "a commit that drained another outbox")
	}
	row = two[1].commit("session", &driver.Commit{Guard: driver.Guard{Version: row.Version}, Messages: says("beside")}) // makes no events
	h.wantOutbox(row, "started asked")
	row = h.commit("session", boxed(h.stepCommit(row, "reply"), "session", first, "committed"))
	h.wantOutbox(row, "committed")
	second := row.Outbox.Version
	row = two[1].commit("session", &driver.Commit{Guard: driver.Guard{Version: row.Version}, Drained: first})
	h.wantOutbox(row, "committed")
	row = h.commit("session", &driver.Commit{Guard: driver.Guard{Version: row.Version}, Drained: second})
	h.wantOutbox(row, "")
	if row.LogSequence != 7 {
		h.Fatalf("the row is at %d, want 7", row.LogSequence)
	}
}

func outboxOfBranch(h *harness) {
	h.create("session")
	row, err := h.st.Branch(h.Context(), "session", driver.BranchPoint{Events: boxed(&driver.Commit{}, "branch", 0, "branched").Events, Outbox: true}, &cairn.Session{ID: "branch", Agent: agentName})
	h.must(err)
	h.wantOutbox(row, "branched")
}

// outboxDated has events of an outbox without a time get that of their commit, whatever is written later.
func outboxDated(h *harness) {
	two := h.twoHandles()
	h.create("session")
	begin := with(beginCommit("run", "worker", time.Hour), "session", "dated", "undated")
	begin.Outbox, begin.Events[0].Time = true, at(5)
	row := h.commit("session", begin)
	made := row.UpdatedAt
	want := func(row *cairn.Session) {
		h.Helper()
		if box := row.Outbox; box == nil || len(box.Events) != 2 || !box.Events[0].Time.Equal(at(5)) || !box.Events[1].Time.Equal(made) {
			h.Fatalf("the outbox is %+v, want events of %v and %v", box, at(5), made)
		}
		same(h.T, "the row", h.load("session"), asOf(row, h.load("session")))
	}
	want(row)
	for _, on := range two {
		row = on.step(row, "reply")
		want(row)
		row = on.commit("session", &driver.Commit{Guard: driver.Guard{Version: row.Version}, Messages: says("beside")})
		want(row)
	}
	branch, err := h.st.Branch(h.Context(), "session", driver.BranchPoint{Events: named("branch", "branched"), Outbox: true}, &cairn.Session{ID: "branch", Agent: agentName})
	h.must(err)
	if box := branch.Outbox; box == nil || len(box.Events) != 1 || !box.Events[0].Time.Equal(branch.CreatedAt) {
		h.Fatalf("the outbox of the branch is %+v, want an event of %v", box, branch.CreatedAt)
	}
	same(h.T, "the branch", h.load("branch"), asOf(branch, h.load("branch")))
}
