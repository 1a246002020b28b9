package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var restoreTests = []storeTest{
	{name: "BringsTheTreeBack", run: restore},
	{name: "NothingIsDoneTwice", run: restoreContinues},
	{name: "Due", run: restoreDue},
	{name: "Expired", run: restoreExpired},
	{name: "Errors", run: restoreErrors},
	{name: "OneRestorerWins", run: oneHandle(restoreRace)},
	{name: "TwoHandles/OneRestorerWins", run: twoHandles(restoreRace), needs: needsSecond},
	{name: "Fault", run: faultyRestore, needs: needsFault},
}

func (h *harness) restore(root string) *cairn.Session {
	h.Helper()
	s, err := h.sweeper().Restore(h.Context(), root)
	if err != nil {
		h.Fatalf("restore %q: %v", root, err)
	}
	return s
}

// restore removes and restores a tree twice: everything is back unchanged, in every list.
func restore(h *harness) {
	ids := h.family("root")
	for range 2 {
		before := map[string]*content{}
		for _, id := range ids {
			before[id] = h.content(id)
		}
		h.remove("root")
		row := h.restore("root")
		want := *before["root"].Session
		h.grew(row, before["root"].Session)
		want.Version, want.UpdatedAt = row.Version, row.UpdatedAt
		if row.UpdatedAt.Before(before["root"].Session.UpdatedAt) {
			h.Fatalf("the restored root was updated at %v, before its removal at %v", row.UpdatedAt, want.UpdatedAt)
		}
		same(h.T, "row of the restored root", row, &want)
		before["root"].Session = &want
		for _, id := range ids {
			same(h.T, "content of restored "+id, h.content(id), before[id])
		}
		if list := h.removed(); len(list) > 0 {
			h.Fatalf("removed: %+v", list)
		}
		for _, q := range []driver.SessionQuery{{}, {RootID: "root"}, {Agent: agentName}} {
			if n := len(h.list(q)); n != len(ids) {
				h.Fatalf("%d restored sessions are in the list of %+v, want %d", n, q, len(ids))
			}
		}
		if n := len(h.calls(driver.CallQuery{RootID: "root"})); n != len(ids) {
			h.Fatalf("%d restored calls are listed, want %d", n, len(ids))
		}
	}
}

// restoreContinues continues a restored session: it has its runs and steps, and its tokens and numbers go up from where
// they were.
func restoreContinues(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	c := h.stepCommit(s, "reply")
	h.commit("session", c)
	asked := asks("asked", "step", "ann")
	h.write("session", asked)
	s = h.end(h.load("session"))
	h.remove("session")
	h.restore("session")
	again := h.commit("session", &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token}, Checkpoint: c.Checkpoint, Messages: c.Messages})
	same(h.T, "row after a step that was committed before", again, h.load("session"))
	h.write("session", answers(h.call("session", "asked"), "ann"))
	next := h.step(h.begin("session", "next run"), "next reply")
	if next.Turn != 2 || next.Lease.Token <= s.Lease.Token || len(h.checkpoints("session")) != 2 || h.checkpoints("session")[1].Number != 2 {
		h.Fatalf("row after another step is %+v", next)
	}
	same(h.T, "messages", h.texts("session"), []string{"question of run", "reply", "question of next run", "next reply"})
}

// restoreDue restores trees that are due for every reason, and a stop request.
func restoreDue(h *harness) {
	past := time.Now().Add(-time.Hour)
	h.crash("crashed", "run")
	h.park("ready", cairn.SessionPaused, driver.Suspend{StepID: "step"})
	h.park("deadline", cairn.SessionPaused, driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: past})
	h.park("queued", cairn.SessionCompleted, driver.Suspend{}, "turn")
	h.requestStop("crashed", abort("run", "enough"))
	want := h.due(10)
	for _, d := range want {
		h.remove(d.SessionID)
	}
	if list := h.due(10); len(list) > 0 {
		h.Fatalf("due though it is removed: %+v", list)
	}
	for _, d := range want {
		h.restore(d.SessionID)
	}
	got := map[string]driver.DueKind{}
	for _, d := range h.due(10) {
		got[d.SessionID] = d.Kind
	}
	for _, d := range want {
		if got[d.SessionID] != d.Kind {
			h.Fatalf("%s is due as %q when it is restored, was as %q", d.SessionID, got[d.SessionID], d.Kind)
		}
	}
	h.wantStop(h.load("crashed"), &cairn.Stop{RunID: "run", Kind: cairn.StopAbort, Reason: "enough"})
	h.commit("crashed", takeoverCommit(h.load("crashed"), "worker"))
}

// restoreExpired restores expired trees: they live for another TTL, and an expiry time in the past is cleared.
func restoreExpired(h *harness) {
	for _, id := range []string{"idle", "over"} {
		if id == "idle" {
			h.lasting(id, 100*time.Millisecond, time.Time{})
		} else {
			h.lasting(id, time.Hour, past)
		}
		h.awaitGone(id)
		row := h.restore(id)
		if !row.ExpiresAt.IsZero() {
			h.Fatalf("%s is restored and expires at %v", id, row.ExpiresAt)
		}
		if id == "over" {
			same(h.T, "row", h.load(id), row)
			continue
		}
		r := h.awaitGone(id)
		if idle := r.RemovedAt.Sub(row.UpdatedAt); cairn.Duration(idle) < row.TTL {
			h.Fatalf("it expired %v after it was restored, its TTL is %v", idle, row.TTL)
		}
	}
}

func restoreErrors(h *harness) {
	ids := h.family("root")
	h.unchanged("root", "a restoration of what is there", func() {
		h.wantConflict(failureOf(h.sweeper().Restore(h.Context(), "root")), cairn.ErrExists, "restoration of what is there")
	})
	h.wantError(failureOf(h.sweeper().Restore(h.Context(), ids[1])), cairn.ErrInvalid, "restoration of a child that is there")
	h.wantError(failureOf(h.sweeper().Restore(h.Context(), "nobody")), cairn.ErrNotFound, "restoration of no session")
	r := h.remove("root")
	h.wantError(failureOf(h.sweeper().Restore(h.Context(), ids[1])), cairn.ErrInvalid, "restoration of a child")
	h.wantGone("root", r)
	h.purge(r)
	h.wantError(failureOf(h.sweeper().Restore(h.Context(), "root")), cairn.ErrNotFound, "restoration of what was purged")
}

func restoreRace(h *harness, hs handles) {
	for n := range h.rounds(50) {
		root := fmt.Sprint("root-", n)
		h.create(root)
		h.tree(fmt.Sprint("child-", n), root)
		h.remove(root)
		won := 0
		for _, err := range race(racers, func(i int) error {
			return failureOf(hs.of(i).(driver.Sweeper).Restore(h.Context(), root))
		}) {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, cairn.ErrExists):
				h.Fatal(err)
			}
		}
		if won != 1 {
			h.Fatalf("%d of %d restorations succeeded, want 1", won, racers)
		}
		h.step(h.begin(root, "run"), "reply")
	}
}

// faultyRestore lets each internal write of a restoration fail: the tree is either still removed or restored.
func faultyRestore(h *harness) {
	for n := 1; n <= mostWrites; n++ {
		id := h.newID("session")
		h.family(id)
		before := h.load(id)
		r := h.remove(id)
		disarm := h.opts.Fault(h.T, h.st, n)
		_, err := h.sweeper().Restore(h.Context(), id)
		failed := disarm()
		if err != nil {
			h.wantError(err, cairn.ErrUnavailable, "restoration")
			if _, err := driver.Load(h.Context(), h.st, id); err != nil {
				h.wantRemoved(err, r, "load after a restoration that failed")
				h.restore(id)
			}
		}
		h.grew(h.load(id), before)
		if !failed {
			if n == 1 {
				h.Fatal("no internal write of a restoration was made to fail")
			}
			return
		}
	}
	h.Fatalf("restoration: still failing at internal write %d", mostWrites)
}
