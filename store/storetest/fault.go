package storetest

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var faultTests = []storeTest{
	{name: "Commit", run: faultyCommit, needs: needsFault},
	{name: "Creation", run: faultyCreation, needs: needsFault},
	{name: "CommitWithCalls", run: faultyCalls, needs: needsFault},
	{name: "Rewind", run: faultyRewind, needs: needsFault},
	{name: "RewindRun", run: faultyRewindRun, needs: needsFault},
	{name: "Stage", run: faultyStage, needs: needsFault},
	{name: "Branch", run: faultyBranch, needs: needsFault},
	{name: "Prune", run: faultyPrune, needs: needsFault},
	{name: "Delete", run: faultyDelete, needs: needsFault},
}

// mostWrites bounds the internal writes of one call, so that a Fault that always fires is detected.
const mostWrites = 1000

// eachFault prepares a session and calls write with the first internal write failing, then another session with the
// second failing, and so on until none fails. A call that fails must change nothing and return ErrUnavailable; the same
// call must then succeed.
func (h *harness) eachFault(what string, prepare func(id string), write func(id string) error) {
	h.Helper()
	for n := 1; n <= mostWrites; n++ {
		id := h.newID("session")
		prepare(id)
		before := h.content(id)
		disarm := h.opts.Fault(h.T, h.st, n)
		err := write(id)
		failed := disarm()
		if err != nil {
			h.wantError(err, cairn.ErrUnavailable, what)
			same(h.T, what+" that failed", h.content(id), before)
			h.must(write(id))
		}
		if !failed {
			if n == 1 {
				h.Fatalf("%s: no internal write was made to fail", what)
			}
			return
		}
		if plain(h.T, h.content(id)) == plain(h.T, before) {
			h.Fatalf("%s succeeded, but nothing changed", what)
		}
	}
	h.Fatalf("%s: still failing at internal write %d", what, mostWrites)
}

func faultyCommit(h *harness) {
	h.eachFault("commit", func(id string) { h.running(id) }, func(id string) error {
		s := h.load(id)
		c := h.stepCommit(s, "reply")
		c.Messages = append(c.Messages, says("more", "and more")...)
		c.State = h.change(s, appendOp("/list", "1"))
		c.EndRun = endCommit(s).EndRun
		c.StartRun = &cairn.Run{ID: h.newID("next run"), Agent: agentName, Status: cairn.RunRunning}
		c.DropStaged = true
		_, err := h.st.Commit(h.Context(), id, c)
		return err
	})
}

func faultyCreation(h *harness) {
	h.eachFault("creation", func(string) {}, func(id string) error {
		_, err := h.st.Commit(h.Context(), id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agentName, Tags: []string{"t"}},
			InitialState: []byte(`{"n":1}`), Messages: says("hello"), StartRun: &cairn.Run{ID: "run", Status: cairn.RunRunning}})
		return err
	})
}

// faultyCalls suspends a session with all kinds of pending work: calls that are new, changed and closed, a turn that
// joins the queue and one that leaves it, results that are cached and dropped.
func faultyCalls(h *harness) {
	h.eachFault("commit with calls", func(id string) {
		h.running(id)
		h.write(id, asks("open-of-"+id, "step", "ann"))
	}, func(id string) error {
		changed := driver.CallWrite{Call: *h.call(id, "open-of-"+id), Seen: 1}
		changed.Call.Reviewers = []string{"bob", "eve"}
		c := h.stepCommit(h.load(id), "reply")
		c.Status, c.Lease.Action = cairn.SessionPaused, driver.LeaseRelease
		c.Suspend = &driver.Suspend{StepID: "step", OpenCalls: 2, NextDeadline: at(1)}
		c.Calls = []driver.CallWrite{asks("new-of-"+id, "step", "ann", "bob"), changed, answers(h.call(id, "call-of-"+id), "ann")}
		c.Enqueue, c.Dequeue = &driver.QueuedTurn{ID: "next turn"}, []string{"turn-of-" + id}
		c.Cache, c.CacheDrop = []driver.CacheEntry{cached("new", `1`)}, []string{"key"}
		_, err := h.st.Commit(h.Context(), id, c)
		return err
	})
}

func faultyRewindRun(h *harness) {
	h.eachFault("rewind of a run", func(id string) {
		h.create(id)
		h.tries(id, "run-1-of-"+id)
		h.tries(id, "run-2-of-"+id)
	}, func(id string) error {
		c := beginCommit("run-3-of-"+id, "worker", time.Hour)
		c.RewindRun = "run-2-of-" + id
		_, err := h.st.Commit(h.Context(), id, c)
		return err
	})
}

func faultyRewind(h *harness) {
	h.eachFault("rewind", func(id string) { h.threeSteps(id) }, func(id string) error {
		_, err := driver.Rewind(h.Context(), h.st, id, h.checkpointIDs(id)[0])
		return err
	})
}

func faultyStage(h *harness) {
	h.eachFault("staging", func(id string) { h.running(id) }, func(id string) error {
		return h.st.Stage(h.Context(), id, h.load(id).Lease.Token, piece("step", "a", `1`), piece("step", "b", `2`))
	})
}

func faultyBranch(h *harness) {
	h.threeSteps("source")
	h.eachFault("branch", func(string) {}, func(id string) error {
		_, err := h.st.Branch(h.Context(), "source", driver.BranchPoint{}, &cairn.Session{ID: id, Agent: agentName})
		return err
	})
}

func faultyPrune(h *harness) {
	h.eachFault("prune", func(id string) { h.threeSteps(id) }, func(id string) error {
		_, err := h.st.Prune(h.Context(), id, 1)
		return err
	})
}

func faultyDelete(h *harness) {
	h.eachFault("deletion", func(id string) { h.end(h.running(id)) }, func(id string) error {
		return h.st.Delete(h.Context(), id)
	})
}
