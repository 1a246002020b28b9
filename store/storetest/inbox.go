package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var inboxTests = []storeTest{
	{name: "EveryFilter", run: inboxFilters},
	{name: "OldestFirst", run: inboxOrder},
	{name: "PageSizes", run: inboxPageSizes},
	{name: "PagingWhileWriting", run: inboxPagingWhileWriting},
	{name: "FollowsWrites", run: inboxFollowsWrites},
	{name: "DueByWhatIsStored", run: inboxFineDeadlines},
	{name: "UnsettledEffects", run: inboxUnsettled},
	{name: "BadCursor", run: inboxBadCursor},
}

// inbox makes calls that differ in everything that a query can ask for. Their order is that of their names.
func (h *harness) inbox() {
	h.Helper()
	user := "ann's user"
	for _, s := range []*cairn.Session{{ID: "r1", Agent: agentName, UserID: user}, {ID: "r2", Agent: "sales", UserID: "other"},
		{ID: "child", Agent: "sales", UserID: user, ParentID: "r1", RootID: "r1"}} {
		_, err := driver.Create(h.Context(), h.st, s, nil)
		h.must(err)
	}
	add := func(session, id, step string, change func(*cairn.PendingCall), reviewers ...string) {
		h.Helper()
		w := asks(id, step, reviewers...)
		change(&w.Call)
		h.write(session, w)
	}
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	add("r1", "a", "s1", func(c *cairn.PendingCall) {})
	add("r1", "b", "s1", func(c *cairn.PendingCall) { c.Tool, c.Kind = "ask", cairn.CallClientTool }, "ann")
	add("r1", "c", "s2", func(c *cairn.PendingCall) { c.Status = cairn.CallAnswered }, "ann", "bob")
	add("child", "d", "s1", func(c *cairn.PendingCall) { c.Deadline = at(10) }, "bob")
	add("child", "e", "s1", func(c *cairn.PendingCall) { c.Deadline, c.Status = at(20), cairn.CallSettled })
	add("r2", "f", "s1", func(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = "ann", soon }, "ann", "bob")
	add("r2", "g", "s1", func(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = "ann", past })
	add("r2", "h", "s3", func(c *cairn.PendingCall) { c.Tool, c.Deadline = "ask", at(10) }, "")
	add("r2", "i", "s3", func(c *cairn.PendingCall) { c.Status = cairn.CallDropped }, "ann")
}

func inboxFilters(h *harness) {
	h.inbox()
	open := []cairn.CallStatus{cairn.CallOpen}
	for _, test := range []struct {
		name string
		q    driver.CallQuery
		want string
	}{
		{"all", driver.CallQuery{}, "a b c d e f g h i"},
		{"open", driver.CallQuery{Statuses: open}, "a b d f g h"},
		{"statuses", driver.CallQuery{Statuses: []cairn.CallStatus{cairn.CallDropped, cairn.CallAnswered, "no such status"}}, "c i"},
		{"root", driver.CallQuery{RootID: "r1"}, "a b c d e"},
		{"open of a root", driver.CallQuery{RootID: "r1", Statuses: open}, "a b d"},
		{"a child is no root", driver.CallQuery{RootID: "child"}, ""},
		{"session", driver.CallQuery{SessionID: "r1"}, "a b c"},
		{"no such session", driver.CallQuery{SessionID: "r"}, ""},
		{"step", driver.CallQuery{StepID: "s1"}, "a b d e f g"},
		{"step of a session", driver.CallQuery{SessionID: "child", StepID: "s1"}, "d e"},
		{"open of a step", driver.CallQuery{SessionID: "child", StepID: "s1", Statuses: open}, "d"},
		{"user", driver.CallQuery{UserID: "ann's user"}, "a b c d e"},
		{"open of a user", driver.CallQuery{UserID: "ann's user", Statuses: open}, "a b d"},
		{"agent", driver.CallQuery{Agent: "sales"}, "d e f g h i"},
		{"open of an agent", driver.CallQuery{Agent: "sales", Statuses: open}, "d f g h"},
		{"tool", driver.CallQuery{Tool: "ask"}, "b h"},
		{"open of a tool", driver.CallQuery{Tool: "refund", Statuses: open}, "a d f g"},
		{"kind", driver.CallQuery{Kind: cairn.CallClientTool}, "b"},
		{"reviewer", driver.CallQuery{Reviewer: "ann"}, "a b c e f g i"},
		{"open of a reviewer", driver.CallQuery{Reviewer: "ann", Statuses: open}, "a b f g"},
		{"open of another reviewer", driver.CallQuery{Reviewer: "bob", Statuses: open}, "a d f g"},
		{"open of a reviewer with none", driver.CallQuery{Reviewer: "an", Statuses: open}, "a g"},
		{"reviewer and tool", driver.CallQuery{Reviewer: "ann", Tool: "ask", Statuses: open}, "b"},
		{"reviewer, user and agent", driver.CallQuery{Reviewer: "bob", UserID: "ann's user", Agent: "sales", Statuses: open}, "d"},
		{"claimed", driver.CallQuery{Claimed: "ann"}, "f"},
		{"claimed by nobody", driver.CallQuery{Claimed: "bob"}, ""},
		{"due", driver.CallQuery{DueBefore: at(11)}, "d h"},
		{"due, exclusive", driver.CallQuery{DueBefore: at(10)}, ""},
		{"due later", driver.CallQuery{DueBefore: at(30).In(time.FixedZone("east", 3600))}, "d e h"},
		{"everything", driver.CallQuery{RootID: "r2", SessionID: "r2", StepID: "s1", UserID: "other", Agent: "sales", Tool: "refund",
			Kind: cairn.CallApproval, Statuses: open, Reviewer: "bob", Claimed: "ann"}, "f"},
	} {
		for _, limit := range []int{0, 1, 2} {
			test.q.Limit = limit
			if got := callIDs(h.calls(test.q)); got != test.want {
				h.Fatalf("%s, in pages of %d: calls %q, want %q", test.name, limit, got, test.want)
			}
		}
	}
}

// inboxUnsettled lists the effects that are not settled. One that is settled leaves the list.
func inboxUnsettled(h *harness) {
	h.create("session")
	for id, status := range map[string]cairn.CallStatus{"a": cairn.CallOpen, "b": cairn.CallAnswered, "c": cairn.CallDropped, "d": cairn.CallSettled} {
		w := asks(id, "step")
		w.Call.Kind, w.Call.Status = cairn.CallEffect, status
		h.write("session", w)
	}
	h.write("session", asks("e", "step"))
	unsettled := driver.CallQuery{Kind: cairn.CallEffect, Statuses: []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallDropped}, Limit: 2}
	want := func(ids string, q driver.CallQuery) {
		h.Helper()
		if got := callIDs(h.calls(q)); got != ids {
			h.Fatalf("calls %q of %+v, want %q", got, q, ids)
		}
	}
	calls := h.calls(unsettled) // in any order, since they were written at any time
	slices.SortFunc(calls, func(x, y cairn.PendingCall) int { return strings.Compare(x.ID, y.ID) })
	if got := callIDs(calls); got != "a b c" {
		h.Fatalf("calls %q", got)
	}
	settled := driver.CallWrite{Call: calls[2], Seen: calls[2].Version}
	settled.Call.Status = cairn.CallSettled
	h.write("session", settled)
	only := func(statuses ...cairn.CallStatus) driver.CallQuery {
		return driver.CallQuery{Kind: cairn.CallEffect, Statuses: statuses}
	}
	want("", only(cairn.CallDropped))
	want("a", only(cairn.CallOpen))
	want("b", only(cairn.CallAnswered))
}

// inboxOrder makes calls with equal creation times in several trees: they are ordered by creation, root and id, on
// pages of every size.
func inboxOrder(h *harness) {
	var want []string
	for _, root := range []string{"b", "a", "aa"} {
		h.create(root)
		h.write(root, asks("9", "step", "ann"), asks("10", "step"), asks("1", "step", "bob"))
		want = append(want, root+"/1", root+"/10", root+"/9")
	}
	for _, root := range []string{"a", "b"} {
		h.write(root, asks("0", "step", "ann"))
		want = append(want, root+"/0")
	}
	for name, q := range map[string]driver.CallQuery{"all": {}, "open": {Statuses: []cairn.CallStatus{cairn.CallOpen}}, "agent": {Agent: agentName}} {
		for limit := 1; limit <= len(want)+1; limit++ {
			q.Limit = limit
			var got []string
			for _, c := range h.calls(q) {
				got = append(got, c.RootID+"/"+c.ID)
			}
			same(h.T, fmt.Sprintf("%s, in pages of %d", name, limit), got, want)
		}
	}
	q := driver.CallQuery{Statuses: []cairn.CallStatus{cairn.CallOpen}, Reviewer: "ann", Limit: 2}
	if got := callIDs(h.calls(q)); got != "10 9 10 9 10 9 0 0" {
		h.Fatalf("calls of a reviewer, assigned or free: %q", got)
	}
}

func inboxPageSizes(h *harness) {
	h.create("session")
	var writes []driver.CallWrite
	for i := range 1001 {
		writes = append(writes, asks(fmt.Sprint(i), "step"))
	}
	h.write("session", writes...)
	for limit, want := range map[int]int{0: 100, 250: 250, 1000: 1000, 1 << 30: 1000} {
		page, err := h.st.Calls(h.Context(), driver.CallQuery{Limit: limit})
		h.must(err)
		if len(page.Items) != want || page.Next == "" {
			h.Fatalf("limit %d gives %d calls and cursor %q, want %d and one", limit, len(page.Items), page.Next, want)
		}
	}
}

// inboxPagingWhileWriting answers, adds and deletes calls between pages: those that were open all the time are listed
// exactly once.
func inboxPagingWhileWriting(h *harness) {
	h.create("gone")
	h.create("session")
	for i := range 12 {
		id := "session"
		if i == 5 {
			id = "gone"
		}
		h.write(id, asks(fmt.Sprintf("call-%02d", i), "step"))
	}
	n := 0
	got := pages(h.T, "calls", func(cursor string) (driver.Page[cairn.PendingCall], error) {
		page, err := h.st.Calls(h.Context(), driver.CallQuery{Statuses: []cairn.CallStatus{cairn.CallOpen}, Cursor: cursor, Limit: 3})
		switch n++; n {
		case 1:
			last := page.Items[2] // the cursor's item
			h.write(last.SessionID, answers(&last, "ann"))
		case 2:
			h.must(h.st.Delete(h.Context(), "gone")) // that, too
			h.write("session", answers(h.call("session", "call-07"), "ann"))
		}
		h.write("session", asks(fmt.Sprint("new-", n), "step"))
		return page, err
	})
	want := "call-00 call-01 call-02 call-03 call-04 call-05 call-06 call-08 call-09 call-10 call-11"
	if ids := callIDs(got); !strings.HasPrefix(ids, want) {
		h.Fatalf("calls, while writing, are %q, want first %q", ids, want)
	}
}

// inboxFollowsWrites changes the fields that calls are found by.
func inboxFollowsWrites(h *harness) {
	open := []cairn.CallStatus{cairn.CallOpen}
	h.create("session")
	h.write("session", asks("call", "step", "ann"))
	check := func(when string, want map[string]bool) {
		h.Helper()
		for reviewer, there := range want {
			if list := h.calls(driver.CallQuery{Reviewer: reviewer, Statuses: open}); (len(list) == 1) != there {
				h.Fatalf("%s: open calls of %s are %+v", when, reviewer, list)
			}
		}
	}
	change := func(change func(*cairn.PendingCall)) {
		h.Helper()
		c := h.call("session", "call")
		w := driver.CallWrite{Call: *c, Seen: c.Version}
		change(&w.Call)
		h.write("session", w)
	}
	check("at first", map[string]bool{"ann": true, "bob": false})
	change(func(c *cairn.PendingCall) { c.Reviewers = []string{"bob", "eve", "bob"} })
	check("assigned to others", map[string]bool{"ann": false, "bob": true, "eve": true})
	change(func(c *cairn.PendingCall) { c.Reviewers = nil })
	check("assigned to nobody", map[string]bool{"ann": true, "bob": true})
	change(func(c *cairn.PendingCall) { c.Reviewers, c.Status = []string{"ann"}, cairn.CallAnswered })
	check("answered", map[string]bool{"ann": false, "bob": false})
	change(func(c *cairn.PendingCall) { c.Status = cairn.CallOpen })
	check("open again", map[string]bool{"ann": true, "bob": false})
	change(func(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = "ann", time.Now().Add(time.Hour) })
	if list := h.calls(driver.CallQuery{Claimed: "ann"}); len(list) != 1 {
		h.Fatalf("claimed calls are %+v", list)
	}
	change(func(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = "", time.Time{} })
	if list := h.calls(driver.CallQuery{Claimed: "ann"}); len(list) > 0 {
		h.Fatalf("released calls are claimed: %+v", list)
	}
}

// inboxFineDeadlines asks for deadlines between two microseconds: a store's lists agree with the precision that it
// keeps.
func inboxFineDeadlines(h *harness) {
	h.create("session")
	w := asks("call", "step")
	w.Call.Deadline = at(1).Add(500)
	h.write("session", w)
	stored := h.call("session", "call").Deadline
	for _, after := range []time.Duration{-1000, 0, 1, 499, 500, 501, 1000} {
		due := at(1).Add(after)
		if listed := len(h.calls(driver.CallQuery{DueBefore: due})) == 1; listed != stored.Before(due) {
			h.Fatalf("a call with the deadline %v is due before %v: %v", stored, due, listed)
		}
	}
}

func inboxBadCursor(h *harness) {
	h.create("session")
	h.write("session", asks("call", "step"))
	for _, cursor := range append(badCursors, "1.2", "1.9.short", "1.-1.call", "x y.1.call", "1..call") {
		for name, q := range map[string]driver.CallQuery{"all": {}, "reviewer": {Reviewer: "ann", Statuses: []cairn.CallStatus{cairn.CallOpen}}} {
			q.Cursor = cursor
			_, err := h.st.Calls(h.Context(), q)
			h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("%s: cursor %q", name, cursor))
		}
	}
}
