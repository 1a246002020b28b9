package storetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var checkpointTests = []storeTest{
	{name: "StoreSetsItsPart", run: checkpointFields},
	{name: "LatestIsTheLastWritten", run: latestCheckpoint},
	{name: "OfAnotherSession", run: foreignCheckpoint},
	{name: "Paging", run: checkpointPaging},
	{name: "PagingWhileWriting", run: checkpointPagingWhileWriting},
	{name: "PageSizes", run: pageSizes},
	{name: "Rewind", run: rewind},
	{name: "RewindAndWriteInOneCommit", run: rewindAndWrite},
	{name: "RewindAgainAndAgain", run: rewindRepeatedly},
	{name: "RewindOfARunningSession", run: rewindRunning},
	{name: "RewoundStepIsNew", run: rewoundStep},
	{name: "Prune", run: prune},
	{name: "PruneKeepsRestoresWorking", run: pruneRestores},
	{name: "NumbersAreNeverReused", run: numbersNeverReused},
}

func checkpointFields(h *harness) {
	h.create("session")
	h.begin("session", "run")
	given := cairn.Checkpoint{ID: "cp", SessionID: "wrong", RunID: "run", StepID: "step", Turn: 99, Step: 5, Number: 99, ParentID: "wrong",
		MessageCount: 99, StatePosition: 99, LogSequence: 42}
	s := h.commit("session", &driver.Commit{Checkpoint: &given, Messages: says("one", "two"),
		State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/n", "1")}}})
	want := given
	want.SessionID, want.Turn, want.Number, want.ParentID = "session", 1, 1, ""
	want.MessageCount, want.StatePosition, want.CreatedAt = s.MessageCount, s.State.Position, s.UpdatedAt
	got, err := driver.FindCheckpoint(h.Context(), h.st, "session", "cp")
	h.must(err)
	same(h.T, "checkpoint", got, &want)
	if s.CheckpointID != "cp" || given.Number != 99 {
		h.Fatalf("the row is at %q, the caller's checkpoint became %+v", s.CheckpointID, given)
	}
}

// latestCheckpoint writes three steps in the first turn and one in the second: the latest is the one of the second
// turn, although its step number is lower.
func latestCheckpoint(h *harness) {
	h.create("session")
	var want []string
	for turn, steps := range []int{3, 1, 2} {
		s := h.begin("session", fmt.Sprint("run-", turn))
		for step := range steps {
			s = h.step(s, fmt.Sprintf("turn %d, step %d", turn, step))
			want = append(want, s.CheckpointID)
		}
		if s = h.end(s); s.CheckpointID != want[len(want)-1] {
			h.Fatalf("after turn %d the row is at %q, want %q", turn, s.CheckpointID, want[len(want)-1])
		}
		page, err := h.st.Checkpoints(h.Context(), "session", driver.PageQuery{Newest: true, Limit: 1})
		h.must(err)
		if len(page.Items) != 1 || page.Items[0].ID != s.CheckpointID {
			h.Fatalf("after turn %d the newest checkpoint is %+v", turn, page.Items)
		}
	}
	parent := ""
	for i, cp := range h.checkpoints("session") {
		if cp.ID != want[i] || cp.Number != int64(i+1) || cp.ParentID != parent || cp.MessageCount == 0 {
			h.Fatalf("checkpoint %d is %+v, want %q with parent %q", i, cp, want[i], parent)
		}
		parent = cp.ID
	}
}

func foreignCheckpoint(h *harness) {
	mine, other := h.running("mine"), h.running("other")
	h.end(mine)
	_, err := driver.FindCheckpoint(h.Context(), h.st, "mine", other.CheckpointID)
	h.wantError(err, cairn.ErrNotFound, "another session's checkpoint")
	_, err = driver.FindCheckpoint(h.Context(), h.st, "nobody", other.CheckpointID)
	h.wantError(err, cairn.ErrNotFound, "a checkpoint of no session")
	_, err = h.st.Checkpoints(h.Context(), "nobody", driver.PageQuery{})
	h.wantError(err, cairn.ErrNotFound, "checkpoints of no session")
	h.unchanged("mine", "rewind to another session's checkpoint", func() {
		_, err := driver.Rewind(h.Context(), h.st, "mine", other.CheckpointID)
		h.wantError(err, cairn.ErrNotFound, "rewind to another session's checkpoint")
	})
	_, err = h.st.Branch(h.Context(), "mine", driver.BranchPoint{CheckpointID: other.CheckpointID}, &cairn.Session{ID: "new", Agent: agentName})
	h.wantError(err, cairn.ErrNotFound, "branch at another session's checkpoint")
}

func checkpointPaging(h *harness) {
	s := h.running("session")
	for range 6 {
		s = h.step(s, "reply")
	}
	checkPaging(h.T, 7, func(q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
		return h.st.Checkpoints(h.Context(), "session", q)
	}, func(cp cairn.Checkpoint) int64 { return cp.Number })
}

func checkpointPagingWhileWriting(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	checkPagingWhileWriting(h.T, func() { s = h.step(h.step(s, "reply"), "reply") },
		func(q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
			return h.st.Checkpoints(h.Context(), "session", q)
		},
		func(cp cairn.Checkpoint) int64 { return cp.Number })
}

func pageSizes(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	sizes := map[int]int{0: 100, 250: 250, 1000: 1000, 1 << 30: 1000}
	if h.opts.Brief {
		sizes = map[int]int{0: 100, 250: 250}
	}
	for range 1 + slices.Max(slices.Collect(maps.Values(sizes))) {
		s = h.step(s, "reply")
	}
	for limit, want := range sizes {
		page, err := h.st.Checkpoints(h.Context(), "session", driver.PageQuery{Limit: limit})
		h.must(err)
		if len(page.Items) != want || page.Next == "" {
			h.Fatalf("limit %d gives %d items and cursor %q, want %d and one", limit, len(page.Items), page.Next, want)
		}
	}
}

// rewind goes back two of four steps: messages, state and checkpoints are those of that time, runs and the rest of the
// row stay, and the session continues from there.
func rewind(h *harness) {
	h.createWith("session", `{"n":0}`)
	s := h.begin("session", "run")
	var at []*content
	for i := 1; i <= 4; i++ {
		s = h.stepState(s, fmt.Sprint("reply ", i), replaceOp("/n", fmt.Sprint(i)), appendOp("/list", fmt.Sprint(i)))
		at = append(at, h.content("session"))
	}
	h.must(h.st.Stage(h.Context(), "session", s.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte("1")}))
	s = h.end(s)
	target := at[1]

	row, err := driver.Rewind(h.Context(), h.st, "session", target.Session.CheckpointID)
	h.must(err)
	now := h.content("session")
	same(h.T, "messages", now.Messages, target.Messages)
	same(h.T, "state", now.State, target.State)
	same(h.T, "checkpoints", now.Checkpoints, target.Checkpoints)
	same(h.T, "states at the checkpoints", now.At, target.At)
	if len(now.Staged) > 0 || len(now.Runs) != 1 {
		h.Fatalf("staged %v, runs %v", now.Staged, now.Runs)
	}
	want := *s
	h.grew(row, s)
	want.Version, want.Epoch, want.Status, want.UpdatedAt = row.Version, s.Epoch+1, cairn.SessionInterrupted, row.UpdatedAt
	want.MessageCount, want.CheckpointID, want.State = target.Session.MessageCount, target.Session.CheckpointID, target.Session.State
	same(h.T, "row", row, &want)

	next := h.stepState(h.begin("session", "next run"), "another way", appendOp("/list", `"other"`))
	h.wantState("session", "", `{"n":2,"list":[1,2,"other"]}`)
	h.wantState("session", target.Session.CheckpointID, `{"n":2,"list":[1,2]}`)
	same(h.T, "messages", h.texts("session"), append(textsOf(target.Messages), "question of next run", "another way"))
	cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", next.CheckpointID)
	h.must(err)
	if cp.ParentID != target.Session.CheckpointID || cp.Turn != 2 {
		h.Fatalf("the next checkpoint is %+v", cp)
	}
	_, err = driver.FindCheckpoint(h.Context(), h.st, "session", s.CheckpointID)
	h.wantError(err, cairn.ErrNotFound, "a checkpoint after the rewind")
}

func rewindAndWrite(h *harness) {
	h.create("session")
	s := h.stepState(h.begin("session", "run"), "keep", replaceOp("/n", "1"))
	back := s.CheckpointID
	s = h.stepState(s, "drop", replaceOp("/n", "2"), replaceOp("/gone", "2"))
	s = h.end(s)
	c := beginCommit("run-2", "worker", 0)
	c.Rewind, c.State = back, &driver.StateChange{Ops: []cairn.Op{replaceOp("/m", "3")}}
	c.Checkpoint = &cairn.Checkpoint{ID: "cp", StepID: "step"}
	row := h.commit("session", c)
	same(h.T, "messages", h.texts("session"), []string{"question of run", "keep", "question of run-2"})
	h.wantState("session", "", `{"n":1,"m":3}`)
	same(h.T, "checkpoints", h.checkpointIDs("session"), []string{back, "cp"})
	if row.Epoch != 1 || row.Turn != 2 || row.MessageCount != 3 || row.Version <= s.Version {
		h.Fatalf("row is %+v", row)
	}
	run, err := driver.FindRun(h.Context(), h.st, "session", "run-2")
	h.must(err)
	cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", "cp")
	h.must(err)
	if run.FirstMessage != 2 || cp.ParentID != back || cp.MessageCount != 3 {
		h.Fatalf("run %+v and checkpoint %+v do not build on the rewound session", run, cp)
	}
}

func rewindRepeatedly(h *harness) {
	h.create("session")
	s := h.stepState(h.begin("session", "run"), "base", appendOp("/list", "0"))
	base := s.CheckpointID
	h.end(s)
	for n := 1; n <= 5; n++ {
		s := h.begin("session", fmt.Sprint("run-", n))
		for i := range n {
			s = h.stepState(s, "reply", appendOp("/list", fmt.Sprint(i)))
		}
		h.end(s)
		row, err := driver.Rewind(h.Context(), h.st, "session", base)
		h.must(err)
		if row.Epoch != int64(n) || row.MessageCount != 2 || row.CheckpointID != base {
			h.Fatalf("rewind %d: %+v", n, row)
		}
		h.wantState("session", "", `{"list":[0]}`)
		same(h.T, "checkpoints", h.checkpointIDs("session"), []string{base})
	}
	row, err := driver.Rewind(h.Context(), h.st, "session", base)
	h.must(err)
	if row.Epoch != 6 || row.MessageCount != 2 {
		h.Fatalf("rewind to where the session is: %+v", row)
	}
}

func rewindRunning(h *harness) {
	s := h.running("session")
	h.unchanged("session", "rewind of a running session", func() {
		_, err := driver.Rewind(h.Context(), h.st, "session", s.CheckpointID)
		h.wantConflict(err, cairn.ErrAlreadyRunning, "rewind of a running session")
	})
	_, err := driver.Rewind(h.Context(), h.st, "nobody", s.CheckpointID)
	h.wantError(err, cairn.ErrNotFound, "rewind of no session")
}

// rewoundStep writes a step, rewinds before it, and writes it again under its old id: the store treats it as new.
func rewoundStep(h *harness) {
	h.create("session")
	s := h.step(h.begin("session", "run"), "base")
	base := s.CheckpointID
	c := h.stepCommit(s, "taken back")
	s = h.commit("session", c)
	s = h.commit("session", &driver.Commit{Rewind: base, Guard: driver.Guard{Version: s.Version}})
	c.Guard = driver.Guard{Version: s.Version}
	s = h.commit("session", c)
	same(h.T, "messages", h.texts("session"), []string{"question of run", "base", "taken back"})
	if s.CheckpointID != c.Checkpoint.ID {
		h.Fatalf("the row is at %q", s.CheckpointID)
	}
}

func prune(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	var ids []string
	for i := range 6 {
		s = h.stepState(s, "reply", replaceOp("/n", fmt.Sprint(i)))
		ids = append(ids, s.CheckpointID)
	}
	for _, keep := range []int{0, -1} {
		h.unchanged("session", "prune of all", func() {
			_, err := h.st.Prune(h.Context(), "session", keep)
			h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("prune to %d", keep))
		})
	}
	for _, step := range []struct{ keep, gone int }{{7, 0}, {6, 0}, {4, 2}, {4, 0}, {1, 3}, {1, 0}} {
		n, err := h.st.Prune(h.Context(), "session", step.keep)
		h.must(err)
		if n != step.gone {
			h.Fatalf("prune to %d removed %d, want %d", step.keep, n, step.gone)
		}
		ids = ids[n:]
		same(h.T, "checkpoints", h.checkpointIDs("session"), ids)
	}
	_, err := driver.FindCheckpoint(h.Context(), h.st, "session", "checkpoint-of-session-1")
	h.wantError(err, cairn.ErrNotFound, "a pruned checkpoint")
	h.wantState("session", "", `{"n":5}`)
	if row := h.load("session"); row.CheckpointID != ids[0] || row.MessageCount != 7 {
		h.Fatalf("row is %+v", row)
	}
	_, err = h.st.Prune(h.Context(), "nobody", 1)
	h.wantError(err, cairn.ErrNotFound, "prune of no session")
	h.create("empty")
	if n, err := h.st.Prune(h.Context(), "empty", 1); err != nil || n != 0 {
		h.Fatalf("prune of a session without checkpoints: %d, %v", n, err)
	}
}

// pruneRestores prunes in the middle of chains of changes: what is kept can be read, rewound to and branched from.
func pruneRestores(h *harness) {
	for keep := 1; keep <= 8; keep++ {
		id := fmt.Sprint("session-", keep)
		h.createWith(id, `{"first":true}`)
		s := h.begin(id, "run")
		for i := range 8 {
			c := h.stepCommit(s, fmt.Sprint("reply ", i))
			c.State = h.change(s, appendOp("/list", fmt.Sprint(i)))
			if i == 2 || i == 5 {
				var err error
				c.State.Keyframe, err = driver.FoldState(h.state(id, ""), [][]cairn.Op{c.State.Ops})
				h.must(err)
			}
			s = h.commit(id, c)
		}
		h.end(s)
		before := h.content(id)
		_, err := h.st.Prune(h.Context(), id, keep)
		h.must(err)
		after := h.content(id)
		same(h.T, "checkpoints that were kept", after.Checkpoints, before.Checkpoints[8-keep:])
		same(h.T, "states of those", after.At, before.At[8-keep:])
		same(h.T, "state", after.State, before.State)
		same(h.T, "messages", after.Messages, before.Messages)

		oldest := after.Checkpoints[0]
		branch, err := h.st.Branch(h.Context(), id, driver.BranchPoint{CheckpointID: oldest.ID}, &cairn.Session{ID: id + " branch", Agent: agentName})
		h.must(err)
		same(h.T, "state of a branch", h.state(branch.ID, ""), after.At[0])
		row, err := driver.Rewind(h.Context(), h.st, id, oldest.ID)
		h.must(err)
		same(h.T, "state after a rewind", h.state(id, ""), after.At[0])
		if row.State.Position != oldest.StatePosition || row.MessageCount != oldest.MessageCount {
			h.Fatalf("rewound row is %+v, the checkpoint %+v", row, oldest)
		}
		h.stepState(h.begin(id, "next run"), "reply", replaceOp("/next", "1"))
	}
}

func numbersNeverReused(h *harness) {
	h.create("session")
	s := h.step(h.begin("session", "run"), "base")
	base, highest := s.CheckpointID, int64(1)
	next := func() {
		h.Helper()
		s = h.step(h.load("session"), "reply")
		cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", s.CheckpointID)
		h.must(err)
		if cp.Number <= highest {
			h.Fatalf("checkpoint number %d was given before, the highest was %d", cp.Number, highest)
		}
		highest = cp.Number
	}
	next()
	next()
	h.commit("session", &driver.Commit{Rewind: base})
	next()
	_, err := h.st.Prune(h.Context(), "session", 1)
	h.must(err)
	next()
	h.commit("session", &driver.Commit{Rewind: h.load("session").CheckpointID})
	next()
	if highest != 6 {
		h.Fatalf("six checkpoints were written, the last has number %d", highest)
	}
}
