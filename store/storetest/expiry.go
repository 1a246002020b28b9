package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

var expiryTests = []storeTest{
	{name: "TTLIsKept", run: ttlKept},
	{name: "StaleRoots", run: staleRoots},
	{name: "StaleInPages", run: stalePages},
	{name: "ContextChanges", run: staleByContext},
	{name: "Expired", run: expired},
	{name: "GoneAtItsTime", run: oneHandle(goneAtItsTime)},
	{name: "TwoHandles/GoneAtItsTime", run: twoHandles(goneAtItsTime), needs: needsSecond},
	{name: "ListsLeaveItOut", run: expiredInLists},
	{name: "HolderContinues", run: holderContinues},
	{name: "NotBeforeItsTime", run: notExpired},
	{name: "HeldByTheTree", run: heldByTree},
	{name: "ActivityKeeps", run: activityKeeps},
	{name: "LooksAndCommits", run: oneHandle(looksAndCommits)},
	{name: "TwoHandles/LooksAndCommits", run: twoHandles(looksAndCommits), needs: needsSecond},
	{name: "BeginOrExpire", run: oneHandle(beginOrExpire)},
	{name: "TwoHandles/BeginOrExpire", run: twoHandles(beginOrExpire), needs: needsSecond},
}

// lasting makes a session that expires.
func (h *harness) lasting(id string, ttl time.Duration, expires time.Time) *cairn.Session {
	h.Helper()
	s, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName, TTL: cairn.Duration(ttl), ExpiresAt: expires}, nil)
	h.must(err)
	return s
}

// stale lists the roots that may have expired.
func (h *harness) stale() []string {
	h.Helper()
	return pages(h.T, "stale sessions", func(cursor string) (driver.Page[string], error) {
		return h.sweeper().Stale(h.Context(), driver.PageQuery{Cursor: cursor, Limit: 2})
	})
}

func (h *harness) awaitStale(id string) {
	h.Helper()
	testclock.Await(h.T, "the session "+id+" to be stale", func() bool { return slices.Contains(h.stale(), id) })
}

// awaitGone waits until a session has expired, only by reading it, and returns its removal.
func (h *harness) awaitGone(id string) *driver.Removed {
	h.Helper()
	var gone *driver.GoneError
	testclock.Await(h.T, id+" to expire", func() bool {
		_, err := driver.Load(h.Context(), h.st, id)
		if err != nil && !errors.As(err, &gone) {
			h.Fatalf("load of a session that expires: %v", err)
		}
		return err != nil
	})
	if gone.Removed.Reason != driver.Expired {
		h.Fatalf("removed: %+v", gone.Removed)
	}
	return &gone.Removed
}

func (h *harness) expire(id string) (*driver.Removed, error) {
	return h.sweeper().Remove(h.Context(), id, driver.Expired)
}

// wantNotExpired checks that a root does not expire, and that it is not listed as stale after it was checked.
func (h *harness) wantNotExpired(root, why string) {
	h.Helper()
	h.unchanged(root, "an expiry before its time", func() {
		_, err := h.expire(root)
		if seen := h.wantConflict(err, cairn.ErrStale, "expiry though "+why); seen.ID != root {
			h.Fatalf("the conflict saw %q", seen.ID)
		}
	})
	if slices.Contains(h.stale(), root) {
		h.Fatalf("stale again though %s", why)
	}
}

var past, future = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)

func ttlKept(h *harness) {
	for given, want := range map[time.Duration]time.Duration{
		0: 0, -time.Hour: 0, 7 * 24 * time.Hour: 7 * 24 * time.Hour, time.Hour + time.Microsecond: time.Hour + time.Microsecond, time.Hour + 1500: time.Hour + 1000,
	} {
		id := fmt.Sprint("session-", given)
		s := h.lasting(id, given, future)
		if s.TTL != cairn.Duration(want) {
			h.Fatalf("TTL %v is kept as %v, want %v", given, s.TTL, want)
		}
		s = h.step(h.begin(id, "run"), "reply")
		same(h.T, "row", h.load(id), s)
		if s.TTL != cairn.Duration(want) {
			h.Fatalf("TTL %v after a step, want %v", s.TTL, want)
		}
		branch, err := h.st.Branch(h.Context(), id, driver.BranchPoint{}, &cairn.Session{ID: id + "-branch", Agent: agentName, TTL: cairn.Duration(time.Minute)})
		h.must(err)
		if branch.TTL != cairn.Duration(time.Minute) {
			h.Fatalf("TTL %v of a branch, want that of its own", branch.TTL)
		}
		same(h.T, "row of a branch", h.load(branch.ID), branch)
	}
}

// staleRoots has sessions with every kind of expiry. Only roots are listed, from when they may have expired.
func staleRoots(h *harness) {
	h.create("never")
	h.lasting("later", time.Hour, time.Time{})
	h.lasting("later too", 0, future)
	h.lasting("brief", brief, time.Time{})
	h.awaitStale("brief")
	h.lasting("over", 0, past.Add(time.Hour))
	h.lasting("over and brief", brief, past)
	h.lasting("over and long", time.Hour, past.Add(2*time.Hour))
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "child", Agent: agentName, ParentID: "never", RootID: "never", TTL: cairn.Duration(brief), ExpiresAt: past}, nil)
	h.must(err)
	_, err = h.st.Branch(h.Context(), "never", driver.BranchPoint{}, &cairn.Session{ID: "branch", Agent: agentName, ExpiresAt: past.Add(3 * time.Hour)})
	h.must(err)
	h.commit("begun", &driver.Commit{Create: &cairn.Session{Agent: agentName, ExpiresAt: past.Add(4 * time.Hour)}, Messages: says("hello")})
	same(h.T, "stale roots, the longest ago first", h.stale(), []string{"over and brief", "over", "over and long", "branch", "begun", "brief"})
	h.wantError(h.st.Delete(h.Context(), "over"), cairn.ErrExpired, "deletion of what has expired")
	h.must(failureOf(h.expire("branch")))
	same(h.T, "stale roots", h.stale(), []string{"over and brief", "over and long", "begun", "brief"})
}

func stalePages(h *harness) {
	var want []string
	for _, id := range []string{"c", "a", "é", "d", "B"} { // same time, so ordered by id
		h.lasting(id, 0, past)
		want = append(want, id)
	}
	slices.Sort(want)
	same(h.T, "stale roots", h.stale(), want)
	page, err := h.sweeper().Stale(h.Context(), driver.PageQuery{Limit: 5})
	if err != nil || len(page.Items) != 5 || page.Next != "" {
		h.Fatalf("a page of all of them: %+v, %v", page, err)
	}
	// Trees that are removed between pages do not make the next pages skip others.
	var got []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := h.sweeper().Stale(h.Context(), driver.PageQuery{Cursor: cursor, Limit: 2})
		h.must(err)
		for i, id := range page.Items {
			if got = append(got, id); i == 1 {
				_, err := h.expire(id)
				h.must(err)
			}
		}
		cursor = page.Next
	}
	same(h.T, "stale roots, while some are removed", got, want)
	for _, cursor := range []string{"x", ".", "1.", ".1", "?.1"} {
		_, err := h.sweeper().Stale(h.Context(), driver.PageQuery{Cursor: cursor})
		h.wantError(err, cairn.ErrInvalid, "cursor "+cursor)
	}
}

// staleByContext changes when a session expires.
func staleByContext(h *harness) {
	h.create("session")
	h.lasting("other", time.Hour, time.Time{})
	set := func(id string, expires time.Time) {
		h.Helper()
		_, err := driver.SetContext(h.Context(), h.st, id, driver.ContextChange{ExpiresAt: &expires})
		h.must(err)
	}
	for _, id := range []string{"session", "other"} {
		set(id, future)
		same(h.T, "stale after its time was postponed", h.stale(), []string(nil))
		set(id, time.Time{})
		same(h.T, "stale after its time was taken back", h.stale(), []string(nil))
		h.wantNotExpired(id, "its time was taken back")
		set(id, past)
		same(h.T, "stale after its time was set", h.stale(), []string{id})
		h.awaitGone(id)
		same(h.T, "stale when it is gone", h.stale(), []string(nil))
		_, err := driver.SetContext(h.Context(), h.st, id, driver.ContextChange{ExpiresAt: &future})
		h.wantError(err, cairn.ErrExpired, "another time for a session whose time was over")
	}
}

func expired(h *harness) {
	set := func(id string, expires time.Time) {
		h.Helper()
		_, err := driver.SetContext(h.Context(), h.st, id, driver.ContextChange{ExpiresAt: &expires})
		h.must(err)
	}
	for _, root := range []string{"idle", "over", "crashed", "waits", "was due"} {
		switch root {
		case "over":
			h.lasting(root, time.Hour, past)
		default:
			h.lasting(root, time.Hour, time.Time{})
		}
		h.tree(root+"-child", root)
		switch root {
		case "crashed":
			h.commit(root, beginCommit("run", "dead worker", brief))
		case "waits":
			h.commit(root+"-child", &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1}})
		case "was due":
			h.commit(root, &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: past}})
		}
		if root != "over" {
			set(root, past)
		}
		var r *driver.Removed
		testclock.Await(h.T, root+" to expire", func() bool {
			var err error
			r, err = h.expire(root)
			if err != nil {
				h.wantConflict(err, cairn.ErrStale, "expiry of "+root)
				return false
			}
			if r.SessionID != root || r.Reason != driver.Expired {
				h.Fatalf("removed: %+v", r)
			}
			return true
		})
		h.wantGone(root, r)
		h.wantGone(root+"-child", r)
	}
	if list := h.removed(); len(list) != 5 {
		h.Fatalf("removed: %+v", list)
	}
}

func notExpired(h *harness) {
	h.create("never")
	h.wantNotExpired("never", "it never does")
	h.lasting("later", time.Hour, future)
	h.wantNotExpired("later", "its time has not come")
	_, err := h.expire("nobody")
	h.wantError(err, cairn.ErrNotFound, "expiry of no session")
}

// heldByTree has a root whose time has come, and a session of its tree that keeps it from expiring.
func heldByTree(h *harness) {
	for why, hold := range map[string]*driver.Commit{
		"one runs":  beginCommit("run", "worker", time.Hour),
		"one waits": {Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: future}},
	} {
		for _, holder := range []string{"root", "child"} {
			id := map[string]string{"root": h.newID("root"), "child": h.newID("child")}
			h.lasting(id["root"], time.Hour, time.Time{})
			h.tree(id["child"], id["root"])
			s := h.commit(id[holder], hold)
			_, err := driver.SetContext(h.Context(), h.st, id["root"], driver.ContextChange{ExpiresAt: &past})
			h.must(err)
			s = h.load(s.ID)
			for _, each := range []string{id["root"], id["child"]} {
				h.load(each) // checks for expiry, and postpones the next check
			}
			h.wantNotExpired(id["root"], why+": the "+holder)
			// After the hold, the expiry takes effect.
			h.commit(id[holder], &driver.Commit{Guard: driver.Guard{Version: s.Version}, Status: cairn.SessionCompleted,
				Suspend: &driver.Suspend{}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
			_, err = h.expire(id["root"])
			h.must(err)
		}
	}
}

// activityKeeps commits to a session of a tree shortly before its root becomes stale: the tree lives for another TTL.
func activityKeeps(h *harness) {
	for _, who := range []string{"root", "child"} {
		ttl := 200 * time.Millisecond
		for kept := false; !kept; ttl *= 2 { // a machine that is slower than the TTL proves nothing
			id := map[string]string{"root": h.newID("root"), "child": h.newID("child")}
			root := id["root"]
			s := h.lasting(root, ttl, time.Time{})
			h.tree(id["child"], root)
			testclock.Await(h.T, "half of its time to pass", func() bool { return time.Since(s.CreatedAt) > ttl/2 || len(h.stale()) > 0 })
			// A first message of the user would set the row's opening, and with it the time that Stale uses.
			active, err := h.st.Commit(h.Context(), id[who], &driver.Commit{Messages: []cairn.Message{cairn.Context("still here")}})
			if err != nil {
				h.wantError(err, cairn.ErrExpired, "activity that comes late")
				continue
			}
			h.awaitStale(root)
			_, err = h.expire(root)
			if kept = err != nil; kept {
				h.wantConflict(err, cairn.ErrStale, "expiry after activity of the "+who)
			}
			r := h.awaitGone(root)
			if idle := r.RemovedAt.Sub(active.UpdatedAt); idle < ttl {
				h.Fatalf("it expired %v after activity of the %s, its TTL is %v", idle, who, ttl)
			}
		}
	}
}

// goneAtItsTime only lets time pass: each request about an expired session is the first to detect that, and fails.
func goneAtItsTime(h *harness, hs handles) {
	for i, call := range h.storeCalls("") {
		if call.creates || slices.Contains([]string{"Remove", "Restore"}, call.name) {
			continue
		}
		for _, of := range []string{"root", "child"} {
			if of == "child" && call.name == "Call" {
				continue // calls are a root's
			}
			root := h.newID("root")
			id := map[string]string{"root": root, "child": root + "-child"}[of]
			s := h.lasting(root, time.Hour, time.Time{})
			h.tree(root+"-child", root)
			h.end(h.step(h.begin(id, "run-of-"+id), "reply"))
			soon := time.Now().Add(20 * time.Millisecond)
			_, err := driver.SetContext(h.Context(), h.st, root, driver.ContextChange{ExpiresAt: &soon})
			h.must(err)
			h.awaitStale(root)
			r := driver.Removed{SessionID: root, Reason: driver.Expired, Incarnation: s.Incarnation}
			err = h.storeCalls(id)[i].do(h.Context(), hs.of(i))
			var gone *driver.GoneError
			if errors.As(err, &gone) {
				r.Key, r.RemovedAt = gone.Removed.Key, gone.Removed.RemovedAt
			}
			h.wantRemoved(err, &r, call.name+" of a "+of+" when its time was over")
			h.wantRemoved(failureOf(driver.Load(h.Context(), h.st, root)), &r, "load of the root")
		}
	}
	// No session can be created under the id either.
	h.lasting("session", time.Hour, past)
	begin := beginCommit("run", "worker", time.Hour)
	begin.Create = &cairn.Session{ID: "session", Agent: agentName}
	_, err := hs.of(1).Commit(h.Context(), "session", begin)
	h.wantError(err, cairn.ErrExpired, "a run on a session whose time was over")
	h.create("source")
	h.lasting("another", time.Hour, past)
	_, err = hs.of(1).Branch(h.Context(), "source", driver.BranchPoint{}, &cairn.Session{ID: "another", Agent: agentName})
	h.wantError(err, cairn.ErrExpired, "a branch to a session whose time was over")
}

// expiredInLists has expired trees, and others, in every list, although no sweep has run.
func expiredInLists(h *harness) {
	over := func(root string) {
		_, err := driver.SetContext(h.Context(), h.st, root, driver.ContextChange{ExpiresAt: &past})
		h.must(err)
	}
	for i := range 5 {
		for _, root := range []string{fmt.Sprint("there-", i), fmt.Sprint("over-", i)} {
			h.lasting(root, time.Hour, future)
			h.tree(root+"-child", root)
			h.commit(root+"-child", &driver.Commit{Calls: []driver.CallWrite{asks("call-of-"+root, "step")}})
			h.commit(root, &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step"}})
		}
	}
	for i := range 5 {
		over(fmt.Sprint("over-", i))
	}
	due := h.due(100)
	if len(due) != 5 {
		h.Fatalf("due: %+v, want five", due)
	}
	for _, d := range due {
		if d.SessionID[0] == 'o' {
			h.Fatalf("due though it has expired: %+v", d)
		}
	}
	for i := range 5 {
		h.lasting(fmt.Sprint("over-too-", i), time.Hour, past)
	}
	if list := h.list(driver.SessionQuery{}); len(list) != 10 {
		h.Fatalf("%d sessions are listed, want 10", len(list))
	}
	for i := range 5 {
		over(fmt.Sprint("there-", i))
	}
	if list := h.calls(driver.CallQuery{}); len(list) != 0 {
		h.Fatalf("%d calls are listed of sessions that have expired", len(list))
	}
	if list := h.removed(); len(list) != 15 {
		h.Fatalf("%d removed trees, want 15", len(list))
	}
}

// holderContinues lets a session's expiry pass while its lease is valid: its holder does not notice.
func holderContinues(h *harness) {
	h.lasting("root", time.Hour, time.Time{})
	h.tree("child", "root")
	s := h.begin("root", "run")
	_, err := driver.SetContext(h.Context(), h.st, "root", driver.ContextChange{ExpiresAt: &past})
	h.must(err)
	for range 3 {
		s = h.step(h.load("root"), "reply")
		h.must(failureOf(h.st.Renew(h.Context(), "root", s.Lease.Token, time.Hour)))
		h.must(h.st.Stage(h.Context(), "root", s.Lease.Token, piece("step", "reply", `1`)))
		h.commit("child", &driver.Commit{Messages: says("hello")})
	}
	h.commit("child", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Messages: says("hello")})
	h.end(s)
	r, err := h.expire("root")
	h.must(err)
	h.wantGone("root", r)
	h.wantGone("child", r)
}

// looksAndCommits tries to expire a tree whose time has not come, while its sessions are committed to and the root's
// expiry changes: nothing is lost and no writer waits forever.
func looksAndCommits(h *harness, hs handles) {
	h.lasting("root", time.Hour, time.Time{})
	h.tree("child", "root")
	h.tree("other", "root")
	for n := range h.rounds(30) {
		expires := future.Add(time.Duration(n) * time.Hour)
		for i, err := range race(2*4, func(i int) error {
			switch st := hs.of(i / 4); i % 4 {
			case 0:
				_, err := driver.SetContext(h.Context(), st, "root", driver.ContextChange{ExpiresAt: &expires})
				return err
			case 1, 2:
				_, err := st.Commit(h.Context(), []string{"child", "other"}[i%4-1], &driver.Commit{Messages: says("hello")})
				return err
			default:
				_, err := st.(driver.Sweeper).Remove(h.Context(), "root", driver.Expired)
				return err
			}
		}) {
			if i%4 == 3 {
				h.wantConflict(err, cairn.ErrStale, "expiry before its time")
			} else {
				h.must(err)
			}
		}
		if root := h.load("root"); !root.ExpiresAt.Equal(expires) || root.TTL != cairn.Duration(time.Hour) {
			h.Fatalf("the root expires at %v, after %v, want %v and %v", root.ExpiresAt, root.TTL, expires, time.Hour)
		}
	}
	if list := h.stale(); len(list) > 0 {
		h.Fatalf("stale: %v", list)
	}
	for _, id := range []string{"child", "other"} {
		if got, want := h.load(id).MessageCount, 2*h.rounds(30); got != want {
			h.Fatalf("%s has %d messages, want %d", id, got, want)
		}
	}
}

// beginOrExpire lets a begin on an expired session race with its removal: the begin always fails, and there is one
// removal.
func beginOrExpire(h *harness, hs handles) {
	for n := range h.rounds(200) {
		id := fmt.Sprint("session-", n)
		h.lasting(id, 0, past)
		errs := race(2, func(i int) error {
			if i == 0 {
				_, err := hs.of(i).(driver.Sweeper).Remove(h.Context(), id, driver.Expired)
				return err
			}
			_, err := hs.of(i).Commit(h.Context(), id, beginCommit("run", "worker", time.Hour))
			return err
		})
		h.wantError(errs[1], cairn.ErrExpired, "begin of an expired session")
		if errs[0] != nil {
			h.wantError(errs[0], cairn.ErrExpired, "a second removal")
		}
	}
	if n, want := len(h.removed()), h.rounds(200); n != want {
		h.Fatalf("%d removed trees, want %d", n, want)
	}
}
