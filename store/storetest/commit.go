package storetest

import (
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var commitTests = []storeTest{
	{name: "CreateTakesItsFields", run: createFields},
	{name: "CreateTakesNothingElse", run: createNothingElse},
	{name: "CreateWithTheFirstRun", run: createWithRun},
	{name: "NameAndSecret", run: nameAndSecret},
	{name: "CreateIsIgnoredWhereThereIsASession", run: createIgnored},
	{name: "EmptyCommitCounts", run: emptyCommit},
	{name: "ReturnsTheRowAsItIs", run: returnsRow},
	{name: "RowIsTheCallers", run: rowIsCallers},
	{name: "StatusAndLogSequence", run: statusAndSequence},
	{name: "UsageIsAdded", run: usageSum},
	{name: "StepResetsRecoveries", run: stepAndRecoveries},
	{name: "ContextChange", run: contextChange},
	{name: "NamedOperations", run: namedOperations},
	{name: "AllFieldsAtOnce", run: everythingAtOnce},
	{name: "UnknownRewindWritesNothing", run: unknownRewind},
	{name: "UnknownEndRunWritesNothing", run: unknownEndRun},
	{name: "FailedCreationLeavesNothing", run: failedCreation},
	{name: "StatementsForOthersAreRefused", run: statementsForOthers},
}

func createFields(h *harness) {
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	given := &cairn.Session{ID: "child", Agent: agentName, UserID: "user", Tags: []string{"b", "a"},
		Metadata: cairn.Metadata{"k": "v", "empty": ""}, ExpiresAt: expires,
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Depth: 3, ParentID: "mother", RootID: "root"}
	got, err := driver.Create(h.Context(), h.st, given, []byte(`{"n":1}`))
	h.must(err)
	if got.CreatedAt.IsZero() || !got.UpdatedAt.Equal(got.CreatedAt) {
		h.Fatalf("created at %v, updated at %v", got.CreatedAt, got.UpdatedAt)
	}
	want := *given
	want.Status, want.Version, want.State = cairn.SessionIdle, 1, got.State
	want.CreatedAt, want.UpdatedAt, want.Lease.Token = got.CreatedAt, got.UpdatedAt, got.CreatedAt.UnixMicro()
	same(h.T, "the new row", got, &want)
	same(h.T, "the loaded row", h.load("child"), &want)
	h.wantState("child", "", `{"n":1}`)
	if got.State.Position != 0 {
		h.Fatalf("a new session's state is at position %d, want 0", got.State.Position)
	}
	root := h.create("plain")
	if root.RootID != "plain" || root.ThreadID != "plain" || root.ParentID != "" {
		h.Fatalf("a session without a root has root %q, thread %q and parent %q, want itself twice and none", root.RootID, root.ThreadID, root.ParentID)
	}
	if other := h.create("other"); root.Incarnation == "" || root.Incarnation == other.Incarnation {
		h.Fatalf("the incarnations of two roots are %q and %q", root.Incarnation, other.Incarnation)
	}
	child, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "plain child", Agent: agentName, ParentID: "plain",
		RootID: "plain", Incarnation: root.Incarnation}, nil)
	h.must(err)
	for _, s := range []*cairn.Session{root, child} {
		if got := h.load(s.ID); got.Incarnation != root.Incarnation || got.Log() != root.Log() {
			h.Fatalf("%q is of the incarnation %q with the log %q, want those of its root, %q and %q", s.ID, got.Incarnation, got.Log(), root.Incarnation, root.Log())
		}
	}
	h.wantState("plain", "", `{}`)
}

func createNothingElse(h *harness) {
	got, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "session", Agent: agentName, Status: cairn.SessionFailed,
		Version: 70, Epoch: 71, MessageCount: 72, RunID: "run", Turn: 73, Step: 74, Recoveries: 75, CheckpointID: "cp",
		LogSequence: 76, Lease: cairn.Lease{Owner: "o", Token: 77, Until: time.Now().Add(time.Hour)},
		State: cairn.StatePosition{Position: 78}, Usage: cairn.Usage{InputTokens: 79}, RunUsage: cairn.Usage{InputTokens: 79},
		CreatedAt: time.Unix(80, 0), UpdatedAt: time.Unix(81, 0), ArchivedAt: time.Unix(82, 0)}, nil)
	h.must(err)
	want := &cairn.Session{ID: "session", RootID: "session", ThreadID: "session", Agent: agentName, Status: cairn.SessionIdle, Version: 1,
		State: cairn.StatePosition{KeyframeBytes: got.State.KeyframeBytes}, CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
		Lease: cairn.Lease{Token: got.CreatedAt.UnixMicro()}, Incarnation: got.Incarnation}
	same(h.T, "the new row", got, want)
	if got.CreatedAt.Equal(time.Unix(80, 0)) {
		h.Fatal("the creation time is the caller's, not the store's")
	}
}

// nameAndSecret checks that given names and secrets are kept, that each session has its own secret otherwise, and that
// no JSON of a row contains it.
func nameAndSecret(h *harness) {
	given, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "given", Agent: agentName, Kind: cairn.ChildCompanion, Name: "helper ✓", Secret: "hush hush"}, nil)
	h.must(err)
	user := "user"
	secrets := map[string]string{}
	for _, row := range []*cairn.Session{given, h.load("given"), h.commit("given", &driver.Commit{Context: &driver.ContextChange{UserID: &user}}),
		h.commit("given", &driver.Commit{Create: &cairn.Session{Agent: agentName, Name: "other", Secret: "other"}}), h.load("given")} {
		if row.Kind != cairn.ChildCompanion || row.Name != "helper ✓" || row.Secret != "hush hush" {
			h.Fatalf("the kind is %q, the name %q and the secret %q, want those that were given", row.Kind, row.Name, row.Secret)
		}
		secrets[row.Secret] = row.ID
	}
	branch, err := h.st.Branch(h.Context(), "given", driver.BranchPoint{}, &cairn.Session{ID: "branch", Agent: agentName})
	h.must(err)
	for _, row := range []*cairn.Session{h.create("a"), h.create("b"), branch} {
		if other, taken := secrets[row.Secret]; taken || len(row.Secret) < 26 || row.Kind != "" || row.Name != "" {
			h.Fatalf("%q has the secret %q (%q has it too), the kind %q and the name %q, want a secret of its own and neither", row.ID, row.Secret, other,
				row.Kind, row.Name)
		}
		if loaded := h.load(row.ID); loaded.Secret != row.Secret {
			h.Fatalf("%q has the secret %q, later %q", row.ID, row.Secret, loaded.Secret)
		}
		secrets[row.Secret] = row.ID
	}
	list := h.list(driver.SessionQuery{})
	snap, err := h.st.Read(h.Context(), "given", driver.ToDrive(0))
	h.must(err)
	for _, row := range list {
		if id := secrets[row.Secret]; id != row.ID {
			h.Fatalf("in the list %q has the secret of %q", row.ID, id)
		}
	}
	if text := plain(h.T, list) + plain(h.T, snap); len(list) != 4 || snap.Session.Secret != "hush hush" || strings.Contains(text, "hush") || strings.Contains(text, branch.Secret) {
		h.Fatalf("the JSON of %d rows shows a secret:\n%s", len(list), text)
	}
}

func createWithRun(h *harness) {
	c := beginCommit("run", "worker", time.Hour)
	c.Create = &cairn.Session{Agent: agentName, UserID: "user"}
	c.Guard.Agent = agentName
	s := h.commit("session", c)
	if s.ID != "session" || s.UserID != "user" || s.Version != 1 || s.Turn != 1 || s.RunID != "run" ||
		s.MessageCount != 1 || s.Status != cairn.SessionActive || s.Lease.Token != s.CreatedAt.UnixMicro()+1 {
		h.Fatalf("first commit made %+v", s)
	}
}

func createIgnored(h *harness) {
	h.createWith("session", `{"n":1}`)
	s := h.commit("session", &driver.Commit{
		Create: &cairn.Session{ID: "session", Agent: "another", UserID: "other", Tags: []string{"new"}}, InitialState: []byte(`{"n":2}`)})
	if s.Agent != agentName || s.UserID != "" || len(s.Tags) > 0 || s.Version < 2 {
		h.Fatalf("Create changed an existing session: %+v", s)
	}
	h.wantState("session", "", `{"n":1}`)
}

func emptyCommit(h *harness) {
	s := h.create("session")
	for range 3 {
		next := h.commit("session", &driver.Commit{})
		if next.UpdatedAt.Before(s.UpdatedAt) {
			h.Fatalf("updated at %v, before that at %v", next.UpdatedAt, s.UpdatedAt)
		}
		want := *s
		h.grew(next, s)
		want.Version, want.UpdatedAt = next.Version, next.UpdatedAt
		same(h.T, "row after an empty commit", next, &want)
		s = next
	}
}

// returnsRow checks for each commit of a turn that it returns the row that is loaded afterwards.
func returnsRow(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	same(h.T, "row after begin", h.load("session"), s)
	for range 3 {
		s = h.stepState(s, "reply", replaceOp("/n", "1"))
		same(h.T, "row after a step", h.load("session"), s)
		snap, err := h.st.Read(h.Context(), "session", driver.ToDrive(0))
		h.must(err)
		same(h.T, "row in the snapshot", snap.Session, s)
	}
	s = h.end(s)
	same(h.T, "row after the end", h.load("session"), s)
	page, err := h.st.List(h.Context(), driver.SessionQuery{})
	h.must(err)
	same(h.T, "row in the list", page.Items, []*cairn.Session{s})
}

// rowIsCallers changes values that a store returned and was given: neither changes what is stored.
func rowIsCallers(h *harness) {
	s := h.running("session")
	messages := says("as it was")
	s = h.commit("session", &driver.Commit{Messages: messages, Guard: driver.Guard{Version: s.Version}})
	h.unchanged("session", "what its caller does to rows", func() {
		messages[0] = cairn.User(cairn.TextPart("changed"))
		snap, err := h.st.Read(h.Context(), "session", driver.ToDrive(0))
		h.must(err)
		for _, row := range []*cairn.Session{s, h.load("session"), snap.Session} {
			row.Version, row.Status, row.MessageCount = 99, cairn.SessionFailed, 99
		}
		run, err := driver.FindRun(h.Context(), h.st, "session", "run-of-session")
		h.must(err)
		run.Status = cairn.RunFailed
		cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", h.checkpointIDs("session")[0])
		h.must(err)
		cp.Number = 99
		_, err = h.st.Commit(h.Context(), "session", &driver.Commit{Guard: driver.Guard{New: true}})
		*h.wantConflict(err, cairn.ErrExists, "creation") = cairn.Session{}
	})
}

func statusAndSequence(h *harness) {
	h.create("session")
	for _, status := range []cairn.SessionStatus{cairn.SessionActive, cairn.SessionPaused, cairn.SessionCompleted,
		cairn.SessionFailed, cairn.SessionInterrupted, cairn.SessionIdle} {
		if got := h.commit("session", &driver.Commit{Status: status}).Status; got != status {
			h.Fatalf("status %q, want %q", got, status)
		}
		if got := h.commit("session", &driver.Commit{}).Status; got != status {
			h.Fatalf("status %q after a commit that sets none, want %q", got, status)
		}
	}
	for _, step := range []struct{ given, want int64 }{{5, 5}, {3, 5}, {0, 5}, {5, 5}, {9, 9}} {
		if got := h.commit("session", &driver.Commit{LogSequence: step.given}).LogSequence; got != step.want {
			h.Fatalf("log sequence %d after %d, want %d: it never goes back", got, step.given, step.want)
		}
	}
}

func usageSum(h *harness) {
	h.create("session")
	one := cairn.Usage{InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4, CacheWriteTokens: 5,
		WebSearches: 9, FileSearches: 10, ModelCalls: 6, ToolCalls: 7, ToolErrors: 8, Custom: map[string]float64{"pages": 1.5}}
	two := cairn.Usage{InputTokens: 1 << 40, Custom: map[string]float64{"pages": 0.25, "mails": 2}}
	h.commit("session", &driver.Commit{Usage: one})
	h.commit("session", &driver.Commit{Usage: two})
	s := h.commit("session", &driver.Commit{})
	same(h.T, "usage", s.Usage, one.Add(two))
	same(h.T, "usage loaded", h.load("session").Usage, one.Add(two))

	begin := beginCommit("run", "worker", time.Hour)
	begin.Usage = two
	s = h.commit("session", begin)
	same(h.T, "usage of a run that begins", s.RunUsage, two)
	s = h.commit("session", &driver.Commit{Usage: one})
	same(h.T, "usage of the run", s.RunUsage, two.Add(one))
	s = h.commit("session", &driver.Commit{UsageBeside: two})
	same(h.T, "usage of the run, without that beside it", s.RunUsage, two.Add(one))
	same(h.T, "usage of all", s.Usage, one.Add(two).Add(two).Add(one).Add(two))
	h.end(s)
	s = h.begin("session", "next run")
	same(h.T, "usage of the next run", s.RunUsage, cairn.Usage{})
	same(h.T, "usage loaded", h.load("session").Usage, s.Usage)
}

func stepAndRecoveries(h *harness) {
	h.create("session")
	h.begin("session", "run-1")
	h.commit("session", &driver.Commit{Recovered: true})
	s := h.commit("session", &driver.Commit{Recovered: true})
	if s.Recoveries != 2 || s.Step != 0 {
		h.Fatalf("%d recoveries, step %d, want 2 and 0", s.Recoveries, s.Step)
	}
	if s = h.commit("session", &driver.Commit{Step: 3}); s.Recoveries != 0 || s.Step != 3 {
		h.Fatalf("%d recoveries, step %d after a step, want 0 and 3", s.Recoveries, s.Step)
	}
	if s = h.commit("session", &driver.Commit{Recovered: true}); s.Recoveries != 1 || s.Step != 3 {
		h.Fatalf("%d recoveries, step %d, want 1 and 3", s.Recoveries, s.Step)
	}
	h.end(s)
	if s = h.begin("session", "run-2"); s.Recoveries != 0 || s.Step != 0 {
		h.Fatalf("a new run begins with %d recoveries at step %d, want 0 and 0", s.Recoveries, s.Step)
	}
}

func contextChange(h *harness) {
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "session", Agent: agentName, UserID: "user", Tags: []string{"a"},
		Metadata: cairn.Metadata{"keep": "1", "drop": "2", "change": "3"}}, nil)
	h.must(err)
	s := h.commit("session", &driver.Commit{Context: &driver.ContextChange{Metadata: cairn.Metadata{"drop": "", "change": "4", "new": "5"}}})
	same(h.T, "metadata", s.Metadata, cairn.Metadata{"keep": "1", "change": "4", "new": "5"})
	s = h.commit("session", &driver.Commit{Context: &driver.ContextChange{AddTags: []string{"b", "a", "b"},
		Metadata: cairn.Metadata{"new": nil, "change": map[string]any{"lines": []string{"x"}, "n": 1, "no": nil}}}})
	same(h.T, "metadata", s.Metadata, cairn.Metadata{"keep": "1", "change": map[string]any{"lines": []any{"x"}, "n": 1.0, "no": nil}})
	same(h.T, "tags", s.Tags, []string{"a", "b"})
	s = h.commit("session", &driver.Commit{Context: &driver.ContextChange{Tags: &[]string{"a"}, Metadata: cairn.Metadata{"change": nil, "x": 1, "y": true}}})
	if s.UserID != "user" || len(s.Tags) != 1 || !s.ExpiresAt.IsZero() {
		h.Fatalf("fields that were nil changed: %+v", s)
	}
	user, tags, expires := "other", []string{"x", "y"}, time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	s = h.commit("session", &driver.Commit{Context: &driver.ContextChange{UserID: &user, Tags: &tags, ExpiresAt: &expires}})
	if s.UserID != user || !s.ExpiresAt.Equal(expires) || len(s.Metadata) != 3 {
		h.Fatalf("row is %+v", s)
	}
	same(h.T, "tags", s.Tags, tags)
	nobody, none, never := "", []string{}, time.Time{}
	s = h.commit("session", &driver.Commit{Context: &driver.ContextChange{UserID: &nobody, Tags: &none, ExpiresAt: &never}})
	if s.UserID != "" || len(s.Tags) != 0 || !s.ExpiresAt.IsZero() {
		h.Fatalf("fields were not cleared: %+v", s)
	}
	same(h.T, "the loaded row", h.load("session"), s)
}

func namedOperations(h *harness) {
	if there, err := driver.Exists(h.Context(), h.st, "session"); err != nil || there {
		h.Fatalf("before creation: exists %v, %v", there, err)
	}
	h.create("session")
	if there, err := driver.Exists(h.Context(), h.st, "session"); err != nil || !there {
		h.Fatalf("after creation: exists %v, %v", there, err)
	}
	_, err := driver.AppendMessages(h.Context(), h.st, "session", says("one", "two")...)
	h.must(err)
	same(h.T, "messages", h.texts("session"), []string{"one", "two"})

	idle := []cairn.SessionStatus{cairn.SessionIdle, cairn.SessionFailed}
	row, ok, err := driver.CompareAndSetStatus(h.Context(), h.st, "session", idle, cairn.SessionPaused)
	if err != nil || !ok || row.Status != cairn.SessionPaused {
		h.Fatalf("status %v, %v, %v; want it set", row, ok, err)
	}
	row, ok, err = driver.CompareAndSetStatus(h.Context(), h.st, "session", idle, cairn.SessionFailed)
	if err != nil || ok || row.Status != cairn.SessionPaused {
		h.Fatalf("status %v, %v, %v; want it left as the store saw it", row, ok, err)
	}
	_, err = driver.AppendMessages(h.Context(), h.st, "nobody", says("one")...)
	h.wantError(err, cairn.ErrNotFound, "append to no session")
}

// everythingAtOnce ends a run, starts the next, and sets every other field in one commit.
func everythingAtOnce(h *harness) {
	h.create("session")
	s := h.step(h.begin("session", "run-1"), "reply 1")
	h.must(h.st.Stage(h.Context(), "session", s.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte(`1`)}))
	user := "user"
	next := h.commit("session", &driver.Commit{
		Guard:      driver.Guard{Token: s.Lease.Token, Version: s.Version, Agent: agentName},
		EndRun:     &cairn.Run{ID: "run-1", Agent: agentName, Status: cairn.RunFailed, Reason: cairn.ReasonCrashed, Steps: 1},
		StartRun:   &cairn.Run{ID: "run-2", Agent: agentName, Kind: cairn.RunRetry, Status: cairn.RunRunning, StartSequence: 12},
		Messages:   says("question", "more"),
		State:      &driver.StateChange{Ops: []cairn.Op{replaceOp("/n", "2")}},
		Step:       4,
		Recovered:  true,
		Checkpoint: &cairn.Checkpoint{ID: "cp", RunID: "run-2", StepID: "step", Step: 4, LogSequence: 13},
		Status:     cairn.SessionActive, LogSequence: 13, Usage: cairn.Usage{ModelCalls: 1},
		Lease:      driver.LeaseChange{Action: driver.LeaseTake, Owner: "next", TTL: time.Hour},
		DropStaged: true,
		Context:    &driver.ContextChange{UserID: &user},
	})
	if next.Turn != 2 || next.RunID != "run-2" || next.Step != 4 || next.Recoveries != 1 || next.MessageCount != s.MessageCount+2 ||
		next.CheckpointID != "cp" || next.LogSequence != 13 || next.Usage.ModelCalls != 1 || next.Lease.Owner != "next" ||
		next.Lease.Token <= s.Lease.Token || next.UserID != "user" || next.State.Position != s.State.Position+1 || next.Version <= s.Version {
		h.Fatalf("row is %+v, was %+v", next, s)
	}
	all := h.content("session")
	if len(all.Staged) > 0 || len(all.Runs) != 2 || all.Runs[0].Status != cairn.RunFailed || all.Runs[1].FirstMessage != s.MessageCount {
		h.Fatalf("staged %v, runs %+v", all.Staged, all.Runs)
	}
	if cp := all.Checkpoints[1]; cp.Turn != 2 || cp.MessageCount != next.MessageCount || cp.StatePosition != next.State.Position || cp.ParentID != s.CheckpointID {
		h.Fatalf("checkpoint %+v is not that of the session after the commit", cp)
	}
}

// everythingBut returns a commit that would change all that a commit can, for tests in which it must not.
func (h *harness) everythingBut(s *cairn.Session) *driver.Commit {
	user := "another user"
	c := h.stepCommit(s, "must not be written")
	c.StartRun = &cairn.Run{ID: h.newID("unwanted"), Agent: agentName, Status: cairn.RunRunning}
	c.State = &driver.StateChange{Ops: []cairn.Op{replaceOp("/unwanted", "true")}}
	c.Status, c.LogSequence, c.Usage = cairn.SessionFailed, 1<<40, cairn.Usage{ModelCalls: 99}
	c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: "unwanted", TTL: time.Hour}
	c.DropStaged, c.Context = true, &driver.ContextChange{UserID: &user}
	c.Suspend = &driver.Suspend{StepID: "unwanted", OpenCalls: 99, NextDeadline: at(1)}
	c.Calls, c.Enqueue = []driver.CallWrite{asks(h.newID("unwanted"), "step", "ann")}, &driver.QueuedTurn{ID: h.newID("unwanted")}
	c.Cache, c.CacheDrop = []driver.CacheEntry{{Key: "unwanted"}}, []string{"key"}
	return c
}

// running makes a session in the middle of a run: a message, a step with state and pending work, and something staged.
func (h *harness) running(id string) *cairn.Session {
	h.Helper()
	h.createWith(id, `{"n":0}`)
	s := h.begin(id, "run-of-"+id)
	c := withWait(h.stepCommit(s, "reply"), id)
	c.State = h.change(s, replaceOp("/n", "1"))
	s = h.commit(id, c)
	h.must(h.st.Stage(h.Context(), id, s.Lease.Token, driver.Staged{StepID: "next", Key: "reply", Data: []byte(`{"x":1}`)}))
	return s
}

func unknownRewind(h *harness) {
	s := h.running("session")
	c := h.everythingBut(s)
	c.Rewind = "no such checkpoint"
	h.unchanged("session", "a commit that rewinds to nothing", func() {
		_, err := h.st.Commit(h.Context(), "session", c)
		h.wantError(err, cairn.ErrNotFound, "rewind to an unknown checkpoint")
	})
}

func unknownEndRun(h *harness) {
	s := h.running("session")
	c := h.everythingBut(s)
	c.EndRun = &cairn.Run{ID: "no such run", Status: cairn.RunCompleted}
	h.unchanged("session", "a commit that ends an unknown run", func() {
		_, err := h.st.Commit(h.Context(), "session", c)
		h.wantError(err, cairn.ErrNotFound, "end of an unknown run")
	})
}

func failedCreation(h *harness) {
	_, err := h.st.Commit(h.Context(), "session", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Messages: says("one"), Rewind: "nothing"})
	h.wantError(err, cairn.ErrNotFound, "creation with a rewind")
	if there, err := driver.Exists(h.Context(), h.st, "session"); err != nil || there {
		h.Fatalf("the session exists after its creation failed: %v, %v", there, err)
	}
	if s := h.create("session"); s.Version != 1 || s.MessageCount != 0 {
		h.Fatalf("the session begins as %+v", s)
	}
}

func replaceOp(path, value string) cairn.Op {
	return cairn.Op{Kind: cairn.OpReplace, Path: path, Value: []byte(value)}
}

func deleteOp(path string) cairn.Op { return cairn.Op{Kind: cairn.OpDelete, Path: path} }

// statementsForOthers commits statements in a dialect that no store executes.
func statementsForOthers(h *harness) {
	h.create("s")
	for _, dialect := range []string{"", "Fortran"} {
		c := &driver.Commit{Step: 3, Statements: []driver.Statement{{Dialect: dialect, Tool: "pay", SQL: "SELECT 1"}}}
		h.unchanged("s", "a commit with a statement of another dialect", func() {
			_, err := h.st.Commit(h.Context(), "s", c)
			h.wantError(err, cairn.ErrInvalid, "a statement for "+dialect)
		})
	}
}
