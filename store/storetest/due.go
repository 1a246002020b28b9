package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// dueTests are about which sessions are due for the workers of which agents.
var dueTests = []storeTest{
	{name: "ByAgent", run: dueByAgent},
	{name: "ByTheRootsAgent", run: dueByTheRootsAgent},
	{name: "BehindThoseOfOthers", run: dueBehindOthers},
	{name: "InPages", run: dueInPages},
	{name: "BadCursor", run: dueBadCursor},
}

// dueOf returns all that is due for some agents, read in pages of n.
func (h *harness) dueOf(n int, agents ...string) []driver.Due {
	h.Helper()
	return pages(h.T, "due", func(cursor string) (driver.Page[driver.Due], error) {
		return h.st.Due(h.Context(), driver.DueQuery{Agents: agents, Cursor: cursor, Limit: n})
	})
}

func dueIDs(list []driver.Due) string {
	var ids []string
	for _, d := range list {
		ids = append(ids, d.SessionID)
	}
	return strings.Join(ids, " ")
}

// waiting makes a session of an agent that is due for the reason that kind says.
func (h *harness) waiting(id, agent, root string, kind driver.DueKind) {
	h.Helper()
	create := &cairn.Session{ID: id, Agent: agent}
	if root != "" {
		create.ParentID, create.RootID = root, root
	}
	tick()
	_, err := driver.Create(h.Context(), h.st, create, nil)
	h.must(err)
	switch kind {
	case driver.DueCrashed:
		c := beginCommit("run of "+id, "dead worker", brief)
		c.StartRun.Agent = agent
		h.commit(id, c)
		testclock.Await(h.T, "the lease to lapse", func() bool { s := h.load(id); return s.Crashed(s.AsOf) })
	case driver.DueQueued:
		h.commit(id, &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "turn"}})
	case driver.DueOutbox:
		h.commit(id, boxed(&driver.Commit{}, id, 0, "kept"))
	default:
		wait := driver.Suspend{StepID: "step"}
		if kind == driver.DueDeadline {
			wait.OpenCalls, wait.NextDeadline = 1, time.Now().Add(-time.Hour)
		}
		c := &driver.Commit{Status: cairn.SessionPaused, Suspend: &wait}
		if kind == driver.DueEnding {
			wait.OpenCalls, wait.NextDeadline = 1, time.Now().Add(time.Hour)
			c.Ending = &cairn.Stop{Kind: cairn.StopInterrupt}
		}
		h.commit(id, c)
	}
}

var dueKindsThereAre = []driver.DueKind{driver.DueCrashed, driver.DueReady, driver.DueDeadline, driver.DueQueued, driver.DueOutbox, driver.DueEnding}

func dueByAgent(h *harness) {
	for _, agent := range []string{"ann", "bob", "ann:bob", "%"} {
		for _, kind := range dueKindsThereAre {
			h.waiting(agent+" "+string(kind), agent, "", kind)
		}
	}
	for _, agents := range [][]string{{"ann"}, {"bob"}, {"ann:bob"}, {"%"}, {"ann", "%"}, {"nobody"}, {"nobody", "bob"}, nil} {
		got := map[string]int{}
		for _, d := range h.dueOf(3, agents...) {
			if d.SessionID != d.Agent+" "+string(d.Kind) {
				h.Fatalf("due: %+v", d)
			}
			got[d.Agent]++
		}
		for _, agent := range []string{"ann", "bob", "ann:bob", "%"} {
			want := 0
			if agents == nil || slices.Contains(agents, agent) {
				want = len(dueKindsThereAre)
			}
			if got[agent] != want {
				h.Fatalf("of %q %d are due of %q, want %d", agents, got[agent], agent, want)
			}
		}
	}
	none, err := h.st.Due(h.Context(), driver.DueQuery{Agents: []string{}})
	if h.must(err); len(none.Items) > 0 {
		h.Fatalf("due of no agent: %+v", none.Items)
	}
}

// dueByTheRootsAgent has children with another agent than their root's, which the workers of the root's agent must
// serve.
func dueByTheRootsAgent(h *harness) {
	for _, kind := range dueKindsThereAre {
		h.waiting("root of "+string(kind), "boss", "", driver.DueReady)
		h.commit("root of "+string(kind), &driver.Commit{Suspend: &driver.Suspend{}})
		h.waiting("child "+string(kind), "helper", "root of "+string(kind), kind)
	}
	if list := h.dueOf(10, "helper"); len(list) > 0 {
		h.Fatalf("due of the children's agent: %+v", list)
	}
	list := h.dueOf(10, "boss")
	if len(list) != len(dueKindsThereAre) {
		h.Fatalf("due of the roots' agent: %+v, want the children", list)
	}
	for _, d := range list {
		if d.SessionID != "child "+string(d.Kind) || d.RootID != "root of "+string(d.Kind) || d.Agent != "boss" {
			h.Fatalf("due: %+v", d)
		}
	}
	// Each commit changes what is due, but not for which agent.
	h.begin("child ready", "run of the child")
	h.commit("child ready", &driver.Commit{Status: cairn.SessionPaused, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	if list := h.dueOf(10, "boss"); len(list) != len(dueKindsThereAre) {
		h.Fatalf("due after another run: %+v", list)
	}
}

// dueBehindOthers has many sessions of an agent without a worker, due for longer than the one session that is asked
// for.
func dueBehindOthers(h *harness) {
	for i := range 40 {
		h.waiting(fmt.Sprintf("theirs %02d", i), "theirs", "", dueKindsThereAre[i%len(dueKindsThereAre)])
	}
	h.waiting("ours", "ours", "", driver.DueReady)
	page, err := h.st.Due(h.Context(), driver.DueQuery{Agents: []string{"ours"}, Limit: 1})
	h.must(err)
	if dueIDs(page.Items) != "ours" {
		h.Fatalf("due: %+v", page.Items)
	}
}

// dueInPages reads the same list in pages of every size.
func dueInPages(h *harness) {
	all := 4 * len(dueKindsThereAre)
	for i := range all {
		h.waiting(fmt.Sprintf("session %02d", i), []string{"ann", "bob"}[i%2], "", dueKindsThereAre[i/4])
	}
	for _, agents := range [][]string{{"ann"}, {"ann", "bob"}, nil} {
		whole := h.dueOf(100, agents...)
		if len(agents) == 1 && len(whole) != all/2 || len(agents) != 1 && len(whole) != all {
			h.Fatalf("of %q %d are due", agents, len(whole))
		}
		if !slices.IsSortedFunc(whole, driver.CompareDue) {
			h.Fatalf("due of %q: %+v, not the longest first", agents, whole)
		}
		for n := 1; n < all+2; n++ {
			if got := h.dueOf(n, agents...); dueIDs(got) != dueIDs(whole) {
				h.Fatalf("due of %q in pages of %d: %q, want %q", agents, n, dueIDs(got), dueIDs(whole))
			}
		}
	}
}

func dueBadCursor(h *harness) {
	_, err := h.st.Due(h.Context(), driver.DueQuery{Cursor: "nowhere"})
	h.wantError(err, cairn.ErrInvalid, "a cursor that is none")
}
