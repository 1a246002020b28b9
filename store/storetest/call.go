package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var callTests = []storeTest{
	{name: "StoreSetsItsPart", run: callFields},
	{name: "Update", run: callUpdate},
	{name: "StaleWriteWritesNothing", run: staleCall},
	{name: "KeyIsRootAndID", run: callKeys},
	{name: "Unknown", run: unknownCall},
	{name: "SameStepAgain", run: callsAgain},
	{name: "SnapshotHasThoseOfTheSuspendedStep", run: callsInSnapshot},
	{name: "DeletedWithTheSession", run: callsDeleted},
	{name: "OddTexts", run: oddCalls},
}

// at returns a time that every store keeps exactly.
func at(n int) time.Time { return time.Date(2030, 1, 2, 3, 4, n, 123456000, time.UTC) }

// asks returns the write of a new open call of a step.
func asks(id, step string, reviewers ...string) driver.CallWrite {
	return driver.CallWrite{Call: cairn.PendingCall{
		CallRef: cairn.CallRef{ID: id, Kind: cairn.CallApproval, Tool: "refund", Input: json.RawMessage(`{"n":1}`), Reviewers: reviewers},
		StepID:  step, Status: cairn.CallOpen}}
}

// answers returns the write of an answer to a call, over its current version.
func answers(c *cairn.PendingCall, reviewer string) driver.CallWrite {
	w := driver.CallWrite{Call: *c, Seen: c.Version}
	w.Call.Status = cairn.CallAnswered
	w.Call.Answer = &cairn.CallAnswer{Kind: cairn.DecisionApproved, Reviewer: reviewer, At: at(1)}
	w.Call.Trail = append(slices.Clip(c.Trail), cairn.Decision{ID: "submission", Kind: cairn.DecisionApproved, Reviewer: reviewer, At: at(1)})
	return w
}

// withWait adds a pending call, a queued turn and a cached result to a commit.
func withWait(c *driver.Commit, id string) *driver.Commit {
	c.Calls = append(c.Calls, asks("call-of-"+id, "step-of-"+id, "ann", "bob"))
	c.Enqueue = &driver.QueuedTurn{ID: "turn-of-" + id, Messages: says("to follow")}
	c.Cache = []driver.CacheEntry{{Key: "key", Tool: "search", Output: json.RawMessage(`[1]`), UsedAt: at(1), ExpiresAt: at(2)}}
	return c
}

// tree makes a session below a root.
func (h *harness) tree(id, root string) *cairn.Session {
	h.Helper()
	s, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName, UserID: "user of " + id, ParentID: root, RootID: root}, nil)
	h.must(err)
	return s
}

func (h *harness) write(id string, writes ...driver.CallWrite) *cairn.Session {
	h.Helper()
	return h.commit(id, &driver.Commit{Calls: writes})
}

func (h *harness) call(root, id string) *cairn.PendingCall {
	h.Helper()
	c, err := driver.FindCall(h.Context(), h.st, root, id)
	if err != nil {
		h.Fatalf("call %q of %q: %v", id, root, err)
	}
	return c
}

// calls reads a list of calls to its end.
func (h *harness) calls(q driver.CallQuery) []cairn.PendingCall {
	h.Helper()
	first := true
	return pages(h.T, "calls", func(cursor string) (driver.Page[cairn.PendingCall], error) {
		q.Cursor = cursor
		page, err := h.st.Calls(h.Context(), q)
		if err == nil && len(page.Items) == 0 && !first {
			h.Fatal("a page is empty, so the one before was the last and had a cursor")
		}
		first = false
		return page, err
	})
}

func callIDs(list []cairn.PendingCall) string {
	var ids []string
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return strings.Join(ids, " ")
}

// callFields writes a call with every field set. The store sets the owner's fields, not the caller.
func callFields(h *harness) {
	h.create("root")
	h.tree("child", "root")
	given := cairn.PendingCall{
		CallRef: cairn.CallRef{ID: "call", RootID: "wrong", SessionID: "wrong", Kind: cairn.CallQuestion, Tool: "ask", ApprovalID: "approval",
			ToolCallID: "tool call", Input: json.RawMessage(`{"a":[1,"é"]}`), Prompt: "How many?", Payload: json.RawMessage(`{"of":["x"]}`),
			NoEdits: true, Reviewers: []string{"ann", "bob"}, Quorum: cairn.AllReviewers, WaitAtMost: cairn.Duration(time.Hour), Deadline: at(1)},
		UserID: "wrong", Agent: "wrong", RunID: "run", StepID: "step", Number: 2, Schema: json.RawMessage(`{"type":"string"}`), Status: cairn.CallOpen,
		Answer: &cairn.CallAnswer{Kind: cairn.DecisionDenied, Value: json.RawMessage(`null`), Text: "no", Reviewer: "ann", At: at(2)},
		Kept:   []json.RawMessage{json.RawMessage(`{"k":1}`), json.RawMessage(`2`)}, ClaimedBy: "ann", ClaimedUntil: at(3), Trail: []cairn.Decision{{ID: "s", Step: "step", Kind: cairn.DecisionClaimed, Reviewer: "ann", At: at(4), Notes: "n", Value: json.RawMessage(`[2]`)}},
		Version: 99, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(2, 0)}
	s := h.write("child", driver.CallWrite{Call: given})
	want := given
	want.RootID, want.SessionID, want.UserID, want.Agent = "root", "child", "user of child", agentName
	want.Version, want.CreatedAt, want.UpdatedAt = 1, s.UpdatedAt, s.UpdatedAt
	same(h.T, "call", h.call("root", "call"), &want)
	same(h.T, "call in the list", h.calls(driver.CallQuery{}), []cairn.PendingCall{want})
	if given.Version != 99 || given.RootID != "wrong" {
		h.Fatalf("the caller's call was changed: %+v", given)
	}
	// A call may be created in one commit with its session.
	first := beginCommit("run", "worker", time.Hour)
	first.Create, first.Calls = &cairn.Session{Agent: agentName, RootID: "root"}, []driver.CallWrite{asks("early", "step")}
	h.commit("new", first)
	if c := h.call("root", "early"); c.SessionID != "new" || c.Version != 1 {
		h.Fatalf("the call of a new session is %+v", c)
	}
}

func callUpdate(h *harness) {
	h.create("session")
	h.write("session", asks("call", "step", "ann"), asks("other", "step"))
	created := h.call("session", "call")
	user := "new user"
	h.commit("session", &driver.Commit{Context: &driver.ContextChange{UserID: &user}})
	write := answers(created, "ann")
	write.Call.CreatedAt = time.Unix(1, 0)
	s := h.write("session", write)
	want := write.Call
	want.UserID, want.Version, want.CreatedAt, want.UpdatedAt = user, 2, created.CreatedAt, s.UpdatedAt
	same(h.T, "call", h.call("session", "call"), &want)
	write = driver.CallWrite{Call: want, Seen: 2}
	write.Call.Status, write.Call.Reviewers = cairn.CallSettled, nil
	s = h.write("session", write)
	want.Status, want.Reviewers, want.Version, want.UpdatedAt = cairn.CallSettled, nil, 3, s.UpdatedAt
	same(h.T, "call", h.call("session", "call"), &want)
	if other := h.call("session", "other"); other.Version != 1 || other.Status != cairn.CallOpen {
		h.Fatalf("the other call became %+v", other)
	}
}

// staleCall writes two calls, one of which is not at the version that its writer saw, along with all else that a commit
// can have.
func staleCall(h *harness) {
	s := h.running("session")
	h.write("session", asks("call", "step", "ann"))
	h.write("session", answers(h.call("session", "call"), "ann"))
	s = h.load("session")
	there := h.call("session", "call")
	good := answers(h.call("session", "call-of-session"), "ann")
	for name, write := range map[string]driver.CallWrite{
		"a new one that is there":    asks("call", "step"),
		"over an older version":      {Call: *there, Seen: there.Version - 1},
		"over a newer version":       {Call: *there, Seen: there.Version + 1},
		"over one that is not there": {Call: asks("missing", "step").Call, Seen: 1},
		"the same one twice":         good,
	} {
		for _, writes := range [][]driver.CallWrite{{good, write}, {write, good}} {
			c := h.everythingBut(s)
			c.Calls = append(c.Calls, writes...)
			h.unchanged("session", name, func() {
				_, err := h.st.Commit(h.Context(), "session", c)
				same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrStale, name), s)
			})
		}
	}
	_, err := h.st.Commit(h.Context(), "new", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Calls: []driver.CallWrite{{Call: *there, Seen: 2}}})
	h.wantError(err, cairn.ErrStale, "creation with a stale call")
	if there, err := driver.Exists(h.Context(), h.st, "new"); err != nil || there {
		h.Fatalf("the session exists after its creation failed: %v, %v", there, err)
	}
}

// callKeys uses one id in two trees: those are two calls. Within a tree an id belongs to one session.
func callKeys(h *harness) {
	h.create("root")
	h.tree("child", "root")
	h.create("other")
	h.write("root", asks("call", "step of root"))
	h.write("other", asks("call", "step of other"))
	if a, b := h.call("root", "call"), h.call("other", "call"); a.StepID != "step of root" || b.StepID != "step of other" || b.SessionID != "other" {
		h.Fatalf("calls are %+v and %+v", a, b)
	}
	h.write("other", answers(h.call("other", "call"), "ann"))
	h.unchanged("root", "a call of that id by another session of the tree", func() {
		for seen := range int64(3) {
			write := asks("call", "step of child")
			write.Seen = seen
			_, err := h.st.Commit(h.Context(), "child", &driver.Commit{Calls: []driver.CallWrite{write}})
			if row := h.wantConflict(err, cairn.ErrStale, fmt.Sprint("over version ", seen)); row.ID != "child" {
				h.Fatalf("the conflict saw %q", row.ID)
			}
		}
	})
	if c := h.call("root", "call"); c.Status != cairn.CallOpen || c.SessionID != "root" {
		h.Fatalf("the call of one tree became %+v when that of another was answered", c)
	}
}

func unknownCall(h *harness) {
	h.create("root")
	h.tree("child", "root")
	h.create("other")
	h.write("child", asks("call", "step"))
	h.call("root", "call")
	for _, at := range [][2]string{{"root", "cal"}, {"root", ""}, {"child", "call"}, {"other", "call"}, {"nobody", "call"}} {
		_, err := driver.FindCall(h.Context(), h.st, at[0], at[1])
		h.wantError(err, cairn.ErrNotFound, fmt.Sprintf("call %q of tree %q", at[1], at[0]))
	}
}

// callsAgain repeats commits that write calls: the calls have newer versions than their writer saw, but the commit was
// applied before.
func callsAgain(h *harness) {
	s := h.running("session")
	c := h.stepCommit(s, "asks")
	c.Guard.Version = 0
	c.Calls = []driver.CallWrite{asks("call", "step"), answers(h.call("session", "call-of-session"), "ann")}
	c.Dequeue = []string{"turn-of-session"}
	h.commit("session", c)
	h.again("session", c, "a step with calls again")
	h.write("session", answers(h.call("session", "call"), "bob"))
	h.again("session", c, "a step with calls again, after they were answered")
	h.end(h.load("session"))
	begin := beginCommit("next run", "worker", time.Hour)
	begin.Calls = []driver.CallWrite{asks("late", "step")}
	h.end(h.commit("session", begin))
	h.again("session", begin, "a begin with calls again")
}

func callsInSnapshot(h *harness) {
	h.create("session")
	h.tree("child", "session")
	suspend := func(step string) *driver.Contents {
		h.Helper()
		h.commit("session", &driver.Commit{Suspend: &driver.Suspend{StepID: step, OpenCalls: 1}})
		snap, err := h.st.Read(h.Context(), "session", driver.ToDrive(0))
		h.must(err)
		return snap
	}
	h.write("session", asks("z", "step"), asks("other", "another step"))
	h.write("session", asks("b", "step"), asks("a", "step"))
	h.write("child", asks("child's", "step"))
	h.write("session", answers(h.call("session", "b"), "ann"))
	snap := suspend("step")
	if got := callIDs(snap.Calls); got != "z a b" {
		h.Fatalf("calls of the snapshot are %q, want those of the step, the oldest first", got)
	}
	same(h.T, "call in the snapshot", snap.Calls[2], h.call("session", "b"))
	for step, want := range map[string]string{"another step": "other", "no such step": "", "": ""} {
		if got := callIDs(suspend(step).Calls); got != want {
			h.Fatalf("calls of the snapshot at step %q are %q, want %q", step, got, want)
		}
	}
}

func callsDeleted(h *harness) {
	h.create("root")
	h.tree("child", "root")
	h.write("root", asks("root's", "step", "ann"))
	h.write("child", asks("call", "step", "ann"), asks("more", "step"))
	h.must(h.st.Delete(h.Context(), "child"))
	_, err := driver.FindCall(h.Context(), h.st, "root", "call")
	h.wantError(err, cairn.ErrNotFound, "call of a deleted session")
	for name, q := range map[string]driver.CallQuery{"all": {}, "tree": {RootID: "root"}, "reviewer": {Reviewer: "ann", Statuses: []cairn.CallStatus{cairn.CallOpen}}} {
		if got := callIDs(h.calls(q)); got != "root's" {
			h.Fatalf("%s: calls are %q after a deletion", name, got)
		}
	}
	h.write("root", asks("call", "step of root"))
	h.tree("child", "root")
	if list := h.calls(driver.CallQuery{SessionID: "child"}); len(list) > 0 {
		h.Fatalf("a session of a deleted one's id has calls %+v", list)
	}
}

// oddCalls uses odd texts in all fields that calls are found by.
func oddCalls(h *harness) {
	for i, odd := range oddTexts {
		_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: odd, Agent: odd, UserID: odd}, nil)
		h.must(err)
		w := asks(odd, odd, odd)
		w.Call.Tool, w.Call.ClaimedBy, w.Call.ClaimedUntil = odd, odd, time.Now().Add(time.Hour)
		w.Call.Input = json.RawMessage(fmt.Sprint(i))
		h.commit(odd, &driver.Commit{Calls: []driver.CallWrite{w}, Suspend: &driver.Suspend{StepID: odd, OpenCalls: 1},
			Enqueue: &driver.QueuedTurn{ID: odd, Messages: says(odd)}, Cache: []driver.CacheEntry{{Key: odd, Tool: odd, Output: encode(odd)}}})
	}
	open := []cairn.CallStatus{cairn.CallOpen}
	for _, odd := range oddTexts {
		want := h.call(odd, odd)
		for name, q := range map[string]driver.CallQuery{"root": {RootID: odd}, "session": {SessionID: odd}, "step": {StepID: odd}, "user": {UserID: odd},
			"agent": {Agent: odd}, "tool": {Tool: odd}, "reviewer": {Reviewer: odd}, "open reviewer": {Reviewer: odd, Statuses: open}, "claimed": {Claimed: odd}} {
			same(h.T, fmt.Sprintf("calls by %s %q", name, odd), h.calls(q), []cairn.PendingCall{*want})
		}
		snap, err := h.st.Read(h.Context(), odd, driver.ToDrive(0))
		h.must(err)
		same(h.T, "calls of the snapshot", snap.Calls, []cairn.PendingCall{*want})
		same(h.T, "cache", snap.Cache, []driver.CacheEntry{{Key: odd, Tool: odd, Output: encode(odd)}})
		same(h.T, "queue", h.queue(odd), []driver.QueuedTurn{{ID: odd, Messages: says(odd)}})
		if snap.Session.SuspendedStep != odd {
			h.Fatalf("the row waits for step %q, want %q", snap.Session.SuspendedStep, odd)
		}
	}
	if list := h.calls(driver.CallQuery{Limit: 7}); len(list) != len(oddTexts) {
		h.Fatalf("%d calls are listed, want %d", len(list), len(oddTexts))
	}
}
