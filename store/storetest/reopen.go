package storetest

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

var reopenTests = []storeTest{
	{name: "EverythingIsThere", run: reopenKeepsAll, needs: needsReopen},
	{name: "SessionsGoOn", run: reopenContinues, needs: needsReopen},
	{name: "SecondHandleSeesEverything", run: secondSeesAll, needs: needsSecond},
}

func reopenKeepsAll(h *harness) {
	s := h.running("running")
	stop := interrupt(s.RunID, "before the restart")
	h.requestStop("running", stop)
	h.threeSteps("told")
	h.branch("told", driver.BranchPoint{}, "branch")
	h.must(h.st.Delete(h.Context(), "branch"))
	h.crash("crashed", "run")
	before := map[string]*content{}
	for _, row := range h.list(driver.SessionQuery{}) {
		before[row.ID] = h.content(row.ID)
	}
	list := h.list(driver.SessionQuery{})

	h = h.on(h.opts.Reopen(h.T, h.st))
	for id, want := range before {
		same(h.T, fmt.Sprintf("session %q after reopening", id), h.content(id), want)
	}
	same(h.T, "sessions after reopening", h.list(driver.SessionQuery{}), list)
	h.wantStop(s, &stop)
	h.awaitDue("crashed")
}

func reopenContinues(h *harness) {
	s := h.running("session")
	c := h.stepCommit(s, "before")
	s = h.commit("session", c)
	for i := range 3 {
		h = h.on(h.opts.Reopen(h.T, h.st))
		h.again("session", c, "a step again after reopening")
		s = h.stepState(s, fmt.Sprint("after reopening ", i), appendOp("/list", fmt.Sprint(i)))
		cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", s.CheckpointID)
		h.must(err)
		if cp.Number != int64(3+i) {
			h.Fatalf("checkpoint number %d, want %d", cp.Number, 3+i)
		}
	}
	h.end(s)
	h.wantState("session", "", `{"n":1,"list":[0,1,2]}`)
}

// secondSeesAll writes through one handle and reads through the other, concurrently.
func secondSeesAll(h *harness) {
	other := h.on(h.opts.Second(h.T, h.st))
	h.createWith("session", `{"n":0}`)
	s := h.begin("session", "run")
	for i := range 10 {
		same(h.T, "session through the second handle", other.content("session"), h.content("session"))
		writer, reader := h, other
		if i%2 == 1 {
			writer, reader = other, h
		}
		s = writer.stepState(s, fmt.Sprint("reply ", i), appendOp("/list", fmt.Sprint(i)))
		reader.stage(s, piece(fmt.Sprint(i), "reply", `1`))
		if _, err := reader.st.Renew(h.Context(), "session", s.Lease.Token, time.Hour); err != nil {
			h.Fatal(err)
		}
	}
	other.end(s)
	h.must(other.st.Delete(h.Context(), "session"))
	if h.content("session") != nil {
		h.Fatal("a session deleted through the second handle is still there")
	}
}
