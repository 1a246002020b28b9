package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var rewindRunTests = []storeTest{
	{name: "BackToWhereItBegan", run: rewindRun},
	{name: "FirstRun", run: rewindFirstRun},
	{name: "WithTheNextOne", run: rewindAndStart},
	{name: "OfAnEarlierRun", run: rewindEarlierRun},
	{name: "AgainAndAgain", run: rewindRunRepeatedly},
	{name: "AtAStateThatWasWrittenAgain", run: rewindRunAtAnotherState},
	{name: "AfterManyChanges", run: rewindRunAfterManyChanges},
	{name: "BeforeIsWhereItBegan", run: runBefore},
	{name: "Refusals", run: rewindRunRefusals},
	{name: "OfANewSession", run: rewindRunOfNobody},
}

// tries begins a run, commits two steps with state, and ends it.
func (h *harness) tries(id, runID string) *cairn.Session {
	h.Helper()
	s := h.begin(id, runID)
	for i := range 2 {
		s = h.stepState(s, fmt.Sprintf("reply %d of %s", i, runID), appendOp("/list", encodedText(runID)))
	}
	return h.end(s)
}

// rewindRun rewinds a second run that began after a change from outside: everything is restored to the beginning of the
// run, except for the records of the runs and what is not part of a session's past.
func rewindRun(h *harness) {
	h.createWith("session", `{"n":0}`)
	h.tries("session", "run-1")
	_, err := driver.MergeState(h.Context(), h.st, "session", replaceOp("/n", "1"))
	h.must(err)
	h.commit("session", withWait(&driver.Commit{Messages: says("between")}, "session"))
	before := h.content("session")
	s := h.tries("session", "run-2")
	runs := h.runs("session")

	row := h.commit("session", &driver.Commit{Guard: driver.Guard{Idle: true, Version: s.Version}, RewindRun: "run-2"})
	now := h.content("session")
	same(h.T, "messages", now.Messages, before.Messages)
	same(h.T, "state", now.State, before.State)
	same(h.T, "checkpoints", now.Checkpoints, before.Checkpoints)
	same(h.T, "states at the checkpoints", now.At, before.At)
	same(h.T, "runs", now.Runs, runs)
	same(h.T, "calls", now.Calls, before.Calls)
	same(h.T, "queue", now.Queue, before.Queue)
	same(h.T, "cache", now.Cache, before.Cache)
	want := *s
	h.grew(row, s)
	want.Version, want.Epoch, want.UpdatedAt = row.Version, s.Epoch+1, row.UpdatedAt
	want.MessageCount, want.CheckpointID, want.State = before.Session.MessageCount, before.Session.CheckpointID, before.Session.State
	same(h.T, "row", row, &want)

	next := h.tries("session", "run-3")
	if next.Turn != 3 || next.RunID != "run-3" {
		h.Fatalf("the next run's row is %+v", next)
	}
	h.wantState("session", "", `{"n":1,"list":["run-1","run-1","run-3","run-3"]}`)
	cp := h.checkpoints("session")
	if last := cp[len(cp)-1]; len(cp) != 4 || last.Number != 6 || cp[2].ParentID != before.Session.CheckpointID {
		h.Fatalf("checkpoints are %+v", cp)
	}
}

// rewindFirstRun rewinds the first run: no checkpoint is left, but what the session had before the run is.
func rewindFirstRun(h *harness) {
	h.createWith("session", `{"n":0}`)
	h.commit("session", &driver.Commit{Messages: says("before")})
	_, err := driver.MergeState(h.Context(), h.st, "session", replaceOp("/n", "1"))
	h.must(err)
	h.tries("session", "run")
	row := h.commit("session", &driver.Commit{RewindRun: "run"})
	if row.CheckpointID != "" || row.MessageCount != 1 || row.State.Position != 1 || row.Epoch != 1 {
		h.Fatalf("row is %+v", row)
	}
	same(h.T, "messages", h.texts("session"), []string{"before"})
	h.wantState("session", "", `{"n":1}`)
	if list := h.checkpoints("session"); len(list) > 0 {
		h.Fatalf("checkpoints are left: %+v", list)
	}
	h.create("empty")
	h.begin("empty", "run")
	h.end(h.load("empty"))
	if row := h.commit("empty", &driver.Commit{RewindRun: "run"}); row.MessageCount != 0 || row.Epoch != 1 {
		h.Fatalf("row is %+v", row)
	}
	h.tries("empty", "next run")
	h.wantState("empty", "", `{"list":["next run","next run"]}`)
}

// rewindAndStart rewinds a run and begins the next one in the same commit, as a retry does, twice.
func rewindAndStart(h *harness) {
	h.create("session")
	h.tries("session", "run-1")
	base := h.content("session")
	s := h.tries("session", "run-2")
	retry := beginCommit("run-3", "worker", time.Hour)
	retry.RewindRun, retry.StartRun.Kind, retry.StartRun.PreviousRunID = "run-2", cairn.RunRetry, "run-2"
	row := h.commit("session", retry)
	if row.Turn != 3 || row.RunID != "run-3" || row.MessageCount != base.Session.MessageCount+1 || row.Epoch != s.Epoch+1 {
		h.Fatalf("row is %+v", row)
	}
	run, err := driver.FindRun(h.Context(), h.st, "session", "run-3")
	h.must(err)
	if run.FirstMessage != base.Session.MessageCount || run.Before.CheckpointID != base.Session.CheckpointID || run.Before.StatePosition != base.Session.State.Position {
		h.Fatalf("the run began at %+v, the session was at %+v", run, base.Session)
	}
	h.again("session", retry, "a retry again")
	h.step(row, "reply")
	h.again("session", retry, "a retry again after its first step")
	same(h.T, "messages", h.texts("session"), append(textsOf(base.Messages), "question of run-3", "reply"))
	h.end(h.load("session"))
	h.again("session", retry, "a retry again when the session is idle again")
}

// rewindEarlierRun rewinds to the beginning of an earlier run, and begins another one there in the same commit.
func rewindEarlierRun(h *harness) {
	h.create("session")
	h.tries("session", "run-1")
	base := h.content("session")
	h.tries("session", "run-2")
	s := h.tries("session", "run-3")
	c := beginCommit("run-4", "worker", time.Hour)
	c.Guard, c.RewindRun = driver.Guard{Idle: true, Version: s.Version}, "run-2"
	row := h.commit("session", c)
	if row.Turn != 4 || row.RunID != "run-4" || row.MessageCount != base.Session.MessageCount+1 || row.Epoch != s.Epoch+1 {
		h.Fatalf("row is %+v", row)
	}
	h.again("session", c, "the same again")
	h.step(row, "reply")
	h.end(h.load("session"))
	now := h.content("session")
	same(h.T, "messages", textsOf(now.Messages), append(textsOf(base.Messages), "question of run-4", "reply"))
	same(h.T, "checkpoints before", now.Checkpoints[:len(base.Checkpoints)], base.Checkpoints)
	if runs := h.runs("session"); len(runs) != 4 {
		h.Fatalf("runs are %+v", runs)
	}
	// The undone run began where its replacement did; the run after it began at a checkpoint that is gone.
	_, err := h.st.Commit(h.Context(), "session", &driver.Commit{RewindRun: "run-3"})
	h.wantError(err, cairn.ErrInvalid, "rewind of a run behind one that was undone")
	if row := h.commit("session", &driver.Commit{RewindRun: "run-2"}); row.MessageCount != base.Session.MessageCount {
		h.Errorf("row is %+v", row)
	}
}

// rewindRunRepeatedly rewinds the same run twice, and writes its step again under its old id in between.
func rewindRunRepeatedly(h *harness) {
	h.create("session")
	s := h.begin("session", "run-1")
	c := h.stepCommit(s, "taken back")
	h.commit("session", c)
	for n := 1; n <= 2; n++ {
		row := h.commit("session", &driver.Commit{RewindRun: "run-1"})
		if row.Epoch != int64(n) || row.MessageCount != 0 || row.CheckpointID != "" {
			h.Fatalf("after %d times row is %+v", n, row)
		}
	}
	c.Guard = driver.Guard{}
	if row := h.commit("session", c); row.MessageCount != 1 || row.CheckpointID != c.Checkpoint.ID {
		h.Fatalf("row is %+v", row)
	}
}

// rewindRunAtAnotherState rewinds a run after the state at which it began was taken back and another one got its
// position. Either may be stored whole or as a change: the session gets the state that is there now.
func rewindRunAtAnotherState(h *harness) {
	whole := []byte(`{"whole":true}`)
	for name, of := range map[string]struct{ first, second []byte }{
		"whole, then a change": {whole, nil},
		"a change, then whole": {nil, whole},
		"a change, again":      {nil, nil},
		"whole, again":         {whole, []byte(`{"whole":"again","longer":true}`)},
	} {
		h.createWith(name, `{"n":0}`)
		h.tries(name, "run-1")
		checkpoint := h.load(name).CheckpointID
		h.commit(name, &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/n", "1")}, Keyframe: of.first}})
		h.tries(name, "run-2")
		row := h.commit(name, &driver.Commit{Rewind: checkpoint, Messages: says("a", "b", "c"),
			State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/n", "2345")}, Keyframe: of.second}})
		at, state := row.State, h.state(name, "")
		_, err := driver.MergeState(h.Context(), h.st, name, replaceOp("/n", "6"))
		h.must(err)
		row = h.commit(name, &driver.Commit{RewindRun: "run-2"})
		same(h.T, name+": position", row.State, at)
		same(h.T, name+": state", h.state(name, ""), state)
		_, err = driver.MergeState(h.Context(), h.st, name, replaceOp("/more", "7"))
		h.must(err)
		if row := h.tries(name, "run-3"); row.State.Position != at.Position+3 {
			h.Errorf("%s: the position is %+v", name, row.State)
		}
	}
}

// rewindRunAfterManyChanges rewinds runs that began far from the whole state that theirs builds on.
func rewindRunAfterManyChanges(h *harness) {
	h.createWith("session", fmt.Sprintf(`{"n":0,"body":%q}`, strings.Repeat("x", 16<<10)))
	want := map[string]cairn.StatePosition{}
	for n := 1; n <= 202; n++ {
		if n == 99 || n == 100 || n == 101 || n == 202 {
			id := fmt.Sprint("run-", n)
			want[id] = h.load("session").State
			h.begin("session", id)
			h.end(h.load("session"))
		}
		h.commit("session", &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/n", fmt.Sprint(n))}}})
	}
	for _, n := range []int{202, 101, 100, 99} {
		id := fmt.Sprint("run-", n)
		same(h.T, id, h.commit("session", &driver.Commit{RewindRun: id}).State, want[id])
		var state struct{ N int }
		h.must(json.Unmarshal(h.state("session", ""), &state))
		if state.N != n-1 {
			h.Errorf("%s: n is %d", id, state.N)
		}
	}
}

// runBefore checks that a run's record keeps the run's starting point, however the run ends.
func runBefore(h *harness) {
	h.createWith("session", `{"n":0}`)
	want := map[string]cairn.RunOrigin{}
	for n := range 3 {
		id := fmt.Sprint("run-", n)
		_, err := driver.MergeState(h.Context(), h.st, "session", replaceOp("/n", fmt.Sprint(n)))
		h.must(err)
		before := h.load("session")
		want[id] = cairn.RunOrigin{CheckpointID: before.CheckpointID, StatePosition: before.State.Position}
		s := h.stepState(h.begin("session", id), "reply", appendOp("/list", "1"))
		end := endCommit(s)
		end.EndRun.Before = cairn.RunOrigin{CheckpointID: "wrong", StatePosition: 99}
		h.commit("session", end)
	}
	if want["run-2"].StatePosition != 5 || want["run-2"].CheckpointID == "" {
		h.Fatalf("the test expects %+v", want)
	}
	for _, run := range h.runs("session") {
		if run.Before != want[run.ID] {
			h.Fatalf("%s began at %+v, want %+v", run.ID, run.Before, want[run.ID])
		}
	}
}

func rewindRunRefusals(h *harness) {
	two := func(id string, between ...func()) {
		h.create(id)
		h.tries(id, "run-1")
		for _, do := range between {
			do()
		}
		h.tries(id, "run-2")
	}
	for _, test := range []struct {
		name, run string
		prepare   func(id string)
		want      cairn.Code
	}{
		{"unknown", "run", func(string) {}, cairn.ErrNotFound},
		{"another session's", "run-3", func(string) { two("other"); h.tries("other", "run-3") }, cairn.ErrNotFound},
		{"rewound to before it", "run-2", func(id string) { h.commit(id, &driver.Commit{Rewind: h.checkpointIDs(id)[0]}) }, cairn.ErrInvalid},
		{"rewound, and as long as before", "run-2", func(id string) {
			h.commit(id, &driver.Commit{Rewind: h.checkpointIDs(id)[0], Messages: says("a", "b", "c", "d", "e")})
			_, err := driver.MergeState(h.Context(), h.st, id, appendOp("/list", "1"), appendOp("/list", "2"))
			h.must(err)
		}, cairn.ErrInvalid},
		{"begun after messages that are gone", "run-2", func(id string) {
			h.must(h.st.Delete(h.Context(), id))
			two(id, func() { h.commit(id, &driver.Commit{Messages: says("between")}) })
			h.commit(id, &driver.Commit{Rewind: h.checkpointIDs(id)[1]})
		}, cairn.ErrInvalid},
		{"begun after a state that is gone", "run-2", func(id string) {
			h.must(h.st.Delete(h.Context(), id))
			two(id, func() {
				_, err := driver.MergeState(h.Context(), h.st, id, replaceOp("/n", "1"))
				h.must(err)
			})
			h.commit(id, &driver.Commit{Rewind: h.checkpointIDs(id)[1]})
		}, cairn.ErrInvalid},
		{"pruned since", "run-2", func(id string) {
			_, err := h.st.Prune(h.Context(), id, 1)
			h.must(err)
		}, cairn.ErrInvalid},
	} {
		id := test.name
		two(id)
		test.prepare(id)
		c := h.everythingBut(h.load(id))
		c.RewindRun = test.run
		h.unchanged(id, "rewind of a run that is "+test.name, func() {
			_, err := h.st.Commit(h.Context(), id, c)
			h.wantError(err, test.want, "rewind of a run that is "+test.name)
		})
	}
}

func rewindRunOfNobody(h *harness) {
	_, err := h.st.Commit(h.Context(), "session", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Messages: says("one"), RewindRun: "run"})
	h.wantError(err, cairn.ErrNotFound, "creation with a run to rewind")
	if there, err := driver.Exists(h.Context(), h.st, "session"); err != nil || there {
		h.Fatalf("the session exists after its creation failed: %v, %v", there, err)
	}
}
