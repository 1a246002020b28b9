package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var stagingTests = []storeTest{
	{name: "InOrder", run: stageInOrder},
	{name: "FirstOneStays", run: stageTwice},
	{name: "OnlyWithTheCurrentToken", run: stageFenced},
	{name: "OnlyWhileTheRunLasts", run: stageEnded},
	{name: "DropStaged", run: dropStaged},
	{name: "LeavesTheRowAlone", run: stageLeavesRow},
	{name: "InParallel", run: stageInParallel},
	{name: "NoSession", run: stageNobody},
}

func piece(step, key, data string) driver.Staged {
	return driver.Staged{StepID: step, Key: key, Data: json.RawMessage(data)}
}

func (h *harness) stage(s *cairn.Session, list ...driver.Staged) {
	h.Helper()
	h.must(h.st.Stage(h.Context(), s.ID, s.Lease.Token, list...))
}

func (h *harness) wantStaged(id, step string, want ...driver.Staged) {
	h.Helper()
	got, err := driver.StagedOf(h.Context(), h.st, id, step)
	h.must(err)
	same(h.T, fmt.Sprintf("staged for step %q of %q", step, id), got, want)
}

func stageInOrder(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	h.wantStaged("session", "")
	big := fmt.Sprintf("%q", strings.Repeat("x", 300<<10))
	reply, z, a, other := piece("step-1", "reply", `{"text":"hi"}`), piece("step-1", "z", `[1]`), piece("step-1", "a", big), piece("step-0", "reply", `null`)
	h.stage(s, reply)
	h.stage(s, z, a)
	h.stage(s, other)
	h.stage(s)
	h.wantStaged("session", "step-1", reply, z, a)
	h.wantStaged("session", "step-0", other)
	h.wantStaged("session", "", reply, z, a, other)
	h.wantStaged("session", "step")
}

func stageTwice(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	first, other := piece("step", "call", `1`), piece("step", "other", `3`)
	h.stage(s, first)
	h.stage(s, piece("step", "call", `2`), other)
	h.wantStaged("session", "step", first, other)
	again := piece("step 2", "call", `4`)
	h.stage(s, again, piece("step 2", "call", `5`))
	h.wantStaged("session", "", first, other, again)
}

func stageFenced(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	h.create("other")
	for _, token := range []int64{s.Lease.Token + 1, s.Lease.Token - 1, -1} {
		h.unchanged("session", "a fenced piece", func() {
			err := h.st.Stage(h.Context(), "session", token, piece("step", "a", `1`), piece("step", "b", `2`))
			same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrFenced, fmt.Sprint("token ", token)), s)
		})
	}
	err := h.st.Stage(h.Context(), "other", s.Lease.Token, piece("step", "a", `1`))
	h.wantConflict(err, cairn.ErrFenced, "a piece for a session without a lease")
}

// stageEnded: an attempt at an effect may be so late that its run has ended, and no commit would drop what it stages.
func stageEnded(h *harness) {
	for name, c := range map[string]func(*cairn.Session) *driver.Commit{
		"completed": endCommit,
		"suspended": func(s *cairn.Session) *driver.Commit {
			c := endCommit(s)
			c.EndRun.Status, c.EndRun.Reason, c.Status = cairn.RunSuspended, cairn.ReasonCalls, cairn.SessionPaused
			return c
		},
		"settled": func(s *cairn.Session) *driver.Commit {
			c := endCommit(s)
			c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: "another worker"}
			return c
		},
	} {
		h.create(name)
		s := h.begin(name, "run")
		h.stage(s, piece("step", "a", `1`))
		ended := h.commit(name, c(s))
		h.unchanged(name, "a piece of a run that has ended", func() {
			for _, token := range []int64{s.Lease.Token, ended.Lease.Token} {
				err := h.st.Stage(h.Context(), name, token, piece("step", "b", `2`))
				h.wantConflict(err, cairn.ErrFenced, fmt.Sprint(name, " token ", token))
			}
		})
		h.wantStaged(name, "", piece("step", "a", `1`))
	}
}

func dropStaged(h *harness) {
	h.create("other")
	other := h.begin("other", "run")
	h.stage(other, piece("step", "a", `1`))
	h.create("session")
	s := h.begin("session", "run")
	h.stage(s, piece("step-1", "a", `1`), piece("step-2", "a", `2`))
	h.commit("session", &driver.Commit{Messages: says("a message")})
	h.wantStaged("session", "", piece("step-1", "a", `1`), piece("step-2", "a", `2`))
	h.commit("session", &driver.Commit{DropStaged: true})
	h.wantStaged("session", "")
	h.wantStaged("other", "", piece("step", "a", `1`))
	h.stage(s, piece("step-1", "a", `3`))
	h.wantStaged("session", "", piece("step-1", "a", `3`))
}

// stageLeavesRow: staging a piece must not make its writer's next step stale.
func stageLeavesRow(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	h.stage(s, piece("step", "reply", `{}`))
	if got := h.load("session"); got.Version != s.Version {
		h.Fatalf("staging moved the version from %d to %d", s.Version, got.Version)
	}
	c := h.stepCommit(s, "reply")
	c.DropStaged = true
	h.commit("session", c)
}

func stageInParallel(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	errs := race(8, func(i int) error {
		for n := range 10 {
			if err := h.st.Stage(h.Context(), "session", s.Lease.Token, piece("step", fmt.Sprint(n), fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	list, err := driver.StagedOf(h.Context(), h.st, "session", "step")
	h.must(err)
	seen := map[string]bool{}
	for _, p := range list {
		seen[p.Key] = true
	}
	if len(list) != 10 || len(seen) != 10 {
		h.Fatalf("eight writers of the same ten pieces left %d with %d keys", len(list), len(seen))
	}
}

func stageNobody(h *harness) {
	err := h.st.Stage(h.Context(), "nobody", 1, piece("step", "a", `1`))
	h.wantError(err, cairn.ErrNotFound, "staging for no session")
	_, err = driver.StagedOf(h.Context(), h.st, "nobody", "")
	h.wantError(err, cairn.ErrNotFound, "staged of no session")
}
