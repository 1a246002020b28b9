package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var removalTests = []storeTest{
	{name: "HidesTheTree", run: removeHides},
	{name: "KeepsTheIDs", run: removeReserves},
	{name: "PurgeFreesTheIDs", run: purgeFrees},
	{name: "EarlierLifeIsFenced", run: oneHandle(removeFences)},
	{name: "TwoHandles/EarlierLifeIsFenced", run: twoHandles(removeFences), needs: needsSecond},
	{name: "NotWhileOneRuns", run: removeRunning},
	{name: "Crashed", run: removeCrashed},
	{name: "OnlyRoots", run: removeChild},
	{name: "OthersStay", run: removeOthersStay},
	{name: "Nobody", run: removeNobody},
	{name: "CallsAreGone", run: removeCalls},
	{name: "NothingIsDue", run: removeDue},
	{name: "LogStays", run: removeLog, needs: bringsLog},
	{name: "OneRemoverWins", run: oneHandle(removeRace)},
	{name: "RemoveOrBegin", run: oneHandle(removeOrBegin)},
	{name: "TwoHandles/OneRemoverWins", run: twoHandles(removeRace), needs: needsSecond},
	{name: "TwoHandles/RemoveOrBegin", run: twoHandles(removeOrBegin), needs: needsSecond},
	{name: "Fault", run: faultyRemoval, needs: needsFault},
}

func bringsLog(o *Options) bool { return o.bringsLog }

func (h *harness) remove(id string) *driver.Removed {
	h.Helper()
	removed, err := h.sweeper().Remove(h.Context(), id, driver.Deleted)
	if err != nil {
		h.Fatalf("remove %q: %v", id, err)
	}
	return removed
}

// family makes a root with two children and a grandchild, each with everything that a session has. None of them runs.
func (h *harness) family(root string) (ids []string) {
	h.Helper()
	h.end(h.running(root))
	ids = []string{root, root + "-child", root + "-other", root + "-grandchild"}
	for i, id := range ids[1:] {
		parent := root
		if i == 2 {
			parent = ids[1]
		}
		_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName, ParentID: parent, RootID: root}, nil)
		h.must(err)
		s := h.step(h.begin(id, "run-of-"+id), "reply")
		h.must(h.st.Stage(h.Context(), id, s.Lease.Token, piece("next", "reply", `1`)))
		h.end(h.commit(id, withWait(&driver.Commit{}, id)))
	}
	return ids
}

// purge purges a removed tree.
func (h *harness) purge(r *driver.Removed) {
	h.Helper()
	_, err := h.sweeper().Purge(h.Context(), r.Key)
	h.must(err)
}

// wantRemoved checks that an error reports a session as gone, with its removal.
func (h *harness) wantRemoved(err error, r *driver.Removed, what string) {
	h.Helper()
	h.wantError(err, map[driver.Removal]cairn.Code{driver.Deleted: cairn.ErrDeleted, driver.Expired: cairn.ErrExpired}[r.Reason], what)
	h.wantError(err, cairn.ErrNotFound, what)
	var gone *driver.GoneError
	if !errors.As(err, &gone) {
		h.Fatalf("%s: error %q is not a *store.GoneError", what, err)
	}
	same(h.T, what+": its removal", gone.Removed, *r)
}

// wantGone checks that every method reports a session as gone, that no list has it, and that no session can be created
// under its id.
func (h *harness) wantGone(id string, r *driver.Removed) {
	h.Helper()
	for _, call := range h.storeCalls(id) {
		switch {
		case call.creates, call.name == "Restore":
		case call.name == "Call":
			h.wantError(call.do(h.Context(), h.st), cairn.ErrNotFound, "a call of the removed session "+id)
		default:
			h.wantRemoved(call.do(h.Context(), h.st), r, call.name+" of the removed session "+id)
		}
	}
	begin := beginCommit(h.newID("run"), "worker", time.Hour)
	begin.Create = &cairn.Session{ID: id, Agent: agentName}
	h.wantRemoved(failureOf(h.st.Commit(h.Context(), id, begin)), r, "a run on the removed session "+id)
	for _, guard := range []driver.Guard{{}, {New: true}, {Idle: true}, {Version: 1}, {Token: 1}, {Lapsed: true}} {
		c := &driver.Commit{Guard: guard, Create: &cairn.Session{ID: id, Agent: agentName}, Messages: says("again")}
		h.wantRemoved(failureOf(h.st.Commit(h.Context(), id, c)), r, fmt.Sprintf("a commit with guard %+v that creates the removed session %s", guard, id))
	}
	source := h.newID("source")
	h.create(source)
	_, err := h.st.Branch(h.Context(), source, driver.BranchPoint{}, &cairn.Session{ID: id, Agent: agentName})
	h.wantRemoved(err, r, "a branch to the removed session "+id)
	h.must(h.st.Delete(h.Context(), source))
	for _, q := range []driver.SessionQuery{{}, {RootID: id}, {ParentID: id}, {Agent: agentName}, {RootsOnly: true}} {
		for _, s := range h.list(q) {
			if s.ID == id || s.ParentID == id || s.RootID == id {
				h.Fatalf("removed session %q, or one of its tree, is in the list of %+v: %+v", id, q, s)
			}
		}
	}
}

func removeHides(h *harness) {
	ids := h.family("root")
	r := h.remove("root")
	for _, id := range ids {
		h.wantGone(id, r)
	}
}

// removeReserves checks that refused writes under the ids of a removed tree leave nothing.
func removeReserves(h *harness) {
	ids := h.family("root")
	r := h.remove("root")
	same(h.T, "removed trees", h.removed(), []driver.Removed{*r})
	for _, id := range ids {
		h.wantGone(id, r)
		h.wantGone(id, r)
	}
	same(h.T, "removed trees", h.removed(), []driver.Removed{*r})
	h.purge(r)
	for _, id := range ids {
		for _, call := range h.storeCalls(id) {
			if !call.creates {
				err := call.do(h.Context(), h.st)
				h.wantError(err, cairn.ErrNotFound, call.name+" of the purged session "+id)
				if driver.IsGone(err) {
					h.Fatalf("%s of the purged session %s: %v", call.name, id, err)
				}
			}
		}
	}
}

// purgeFrees makes new sessions with the ids of a purged tree: nothing comes back, not even with the same runs, steps
// and calls.
func purgeFrees(h *harness) {
	ids := h.family("root")
	old := h.load("root")
	h.purge(h.remove("root"))
	for i, id := range ids {
		fresh := h.create(id)
		if i == 0 && (fresh.Incarnation == "" || fresh.Log() == old.Log()) {
			h.Fatalf("the log of a new session of the id of an earlier one is %q, that of the earlier one %q", fresh.Log(), old.Log())
		}
		all := h.content(id)
		if fresh.Version != 1 || fresh.Turn != 0 || len(all.Messages)+len(all.Runs)+len(all.Checkpoints)+len(all.Staged)+len(all.Calls)+len(all.Queue)+len(all.Cache) > 0 {
			h.Fatalf("a session of a removed one's id begins with %+v", all)
		}
		h.wantState(id, "", `{}`)
		h.step(h.begin(id, "run-of-"+id), "reply")
		h.commit(id, withWait(&driver.Commit{}, id))
		if call := h.call(id, "call-of-"+id); call.Version != 1 {
			h.Fatalf("the new call has version %d", call.Version)
		}
	}
}

// removeFences gives a new session the version, the run and as many holders as an earlier one with its id had, which
// was removed and purged: the holder of the earlier session can do nothing to the new one.
func removeFences(h *harness, hs handles) {
	old := h.on(hs.of(1))
	live := func(h *harness) *cairn.Session {
		h.create("session")
		return h.step(h.begin("session", "run"), "reply")
	}
	dead := live(old)
	h.commit("session", &driver.Commit{Status: cairn.SessionCompleted, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	h.purge(h.remove("session"))
	s := live(h)
	if s.Turn != dead.Turn || s.Step != dead.Step {
		h.Fatalf("the lives differ: %+v, %+v", s, dead)
	}
	old.fencedOff(dead)
	h.must(failureOf(h.st.Renew(h.Context(), "session", s.Lease.Token, time.Hour)))
	s = h.step(h.load("session"), "another reply")
	old.fencedOff(dead)
	h.end(s)
	old.fencedOff(dead)
	c := beginCommit("another run", "worker", time.Hour)
	c.Guard.Token, c.Guard.Version = dead.Lease.Token, h.load("session").Version
	_, err := old.st.Commit(h.Context(), "session", c)
	h.wantConflict(err, cairn.ErrFenced, "begin on the session that was there before")
}

// fencedOff checks that the holder of an earlier session with an id can neither commit nor stage nor renew.
func (h *harness) fencedOff(dead *cairn.Session) {
	h.Helper()
	h.unchanged(dead.ID, "what the holder of an earlier session of its id did", func() {
		_, err := h.st.Commit(h.Context(), dead.ID, h.stepCommit(dead, "from beyond"))
		h.wantConflict(err, cairn.ErrFenced, "a step of an earlier session")
		c := h.stepCommit(dead, "from beyond")
		c.Guard.Version = h.load(dead.ID).Version
		_, err = h.st.Commit(h.Context(), dead.ID, c)
		h.wantConflict(err, cairn.ErrFenced, "a step of an earlier session at the version of this one")
		h.wantConflict(h.st.Stage(h.Context(), dead.ID, dead.Lease.Token, piece("step", "reply", `1`)), cairn.ErrFenced, "staging for an earlier session")
		_, err = h.st.Renew(h.Context(), dead.ID, dead.Lease.Token, time.Hour)
		h.wantConflict(err, cairn.ErrFenced, "heartbeat of an earlier session")
	})
}

func removeRunning(h *harness) {
	ids := h.family("root")
	for _, id := range ids {
		s := h.begin(id, h.newID("run"))
		for _, each := range ids {
			h.unchanged(each, "the removal of its tree while "+id+" runs", func() {
				_, err := h.sweeper().Remove(h.Context(), "root", driver.Deleted)
				same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrAlreadyRunning, "removal while "+id+" runs"), s)
			})
		}
		h.end(s)
	}
	if list := h.removed(); len(list) > 0 {
		h.Fatalf("removed: %+v", list)
	}
	h.remove("root")
}

func removeCrashed(h *harness) {
	s := h.crash("session", "run")
	h.remove("session")
	_, err := h.st.Commit(h.Context(), "session", h.stepCommit(s, "from beyond"))
	h.wantError(err, cairn.ErrNotFound, "a step of a removed session")
	_, err = h.st.Renew(h.Context(), "session", s.Lease.Token, time.Hour)
	h.wantError(err, cairn.ErrNotFound, "heartbeat of a removed session")
}

func removeChild(h *harness) {
	for _, id := range h.family("root")[1:] {
		h.unchanged(id, "its removal without its root", func() {
			for _, why := range []driver.Removal{driver.Deleted, driver.Expired} {
				_, err := h.sweeper().Remove(h.Context(), id, why)
				h.wantError(err, cairn.ErrInvalid, "removal of a session that is not a root")
			}
		})
	}
}

func removeOthersStay(h *harness) {
	h.family("root")
	others := []string{"root-2", "roo", "Root", "root%", "r__t"}
	for _, other := range others {
		h.running(other)
		h.tree(other+"-child", other)
		h.write(other+"-child", asks("call", "step", "ann"))
	}
	before := map[string]string{}
	for _, other := range others {
		before[other], before[other+"-child"] = plain(h.T, h.content(other)), plain(h.T, h.content(other+"-child"))
	}
	h.remove("root")
	h.end(h.load("r__t"))
	h.remove("r__t")
	delete(before, "r__t")
	delete(before, "r__t-child")
	for id, want := range before {
		if got := plain(h.T, h.content(id)); got != want {
			h.Fatalf("the removal of another tree changed %q:\n%s", id, firstDifference(got, want))
		}
	}
	if list := h.list(driver.SessionQuery{}); len(list) != len(before) {
		h.Fatalf("%d sessions are left, want %d", len(list), len(before))
	}
}

func removeNobody(h *harness) {
	h.create("session")
	for _, why := range []driver.Removal{driver.Deleted, driver.Expired} {
		_, err := h.sweeper().Remove(h.Context(), "nobody", why)
		h.wantError(err, cairn.ErrNotFound, "removal of no session")
	}
	h.unchanged("session", "a removal for no reason", func() {
		_, err := h.sweeper().Remove(h.Context(), "session", "no reason")
		h.wantError(err, cairn.ErrInvalid, "removal for no reason")
	})
	r := h.remove("session")
	for _, why := range []driver.Removal{driver.Deleted, driver.Expired} {
		_, err := h.sweeper().Remove(h.Context(), "session", why)
		h.wantRemoved(err, r, "a second removal")
	}
}

// removeCalls looks for the calls of a removed tree in every list that had them.
func removeCalls(h *harness) {
	for _, root := range []string{"gone", "there"} {
		h.create(root)
		h.tree(root+"-child", root)
		claimed := asks("claimed-in-"+root, "step", "ann", "bob")
		claimed.Call.ClaimedBy, claimed.Call.ClaimedUntil, claimed.Call.Deadline = "ann", at(1), at(2)
		h.write(root, asks("free-in-"+root, "step"), asks("answered-in-"+root, "step"))
		h.write(root, answers(h.call(root, "answered-in-"+root), "ann"))
		h.write(root+"-child", claimed)
	}
	h.remove("gone")
	open := []cairn.CallStatus{cairn.CallOpen}
	for _, test := range []struct {
		q    driver.CallQuery
		want string
	}{
		{driver.CallQuery{}, "answered-in-there claimed-in-there free-in-there"},
		{driver.CallQuery{Statuses: open}, "claimed-in-there free-in-there"},
		{driver.CallQuery{Agent: agentName, Statuses: open}, "claimed-in-there free-in-there"},
		{driver.CallQuery{Tool: "refund", Statuses: open}, "claimed-in-there free-in-there"},
		{driver.CallQuery{Reviewer: "ann", Statuses: open}, "claimed-in-there free-in-there"},
		{driver.CallQuery{Reviewer: "bob"}, "answered-in-there claimed-in-there free-in-there"},
		{driver.CallQuery{Claimed: "ann"}, "claimed-in-there"},
		{driver.CallQuery{DueBefore: at(3)}, "claimed-in-there"},
		{driver.CallQuery{UserID: "user of gone-child"}, ""},
		{driver.CallQuery{RootID: "gone"}, ""},
		{driver.CallQuery{SessionID: "gone-child"}, ""},
	} {
		got := strings.Fields(callIDs(h.calls(test.q)))
		slices.Sort(got)
		if strings.Join(got, " ") != test.want {
			h.Fatalf("calls of %+v: %q, want %q", test.q, got, test.want)
		}
	}
	for _, id := range []string{"free-in-gone", "answered-in-gone", "claimed-in-gone"} {
		_, err := driver.FindCall(h.Context(), h.st, "gone", id)
		h.wantError(err, cairn.ErrNotFound, "call of a removed tree")
	}
}

// removeDue removes trees that are due for every reason, in the root and in a child.
func removeDue(h *harness) {
	past := time.Now().Add(-time.Hour)
	due := func(id string) {
		h.crash(id+"-crashed", "run")
		h.park(id+"-ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
		h.park(id+"-deadline", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: past})
		h.park(id+"-queued", cairn.SessionCompleted, driver.Suspend{}, "turn")
	}
	due("gone")
	due("there")
	want := len(h.due(100)) / 2
	for _, kind := range []string{"crashed", "ready", "deadline", "queued"} {
		h.remove("gone-" + kind)
	}
	h.create("parent")
	h.tree("ready-child", "parent")
	h.commit("ready-child", &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step"}})
	h.remove("parent")
	list := h.due(100)
	for _, d := range list {
		if d.RootID == "parent" || d.SessionID[:4] == "gone" {
			h.Fatalf("due though it is removed: %+v", d)
		}
	}
	if len(list) != want || want != 4 {
		h.Fatalf("due: %+v, want %d", list, want)
	}
}

// removeLog removes, restores and removes a tree: its log and the log's fencing tokens stay throughout.
func removeLog(h *harness) {
	h.create("session")
	h.tree("child", "session")
	log, name := h.st.(driver.LogProvider).EventLog(), h.log("session")
	fenced := func(session string, token int64) (int64, error) {
		if f, ok := log.(driver.Fencer); ok {
			return f.AppendFenced(h.Context(), name, driver.AnySequence, holds(session, token), say("event"))
		}
		return log.Append(h.Context(), name, driver.AnySequence, say("event"))
	}
	for _, session := range []string{"session", "child"} {
		_, err := fenced(session, 7)
		h.must(err)
	}
	want := func(last int64, when string) {
		h.Helper()
		if first, end, err := log.Bounds(h.Context(), name); err != nil || first != 1 || end != last {
			h.Fatalf("%s: the log goes from %d to %d, %v, want 1 to %d", when, first, end, err, last)
		}
	}
	h.remove("session")
	want(2, "after the removal")
	_, err := h.sweeper().Restore(h.Context(), "session")
	h.must(err)
	want(2, "after the restoration")
	if _, ok := log.(driver.Fencer); ok {
		_, err := fenced("child", 6)
		h.wantError(err, cairn.ErrFenced, "an event of an earlier holder")
	}
	_, err = fenced("child", 7)
	h.must(err)
	want(3, "after another event")
	h.purge(h.remove("session"))
	h.must(log.Drop(h.Context(), name))
	_, err = fenced("session", 8)
	h.wantError(err, cairn.ErrDeleted, "an event of a session that was purged")
}

func removeRace(h *harness, hs handles) {
	for n := range h.rounds(50) {
		root := fmt.Sprint("session-", n)
		h.create(root)
		h.tree(fmt.Sprint("child-", n), root)
		won := 0
		for _, err := range race(racers, func(i int) error {
			_, err := hs.of(i).(driver.Sweeper).Remove(h.Context(), root, driver.Deleted)
			return err
		}) {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, cairn.ErrDeleted):
				h.Fatal(err)
			}
		}
		if won != 1 {
			h.Fatalf("%d of %d removals succeeded, want 1", won, racers)
		}
	}
	if n, want := len(h.removed()), h.rounds(50); n != want {
		h.Fatalf("%d removed trees, want %d", n, want)
	}
}

// removeOrBegin lets a child begin a run while its root is removed: one of the two succeeds.
func removeOrBegin(h *harness, hs handles) {
	for n := range h.rounds(200) {
		root, child := fmt.Sprint("root-", n), fmt.Sprint("child-", n)
		h.create(root)
		h.tree(child, root)
		errs := race(2, func(i int) error {
			if i == 0 {
				_, err := hs.of(i).(driver.Sweeper).Remove(h.Context(), root, driver.Deleted)
				return err
			}
			_, err := hs.of(i).Commit(h.Context(), child, beginCommit("run", "worker", time.Hour))
			return err
		})
		switch {
		case errs[0] == nil:
			h.wantError(errs[1], cairn.ErrNotFound, "begin of a removed session")
			h.wantError(failureOf(driver.Load(h.Context(), h.st, child)), cairn.ErrNotFound, "load of a removed session")
		default:
			h.wantConflict(errs[0], cairn.ErrAlreadyRunning, "removal of a running session")
			h.must(errs[1])
			h.step(h.load(child), "reply")
		}
	}
}

func failureOf(_ any, err error) error { return err }

func faultyRemoval(h *harness) {
	h.eachFault("removal", func(id string) { h.family(id) }, func(id string) error {
		_, err := h.sweeper().Remove(h.Context(), id, driver.Deleted)
		return err
	})
}
