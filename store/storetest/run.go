package storetest

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var runTests = []storeTest{
	{name: "TurnsAreContiguous", run: contiguousTurns},
	{name: "StartSetsTheStoresPart", run: startRun},
	{name: "EndUpdatesTheRest", run: endRun},
	{name: "UpdateOfARunningRun", run: updateRun},
	{name: "NextTurnEndsTheLast", run: endAndStart},
	{name: "UnknownRun", run: unknownRun},
	{name: "Paging", run: runPaging},
	{name: "PagingWhileWriting", run: runPagingWhileWriting},
}

// turns runs a session through n turns.
func (h *harness) turns(id string, n int) {
	h.Helper()
	for range n {
		h.end(h.begin(id, h.newID("run")))
	}
}

func contiguousTurns(h *harness) {
	h.create("session")
	h.create("other")
	for turn := 1; turn <= 5; turn++ {
		s := h.begin("session", fmt.Sprint("run-", turn))
		if s.Turn != turn || s.RunID != fmt.Sprint("run-", turn) {
			h.Fatalf("turn %d of run %q, want %d", s.Turn, s.RunID, turn)
		}
		h.step(s, "reply")
		h.end(h.load("session"))
		h.turns("other", 2)
	}
	for i, run := range h.runs("session") {
		if run.Turn != i+1 || run.ID != fmt.Sprint("run-", i+1) || run.SessionID != "session" {
			h.Fatalf("run %d of the list is %+v", i, run)
		}
	}
}

func startRun(h *harness) {
	h.create("session")
	h.commit("session", &driver.Commit{Messages: says("zero", "one", "two")})
	given := cairn.Run{ID: "run", SessionID: "wrong", Agent: agentName, Kind: cairn.RunResume, Turn: 99, Status: cairn.RunRunning,
		PreviousRunID: "before", StartSequence: 7, FirstMessage: 99, StartedAt: time.Unix(1, 0)}
	s := h.commit("session", &driver.Commit{StartRun: &given, Messages: says("three")})
	want := given
	want.SessionID, want.Turn, want.FirstMessage, want.StartedAt = "session", 1, 3, s.UpdatedAt
	got, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	same(h.T, "run", got, &want)
	if given.Turn != 99 || given.SessionID != "wrong" {
		h.Fatalf("the caller's run was changed: %+v", given)
	}
}

func endRun(h *harness) {
	h.create("session")
	h.commit("session", &driver.Commit{Messages: says("zero")})
	h.commit("session", &driver.Commit{StartRun: &cairn.Run{ID: "run", Agent: agentName, Kind: cairn.RunExecute, Status: cairn.RunRunning, StartSequence: 7}})
	started, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	update := cairn.Run{ID: "run", SessionID: "wrong", Agent: agentName, Kind: cairn.RunExecute, Turn: 99, Status: cairn.RunFailed,
		Reason: cairn.ReasonError, PreviousRunID: "before", Steps: 4, StartSequence: 99, FirstMessage: 99,
		Usage: cairn.Usage{InputTokens: 5, Custom: map[string]float64{"pages": 2}}, Text: "text ✓", Output: []byte(`{"a":[1]}`),
		Error:     &cairn.Error{Code: cairn.ErrTool, Message: "broke", Field: "f", RetryAfter: cairn.Duration(time.Second), Details: []string{"x"}},
		StartedAt: time.Unix(1, 0), EndedAt: time.Unix(2, 0)}
	s := h.commit("session", &driver.Commit{EndRun: &update})
	want := update
	want.SessionID, want.Turn, want.StartSequence, want.FirstMessage = "session", 1, 7, 1
	want.StartedAt, want.EndedAt = started.StartedAt, s.UpdatedAt
	got, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	same(h.T, "run", got, &want)
	same(h.T, "run in the list", h.runs("session"), []cairn.Run{want})
	if s.RunID != "run" || s.Turn != 1 {
		h.Fatalf("the row lost its last run: %+v", s)
	}
}

func updateRun(h *harness) {
	h.create("session")
	h.begin("session", "run")
	h.commit("session", &driver.Commit{EndRun: &cairn.Run{ID: "run", Agent: agentName, Kind: cairn.RunExecute, Status: cairn.RunRunning, Steps: 2}})
	run, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	if run.Steps != 2 || run.Status != cairn.RunRunning || !run.EndedAt.IsZero() {
		h.Fatalf("a running run is recorded as %+v", run)
	}
}

func endAndStart(h *harness) {
	h.create("session")
	s := h.begin("session", "run-1")
	h.commit("session", &driver.Commit{
		EndRun:   &cairn.Run{ID: "run-1", Agent: agentName, Status: cairn.RunFailed, Reason: cairn.ReasonCrashed},
		StartRun: &cairn.Run{ID: "run-2", Agent: agentName, Status: cairn.RunRunning, PreviousRunID: "run-1"},
	})
	runs := h.runs("session")
	if len(runs) != 2 || runs[0].Status != cairn.RunFailed || runs[0].EndedAt.IsZero() || runs[1].Turn != s.Turn+1 || runs[1].PreviousRunID != "run-1" {
		h.Fatalf("runs are %+v", runs)
	}
}

func unknownRun(h *harness) {
	h.create("session")
	h.create("other")
	h.begin("other", "run")
	for _, at := range [][2]string{{"session", "run"}, {"session", ""}, {"nobody", "run"}} {
		_, err := driver.FindRun(h.Context(), h.st, at[0], at[1])
		h.wantError(err, cairn.ErrNotFound, fmt.Sprintf("run %q of session %q", at[1], at[0]))
	}
	_, err := h.st.Runs(h.Context(), "nobody", driver.PageQuery{})
	h.wantError(err, cairn.ErrNotFound, "runs of no session")
	if runs := h.runs("session"); len(runs) > 0 {
		h.Fatalf("a session without runs has %+v", runs)
	}
}

func runPaging(h *harness) {
	h.create("session")
	h.turns("session", 7)
	checkPaging(h.T, 7, func(q driver.PageQuery) (driver.Page[cairn.Run], error) {
		return h.st.Runs(h.Context(), "session", q)
	}, func(r cairn.Run) int64 { return int64(r.Turn) })
}

func runPagingWhileWriting(h *harness) {
	h.create("session")
	checkPagingWhileWriting(h.T, func() { h.turns("session", 2) }, func(q driver.PageQuery) (driver.Page[cairn.Run], error) {
		return h.st.Runs(h.Context(), "session", q)
	}, func(r cairn.Run) int64 { return int64(r.Turn) })
}
