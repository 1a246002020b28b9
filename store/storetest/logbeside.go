package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Events of other writers while a run is under way: on the log with their commit, which leaves the row where the run's
// open step begins.

// wantPlace checks the position of a session's row, as it was written and as every handle reads it.
func (h *harness) wantPlace(what string, written *cairn.Session, want int64) {
	h.Helper()
	if written.LogSequence != want {
		h.Fatalf("%s left the position %d on the row, want %d", what, written.LogSequence, want)
	}
	for _, on := range h.twoHandles() {
		read := on.load(written.ID)
		same(h.T, "the row after "+what, read, asOf(written, read))
	}
}

// besides are commits of other writers than the run under way, by name.
func (h *harness) besides(s *cairn.Session) map[string]*driver.Commit {
	title := "new"
	return map[string]*driver.Commit{
		"nothing else":   {},
		"state":          {State: h.change(s, replaceOp("", `{"a":1}`))},
		"queued turn":    {Enqueue: &driver.QueuedTurn{ID: "queued", Messages: says("later")}},
		"context":        {Context: &driver.ContextChange{Title: &title}},
		"cached result":  {Cache: []driver.CacheEntry{{Key: "key", Tool: "tool", Output: []byte("1"), UsedAt: at(1), ExpiresAt: at(2)}}},
		"call":           {Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Tool: "tool", Kind: cairn.CallApproval}, StepID: "step", Status: cairn.CallOpen}}}},
		"checkpoint":     {Checkpoint: &cairn.Checkpoint{ID: "beside", RunID: s.RunID, StepID: "beside", LogSequence: s.LogSequence}},
		"message":        {Messages: says("beside")},
		"staged dropped": {DropStaged: true},
	}
}

// eventsBesideRun has other writers commit with events while a run is under way, and then the run's own step.
func eventsBesideRun(h *harness) {
	log := h.eventLog()
	for name := range h.besides(h.create("session")) {
		for i, on := range h.twoHandles() {
			id := fmt.Sprint(name, i)
			h.create(id)
			begun := h.commit(id, with(beginCommit("run-of-"+id, "worker", time.Hour), id, "started", "asked"))
			_, err := log.Append(h.Context(), begun.Log(), 2, named(id, "live")...)
			h.must(err)
			c := with(on.besides(begun)[name], id, "beside", "dated")
			c.Guard.Version, c.Events[0].Version, c.Events[1].Time = begun.Version, 1, at(7)
			beside := on.commit(id, c)
			what := "a commit beside a run: " + name
			h.wantPlace(what, beside, 2)
			list := h.wantLog(id, "started asked live beside dated")
			if list[3].Version != beside.Version || !list[3].Time.Equal(beside.UpdatedAt) || !list[4].Time.Equal(at(7)) {
				h.Fatalf("%s: its events have the version %d and the times %v and %v, want %d, %v and %v", what, list[3].Version, list[3].Time, list[4].Time,
					beside.Version, beside.UpdatedAt, at(7))
			}
			if c.Checkpoint != nil {
				cp, err := driver.FindCheckpoint(h.Context(), h.st, id, c.Checkpoint.ID)
				h.must(err)
				if cp.LogSequence != 2 {
					h.Fatalf("the checkpoint of a commit beside a run is at %d, want 2, as its writer says", cp.LogSequence)
				}
			}
			_, err = log.Append(h.Context(), begun.Log(), 5, named(id, "more")...)
			h.must(err)
			again := h.commit(id, with(&driver.Commit{}, id, "again"))
			h.wantPlace(what+", and another", again, 2)
			step := h.stepCommit(again, "reply")
			stepped := h.commit(id, with(step, id, "committed"))
			h.wantPlace("the step after "+name, stepped, 8)
			cp, err := driver.FindCheckpoint(h.Context(), h.st, id, step.Checkpoint.ID)
			h.must(err)
			if cp.LogSequence != 8 {
				h.Fatalf("the checkpoint of the step is at %d, want 8", cp.LogSequence)
			}
			h.wantLog(id, "started asked live beside dated more again committed")
		}
	}
}

// eventsOfRun has each commit of the run itself, and each that ends it or takes it over, move the row to the end of the
// log, behind what others have added.
func eventsOfRun(h *harness) {
	for name, next := range map[string]func(*cairn.Session) *driver.Commit{
		"renewal": func(s *cairn.Session) *driver.Commit {
			return &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token}, Lease: driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour}}
		},
		"token": func(s *cairn.Session) *driver.Commit {
			return &driver.Commit{Guard: driver.Guard{Token: s.Lease.Token}}
		},
		"takeover": func(*cairn.Session) *driver.Commit {
			return &driver.Commit{Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "next", TTL: time.Hour}}
		},
		"release": func(*cairn.Session) *driver.Commit {
			return &driver.Commit{Lease: driver.LeaseChange{Action: driver.LeaseRelease}}
		},
		"end": func(*cairn.Session) *driver.Commit { return &driver.Commit{Status: cairn.SessionFailed} },
		"next run": func(*cairn.Session) *driver.Commit {
			return &driver.Commit{StartRun: &cairn.Run{ID: h.newID("next"), Agent: agentName, Status: cairn.RunRunning}}
		},
	} {
		for i, on := range h.twoHandles() {
			id := fmt.Sprint(name, i)
			h.create(id)
			h.commit(id, with(beginCommit("run-of-"+id, "worker", time.Hour), id, "started"))
			beside := h.commit(id, with(&driver.Commit{}, id, "beside"))
			h.wantPlace("a commit beside the run", beside, 1)
			c := with(next(beside), id, "one", "two")
			h.wantPlace("a commit of the run: "+name, on.commit(id, c), 4)
			h.wantLog(id, "started beside one two")
			if c.StartRun != nil {
				run, err := driver.FindRun(h.Context(), h.st, id, c.StartRun.ID)
				h.must(err)
				if run.StartSequence != 2 {
					h.Fatalf("the next run begins at %d, want 2", run.StartSequence)
				}
			}
		}
	}
}

// eventsBesideFollowed has followers, of the handle that writes and of another one, see the events of commits beside a
// run at once.
func eventsBesideFollowed(h *harness) {
	two := h.twoHandles()
	h.create("session")
	s := h.commit("session", with(beginCommit("run", "worker", time.Hour), "session", "started"))
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	next := make([]chan cairn.Event, len(two))
	for i, on := range two {
		next[i] = make(chan cairn.Event, 100)
		log := on.eventLog()
		go func() {
			for ev, err := range log.Follow(ctx, s.Log(), 0) {
				if err != nil {
					return
				}
				next[i] <- ev
			}
		}()
	}
	seen := func(want string) {
		h.Helper()
		for i := range next {
			select {
			case ev := <-next[i]:
				if ev.Name != want {
					h.Fatalf("follower %d saw %q, want %q", i, ev.Name, want)
				}
			case <-ctx.Done():
				h.Fatalf("follower %d did not see %q", i, want)
			}
		}
	}
	seen("started")
	for k := range 3 {
		one, two := fmt.Sprint("one", k), fmt.Sprint("two", k)
		beside := h.commit("session", with(&driver.Commit{}, "session", one))
		seen(one)
		h.commit("session", with(h.stepCommit(beside, "reply"), "session", two))
		seen(two)
	}
}
