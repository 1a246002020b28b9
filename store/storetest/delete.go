package storetest

import (
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var deleteTests = []storeTest{
	{name: "Everything", run: deleteEverything},
	{name: "NotWhileRunning", run: deleteRunning},
	{name: "Crashed", run: deleteCrashed},
	{name: "OthersStay", run: deleteOthersStay},
	{name: "NoSession", run: deleteNobody},
	{name: "OneDeleterWins", run: deleteRace},
}

// deleteEverything deletes a session that has everything, and makes another one with its id: nothing comes back.
func deleteEverything(h *harness) {
	s := h.running("session")
	h.requestStop("session", abort(s.RunID, ""))
	h.end(s)
	h.must(h.st.Delete(h.Context(), "session"))
	for _, call := range h.storeCalls("session") {
		if call.creates {
			continue
		}
		h.wantError(call.do(h.Context(), h.st), cairn.ErrNotFound, call.name+" after deletion")
	}
	fresh := h.create("session")
	all := h.content("session")
	if fresh.Version != 1 || fresh.Turn != 0 || len(all.Messages)+len(all.Runs)+len(all.Checkpoints)+len(all.Staged)+len(all.Calls)+len(all.Queue)+len(all.Cache) > 0 {
		h.Fatalf("a session of a deleted one's id begins with %+v", all)
	}
	h.wantState("session", "", `{}`)
	s = h.step(h.begin("session", s.RunID), "reply")
	h.wantStop(s, nil)
	cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", s.CheckpointID)
	h.must(err)
	if cp.Number != 1 || s.Turn != 1 {
		h.Fatalf("checkpoint number %d in turn %d, want 1 and 1", cp.Number, s.Turn)
	}
}

func deleteRunning(h *harness) {
	s := h.running("session")
	h.unchanged("session", "its deletion while it runs", func() {
		seen := h.wantConflict(h.st.Delete(h.Context(), "session"), cairn.ErrAlreadyRunning, "deletion of a running session")
		same(h.T, "row the store saw", seen, s)
	})
	h.end(s)
	h.must(h.st.Delete(h.Context(), "session"))
}

func deleteCrashed(h *harness) {
	s := h.crash("session", "run")
	h.must(h.st.Delete(h.Context(), "session"))
	_, err := h.st.Commit(h.Context(), "session", h.stepCommit(s, "from beyond"))
	h.wantError(err, cairn.ErrNotFound, "a step of a deleted session")
}

func deleteOthersStay(h *harness) {
	h.end(h.running("session"))
	for _, other := range []string{"session-2", "sess", "Session", "session%", "s_ssion"} {
		h.running(other)
	}
	h.unchanged("session-2", "deletion of another", func() {
		h.unchanged("sess", "deletion of another", func() {
			h.unchanged("Session", "deletion of another", func() {
				h.must(h.st.Delete(h.Context(), "session"))
			})
		})
	})
	h.end(h.load("s_ssion"))
	h.unchanged("session-2", "deletion of another", func() { h.must(h.st.Delete(h.Context(), "s_ssion")) })
	if list := h.list(driver.SessionQuery{}); len(list) != 4 {
		h.Fatalf("%d sessions are left, want 4", len(list))
	}
}

func deleteNobody(h *harness) {
	h.wantError(h.st.Delete(h.Context(), "nobody"), cairn.ErrNotFound, "deletion of no session")
}

func deleteRace(h *harness) {
	for range h.rounds(20) {
		h.create("session")
		won := 0
		for _, err := range race(racers, func(int) error { return h.st.Delete(h.Context(), "session") }) {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, cairn.ErrNotFound):
				h.Fatal(err)
			}
		}
		if won != 1 {
			h.Fatalf("%d of %d deletions succeeded, want 1", won, racers)
		}
	}
}
