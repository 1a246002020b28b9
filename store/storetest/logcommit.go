package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// The events of a commit: on the log with it, or on the row's outbox. Each scenario is run with one handle on the data
// and, where a store has them, with two in turn.
var commitEventTests = []storeTest{
	{name: "Appended", run: eventsAppended, needs: bringsLog},
	{name: "NewSession", run: eventsOfNewSession, needs: bringsLog},
	{name: "Times", run: eventsDated, needs: bringsLog},
	{name: "Repeated", run: eventsOnce, needs: bringsLog},
	{name: "Refused", run: eventsRefused, needs: bringsLog},
	{name: "Order", run: eventsInOrder, needs: bringsLog},
	{name: "BesideRun", run: eventsBesideRun, needs: bringsLog},
	{name: "OfRun", run: eventsOfRun, needs: bringsLog},
	{name: "BesideFollowed", run: eventsBesideFollowed, needs: bringsLog},
	{name: "Fence", run: eventsFence, needs: bringsLog},
	{name: "OneTree", run: eventsOfOneTree, needs: bringsLog},
	{name: "TooLarge", run: eventsTooLarge, needs: bringsLog},
	{name: "DroppedLog", run: eventsOfDroppedLog, needs: bringsLog},
	{name: "TrimmedLog", run: eventsOfTrimmedLog, needs: bringsLog},
	{name: "SweptLog", run: eventsOfSweptLog, needs: bringsLog},
	{name: "Followed", run: eventsFollowed, needs: bringsLog},
	{name: "Branch", run: eventsOfBranch, needs: bringsLog},
	{name: "Fault", run: eventsWithFaults, needs: func(o *Options) bool { return bringsLog(o) && needsFault(o) }},
	{name: "NoLog", run: eventsWithoutLog, needs: func(o *Options) bool { return !o.bringsLog }},
	{name: "Outbox", run: outboxKept},
	{name: "OutboxOfBranch", run: outboxOfBranch},
	{name: "OutboxTimes", run: outboxDated},
}

// twoHandles returns the handles that a scenario writes with in turn.
func (h *harness) twoHandles() []*harness {
	if h.opts.Second == nil {
		return []*harness{h, h}
	}
	return []*harness{h, h.on(h.opts.Second(h.T, h.st))}
}

func (h *harness) eventLog() driver.Log {
	h.Helper()
	p, ok := driver.As[driver.LogProvider](h.st)
	if !ok {
		h.Fatal("the store has no log")
	}
	return p.EventLog()
}

// logged returns the whole log of a root's tree.
func (h *harness) logged(root string) []cairn.Event {
	h.Helper()
	list, err := h.eventLog().Read(h.Context(), h.log(root), 0, 1_000_000)
	h.must(err)
	return list
}

// named returns events of a session with names.
func named(session string, names ...string) []cairn.Event {
	list := make([]cairn.Event, len(names))
	for i, name := range names {
		list[i] = cairn.Event{Type: cairn.EventCustom, SessionID: session, Agent: agentName, Name: name, Data: json.RawMessage(`{"n":1}`)}
	}
	return list
}

// names returns the names of events, in their order.
func names(list []cairn.Event) string {
	var all []string
	for i := range list {
		all = append(all, list[i].Name)
	}
	return strings.Join(all, " ")
}

// wantLog checks the names and sequences of a root's log.
func (h *harness) wantLog(root, want string) []cairn.Event {
	h.Helper()
	list := h.logged(root)
	if got := names(list); got != want {
		h.Fatalf("the log has %q, want %q", got, want)
	}
	for i := range list {
		if list[i].Sequence != int64(i+1) {
			h.Fatalf("event %d of the log has the sequence %d", i+1, list[i].Sequence)
		}
	}
	return list
}

// with adds events to a commit.
func with(c *driver.Commit, session string, names ...string) *driver.Commit {
	c.Events = named(session, names...)
	return c
}

func eventsAppended(h *harness) {
	two := h.twoHandles()
	s := h.create("session")
	_, err := h.eventLog().Append(h.Context(), s.Log(), 0, named("session", "before")...)
	h.must(err)
	begun := h.commit("session", with(beginCommit("run", "worker", time.Hour), "session", "started", "asked"))
	h.wantLog("session", "before started asked")
	if begun.LogSequence != 3 {
		h.Fatalf("the begin left the position %d on the row, want 3", begun.LogSequence)
	}
	run, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	if run.StartSequence != 1 {
		h.Fatalf("the run starts at %d, want 1", run.StartSequence)
	}
	c := with(two[1].stepCommit(begun, "reply"), "session", "committed")
	c.LogSequence, c.Checkpoint.LogSequence = 99, 77 // what the writer thinks does not matter
	stepped := two[1].commit("session", c)
	if stepped.LogSequence != 4 {
		h.Fatalf("the step left the position %d on the row, want 4", stepped.LogSequence)
	}
	cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", c.Checkpoint.ID)
	h.must(err)
	if cp.LogSequence != 4 {
		h.Fatalf("the checkpoint is at %d, want 4", cp.LogSequence)
	}
	same(h.T, "the row of the other handle", h.load("session"), asOf(stepped, h.load("session")))
	if quiet := h.step(stepped, "without events"); quiet.LogSequence != 4 {
		h.Fatalf("a step without events left the position %d on the row, want 4", quiet.LogSequence)
	}
	h.wantLog("session", "before started asked committed")
	if list := c.Events; list[0].Sequence != 0 || !list[0].Time.IsZero() {
		h.Fatal("the commit has changed its caller's events")
	}
}

// asOf returns a row with the AsOf of another, which no store keeps.
func asOf(row, other *cairn.Session) *cairn.Session {
	own := *row
	own.AsOf = other.AsOf
	return &own
}

func eventsOfNewSession(h *harness) {
	c := with(beginCommit("run", "worker", time.Hour), "session", "started", "asked")
	c.Guard, c.Create = driver.Guard{New: true}, &cairn.Session{Agent: agentName}
	row := h.commit("session", c)
	h.wantLog("session", "started asked")
	run, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	if row.LogSequence != 2 || run.StartSequence != 0 {
		h.Fatalf("the row is at %d and its run began at %d, want 2 and 0", row.LogSequence, run.StartSequence)
	}
	child := with(&driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agentName, ParentID: "session", RootID: "session", Incarnation: row.Incarnation}},
		"child", "born")
	if row := h.commit("child", child); row.LogSequence != 3 {
		h.Fatalf("the child is at %d, want 3", row.LogSequence)
	}
	h.wantLog("session", "started asked born")
	_, err = h.st.Commit(h.Context(), "session", c)
	h.must(err) // it was applied before
	c.StartRun.ID = "another run"
	_, err = h.st.Commit(h.Context(), "session", c)
	h.wantConflict(err, cairn.ErrExists, "a second session of the id")
	h.wantLog("session", "started asked born")
}

func eventsDated(h *harness) {
	s := h.create("session")
	given := at(5)
	list := named("session", "dated", "undated")
	list[0].Time, list[1].Version = given, 1
	row := h.commit("session", &driver.Commit{Guard: driver.Guard{Version: s.Version}, Events: list})
	got := h.wantLog("session", "dated undated")
	if !got[0].Time.Equal(given) || !got[1].Time.Equal(row.UpdatedAt) {
		h.Fatalf("the events have the times %v and %v, want %v and %v", got[0].Time, got[1].Time, given, row.UpdatedAt)
	}
	if got[0].Version != 0 || got[1].Version != row.Version {
		h.Fatalf("the events have the versions %d and %d, want none and %d", got[0].Version, got[1].Version, row.Version)
	}
}

func eventsOnce(h *harness) {
	two := h.twoHandles()
	h.create("session")
	begin := with(beginCommit("run", "worker", time.Hour), "session", "started")
	s := h.commit("session", begin)
	step := with(h.stepCommit(s, "reply"), "session", "committed")
	s = h.commit("session", step)
	for _, on := range two {
		for what, c := range map[string]*driver.Commit{"begin": begin, "step": step} {
			row, err := on.st.Commit(h.Context(), "session", c)
			h.must(err)
			if row.Version != s.Version || row.LogSequence != 2 {
				h.Fatalf("a repeated %s: version %d at %d, want %d at 2", what, row.Version, row.LogSequence, s.Version)
			}
		}
	}
	h.wantLog("session", "started committed")
}

func eventsRefused(h *harness) {
	two := h.twoHandles()
	h.create("session")
	s := h.begin("session", "run")
	for i, c := range []*driver.Commit{
		{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agentName}},
		{Guard: driver.Guard{Token: s.Lease.Token + 1}},
		{Guard: driver.Guard{Token: s.Lease.Token - 1}},
		{Guard: driver.Guard{Idle: true}},
		{Guard: driver.Guard{Lapsed: true}},
		{Guard: driver.Guard{Agent: "another"}},
		{Guard: driver.Guard{Version: s.Version + 1}},
		{Rewind: "unknown"},
		{RewindRun: "unknown"},
		{EndRun: &cairn.Run{ID: "unknown"}},
		{Dequeue: []string{"unknown"}},
		{Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call"}}, Seen: 3}}},
	} {
		before := h.content("session")
		for _, on := range two {
			if _, err := on.st.Commit(h.Context(), "session", with(c, "session", "never")); err == nil {
				h.Fatalf("commit %d was not refused", i)
			}
		}
		same(h.T, fmt.Sprint("the session after refused commit ", i), h.content("session"), before)
		h.wantLog("session", "")
	}
	if _, err := h.st.Commit(h.Context(), "no session", with(&driver.Commit{}, "no session", "never")); !errors.Is(err, cairn.ErrNotFound) {
		h.Fatalf("a commit to no session: %v", err)
	}
}

// eventsInOrder has a holder and another writer commit to one session at once: the log has their events in the order of
// the versions.
func eventsInOrder(h *harness) {
	two := h.twoHandles()
	h.create("session")
	h.begin("session", "run")
	n := h.rounds(40)
	var ofHolder int64 // where the log ended with the last step
	errs := race(2, func(i int) error {
		for k := range n {
			row, err := driver.Update(h.Context(), two[i].st, "session", func(s *cairn.Session) (*driver.Commit, error) {
				c := &driver.Commit{}
				if i == 0 {
					c = two[i].stepCommit(s, "reply")
				}
				c = with(c, "session", fmt.Sprintf("%d/%d", i, k), fmt.Sprintf("%d/%d.", i, k))
				c.Events[0].Version, c.Events[1].Version = 1, 1
				return c, nil
			})
			if err != nil {
				return err
			}
			if i == 0 {
				ofHolder = row.LogSequence
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	list := h.logged("session")
	if len(list) != 4*n {
		h.Fatalf("the log has %d events, want %d", len(list), 4*n)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Version < list[i-1].Version {
			h.Fatalf("event %d has version %d, after %d", i+1, list[i].Version, list[i-1].Version)
		}
	}
	for i := 0; i < len(list); i += 2 {
		if list[i+1].Name != list[i].Name+"." || list[i+1].Version != list[i].Version {
			h.Fatalf("the events of one commit are apart: %q, %q", list[i].Name, list[i+1].Name)
		}
	}
	if row := h.load("session"); row.LogSequence != ofHolder || row.Version != list[len(list)-1].Version {
		h.Fatalf("the row is at %d, version %d; the last step at %d, the log ends with version %d", row.LogSequence, row.Version, ofHolder, list[len(list)-1].Version)
	}
	if last := list[ofHolder-1]; last.Name != fmt.Sprintf("0/%d.", n-1) {
		h.Fatalf("the row is at event %q, want that of the last step", last.Name)
	}
}

// eventsFence has a commit take the lease: what the holder before it appends late is refused from then on.
func eventsFence(h *harness) {
	two := h.twoHandles()
	log, fences := h.eventLog().(driver.Fencer)
	if !fences {
		h.Skip("the log fences off nobody")
	}
	h.create("session")
	first := h.commit("session", with(beginCommit("run", "worker", brief), "session", "started"))
	old := driver.Writer{Session: "session", Token: first.Lease.Token, ID: "old", Batch: 1}
	_, err := log.AppendFenced(h.Context(), first.Log(), driver.AnySequence, old, named("session", "live")...)
	h.must(err)
	h.awaitDue("session")
	taken := two[1].commit("session", with(&driver.Commit{Guard: driver.Guard{Lapsed: true}, Recovered: true,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "next", TTL: time.Hour}}, "session", "discarded"))
	old.Batch = 2
	_, err = log.AppendFenced(h.Context(), first.Log(), driver.AnySequence, old, named("session", "late")...)
	h.wantError(err, cairn.ErrFenced, "an append of the holder before")
	next := driver.Writer{Session: "session", Token: taken.Lease.Token, ID: "old", Batch: 1} // numbers begin anew with a token
	_, err = log.AppendFenced(h.Context(), first.Log(), driver.AnySequence, next, named("session", "more")...)
	h.must(err)
	h.commit("session", with(&driver.Commit{}, "session", "verb")) // takes no lease, so it fences off nobody
	next.Batch = 2
	_, err = log.AppendFenced(h.Context(), first.Log(), driver.AnySequence, next, named("session", "again")...)
	h.must(err)
	h.wantLog("session", "started live discarded more verb again")
}

// eventsOfOneTree has the sessions of a tree commit at once, through two handles.
func eventsOfOneTree(h *harness) {
	const sessions = 6
	two := h.twoHandles()
	root := h.create("root")
	steps := h.rounds(20)
	rows := make([]*cairn.Session, sessions)
	for i := range rows {
		id := fmt.Sprint("child-", i)
		h.commit(id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agentName, ParentID: "root", RootID: "root", Incarnation: root.Incarnation}})
		rows[i] = h.begin(id, "run-of-"+id)
	}
	errs := race(sessions, func(i int) error {
		on := two[i%2]
		for k := range steps {
			id := rows[i].ID
			c := with(on.stepCommit(rows[i], "reply"), id, fmt.Sprint(k), fmt.Sprint(k), fmt.Sprint(k))
			row, err := on.st.Commit(h.Context(), id, c)
			if err != nil {
				return err
			}
			rows[i] = row
		}
		return nil
	})
	h.must(errors.Join(errs...))
	list := h.logged("root")
	if len(list) != 3*steps*sessions {
		h.Fatalf("the log has %d events, want %d", len(list), 3*steps*sessions)
	}
	next, last := map[string]int{}, map[string]int64{}
	for i := 0; i < len(list); i += 3 {
		id := list[i].SessionID
		for k := range 3 {
			ev := &list[i+k]
			if ev.Sequence != int64(i+k+1) || ev.SessionID != id || ev.Name != fmt.Sprint(next[id]) {
				h.Fatalf("event %d: sequence %d of session %q is %q, want %q of %q", i+k+1, ev.Sequence, ev.SessionID, ev.Name, fmt.Sprint(next[id]), id)
			}
		}
		next[id]++
		last[id] = list[i+2].Sequence
	}
	for _, row := range rows {
		if row.LogSequence != last[row.ID] || h.load(row.ID).LogSequence != last[row.ID] {
			h.Fatalf("session %q is at %d, its last event at %d", row.ID, row.LogSequence, last[row.ID])
		}
	}
}

func eventsTooLarge(h *harness) {
	h.create("session")
	before := h.content("session")
	c := with(&driver.Commit{Messages: says("never")}, "session", "fits", "does not")
	c.Events[1].Text = strings.Repeat("x", h.eventLog().MaxEvent())
	_, err := h.st.Commit(h.Context(), "session", c)
	h.wantError(err, cairn.ErrTooLarge, "an event that is too large")
	if e := new(cairn.Error); !errors.As(err, &e) || !strings.HasPrefix(e.Field, "events[1]") {
		h.Fatalf("the error names the field %q", e.Field)
	}
	same(h.T, "the session", h.content("session"), before)
	h.wantLog("session", "")
}

func eventsOfDroppedLog(h *harness) {
	two := h.twoHandles()
	s := h.create("session")
	h.commit("session", with(&driver.Commit{}, "session", "one"))
	h.must(h.eventLog().Drop(h.Context(), s.Log()))
	before := h.content("session")
	for _, on := range two {
		_, err := on.st.Commit(h.Context(), "session", with(&driver.Commit{Messages: says("never")}, "session", "two"))
		h.wantError(err, cairn.ErrDeleted, "a commit with events for a dropped log")
		same(h.T, "the session", h.content("session"), before)
	}
	h.commit("session", &driver.Commit{Messages: says("without events")})
}

func eventsOfTrimmedLog(h *harness) {
	s := h.create("session")
	h.commit("session", with(&driver.Commit{}, "session", "one", "two", "three"))
	h.must(h.eventLog().Trim(h.Context(), s.Log(), 4))
	if row := h.commit("session", with(&driver.Commit{}, "session", "four")); row.LogSequence != 4 {
		h.Fatalf("the row is at %d, want 4", row.LogSequence)
	}
	first, last, err := h.eventLog().Bounds(h.Context(), s.Log())
	h.must(err)
	if first != 4 || last != 4 {
		h.Fatalf("the log is from %d to %d, want 4 to 4", first, last)
	}
}

// eventsOfSweptLog has a log be due for a sweep from its first events on, and again once there are more after a sweep.
func eventsOfSweptLog(h *harness) {
	log, sweeps := h.eventLog().(driver.LogSweeper)
	if !sweeps {
		h.Skip("the log is not a LogSweeper")
	}
	h.create("session")
	s := h.begin("session", "run")
	for n, next := range []func(*cairn.Session) *driver.Commit{
		func(s *cairn.Session) *driver.Commit { return h.stepCommit(s, "reply") },
		func(*cairn.Session) *driver.Commit { return &driver.Commit{} },
		func(s *cairn.Session) *driver.Commit { return h.stepCommit(s, "reply") },
	} {
		s = h.commit("session", with(next(s), "session", "one", "two"))
		page, err := log.Unswept(h.Context(), 0, driver.PageQuery{})
		h.must(err)
		same(h.T, fmt.Sprint("what is due for a sweep after commit ", n), page.Items, []string{s.Log()})
		_, last, err := log.(driver.Log).Bounds(h.Context(), s.Log())
		h.must(err)
		h.must(log.Swept(h.Context(), s.Log(), last, time.Hour))
		page, err = log.Unswept(h.Context(), 0, driver.PageQuery{})
		h.must(err)
		if len(page.Items) > 0 {
			h.Fatalf("after a sweep %q is due for another", page.Items)
		}
	}
}

// eventsFollowed has followers, of the handle that writes and of another one, see the events of commits and appends.
func eventsFollowed(h *harness) {
	two := h.twoHandles()
	s := h.create("session")
	var following sync.WaitGroup
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	const events = 12
	got := make([][]cairn.Event, len(two))
	for i, on := range two {
		log := on.eventLog()
		following.Go(func() {
			for ev, err := range log.Follow(ctx, s.Log(), 0) {
				if err != nil {
					return
				}
				if got[i] = append(got[i], ev); len(got[i]) == events {
					return
				}
			}
		})
	}
	var want []string
	for k := range events / 4 {
		live := fmt.Sprint("live", k)
		_, err := h.eventLog().Append(h.Context(), s.Log(), driver.AnySequence, named("session", live)...)
		h.must(err)
		one, two := fmt.Sprint("one", k), fmt.Sprint("two", k)
		h.commit("session", with(&driver.Commit{}, "session", one, two))
		quiet := fmt.Sprint("quiet", k)
		h.commit("session", with(&driver.Commit{Messages: says("hello")}, "session", quiet))
		want = append(want, live, one, two, quiet)
	}
	following.Wait()
	for i := range got {
		if names(got[i]) != strings.Join(want, " ") {
			h.Fatalf("follower %d saw %q, want %q", i, names(got[i]), want)
		}
	}
	same(h.T, "what a follower saw", got[0], h.logged("session"))
}

func eventsOfBranch(h *harness) {
	h.create("session")
	h.commit("session", with(&driver.Commit{Messages: says("hello")}, "session", "said"))
	row, err := h.st.Branch(h.Context(), "session", driver.BranchPoint{Events: named("branch", "branched")}, &cairn.Session{ID: "branch", Agent: agentName})
	h.must(err)
	got := h.wantLog("branch", "branched")
	if got[0].Version != 1 || got[0].MessageCount != 1 || !got[0].Time.Equal(row.CreatedAt) || row.LogSequence != 1 {
		h.Fatalf("the branch is at %d and its event has version %d, %d messages and the time %v, want 1, 1, 1, %v",
			row.LogSequence, got[0].Version, got[0].MessageCount, got[0].Time, row.CreatedAt)
	}
	same(h.T, "the row of the branch", h.load("branch"), asOf(row, h.load("branch")))
	h.wantLog("session", "said")
	_, err = h.st.Branch(h.Context(), "session", driver.BranchPoint{Events: named("branch", "again")}, &cairn.Session{ID: "branch", Agent: agentName})
	h.wantError(err, cairn.ErrExists, "a second branch of the id")
	h.wantLog("branch", "branched")
}

// eventsWithFaults makes each internal write of a commit fail: the log has the events if and only if the store has the
// commit.
func eventsWithFaults(h *harness) {
	n := 0
	h.eachFault("commit with events", func(id string) { h.running(id); h.commit(id, with(&driver.Commit{}, id, "created")) }, func(id string) error {
		if n++; n%2 == 0 { // after a failure: nothing of it is there
			h.wantLog(id, "created")
		}
		s := h.load(id)
		c := with(h.stepCommit(s, "reply"), id, "one", "two")
		c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: "next", TTL: time.Hour}
		_, err := h.st.Commit(h.Context(), id, c)
		if err == nil {
			h.wantLog(id, "created one two")
			n = 0
		}
		return err
	})
}

func eventsWithoutLog(h *harness) {
	h.create("session")
	before := h.content("session")
	_, err := h.st.Commit(h.Context(), "session", with(&driver.Commit{}, "session", "never"))
	h.wantError(err, cairn.ErrInvalid, "events for a store without a log")
	if e := new(cairn.Error); !errors.As(err, &e) || e.Field != "events" {
		h.Fatalf("the error names the field %q", e.Field)
	}
	_, err = h.st.Branch(h.Context(), "session", driver.BranchPoint{Events: named("branch", "never")}, &cairn.Session{ID: "branch", Agent: agentName})
	h.wantError(err, cairn.ErrInvalid, "events for the branch of a store without a log")
	same(h.T, "the session", h.content("session"), before)
}
