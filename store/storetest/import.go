package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

var importTests = []storeTest{
	{name: "TextsOfRuns", run: importsTexts},
	{name: "Everything", run: importsEverything},
	{name: "InPages", run: importsInPages},
	{name: "SuspendedContinues", run: importContinues},
	{name: "CrashedIsTakenOver", run: importTakenOver},
	{name: "RewindToEachCheckpoint", run: importRewinds},
	{name: "BranchFromEachCheckpoint", run: importBranches},
	{name: "RunsAreTakenBack", run: importRewindsRun},
	{name: "EventsFromEachSequence", run: importedEvents},
	{name: "TrimmedLog", run: importTrimmed},
	{name: "Expiry", run: importExpires, needs: func(o *Options) bool { return o.sweeps }},
	{name: "ClockSetBack", run: clockSetBack},
	{name: "ExpiryWithTheClockSetBack", run: expiryClockSetBack, needs: func(o *Options) bool { return o.sweeps }},
	{name: "WhatIsThereStays", run: importOverOthers},
	{name: "Again", run: importsAgain},
	{name: "RunningIsRefused", run: importRunning},
	{name: "ChangedMeanwhile", run: importChanging},
	{name: "Damaged", run: importDamaged},
	{name: "SourceFails", run: importCut},
	{name: "Cancelled", run: importCancelled},
	{name: "Race", run: importRace},
	{name: "SecondHandleSees", run: importSeen, needs: needsSecond},
	{name: "Faults", run: faultyImport, needs: needsFault},
}

// importer returns the store as an Importer. Only tests that need one call it.
func (h *harness) importer() driver.Importer { return h.st.(driver.Importer) }

// other returns a harness on another empty store of the same kind.
func (h *harness) other() *harness { return h.on(h.open(h.T)) }

// grown makes a tree of a root, two children and a grandchild that have something of everything, and returns its ids.
func (h *harness) grown(root string) []string {
	h.Helper()
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: root, Agent: agentName, UserID: "ann", Tags: []string{"a", "ü"},
		Metadata: cairn.Metadata{"k": "v"}, TraceParent: "00-1-2-03", Depth: 2, ExpiresAt: at(7), TTL: cairn.Duration(time.Hour)}, []byte(`{"n":0,"list":[]}`))
	h.must(err)
	child, companion, grandchild := "child of "+root, "companion of "+root, "grandchild of "+root
	h.tree(child, root)
	for id, parent := range map[string]string{companion: root, grandchild: child} {
		_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: "other", ParentID: parent, RootID: root, Name: "named " + id}, nil)
		h.must(err)
	}

	s := h.begin(root, "first run")
	for i := range 4 {
		s = h.stepState(s, fmt.Sprint("reply ", i), appendOp("/list", fmt.Sprint(i)), replaceOp("/n", fmt.Sprint(i)))
	}
	h.end(s)
	_, err = driver.MergeState(h.Context(), h.st, root, replaceOp("/n", "7"))
	h.must(err)
	_, err = driver.Rewind(h.Context(), h.st, root, h.checkpointIDs(root)[2])
	h.must(err)
	_, err = h.st.Prune(h.Context(), root, 2)
	h.must(err)

	s = h.begin(root, "second run")
	s = h.stepState(s, "asks", replaceOp("/n", "8"))
	c := withWait(h.stepCommit(s, "waits"), root)
	c.Calls = append(c.Calls, asks("another call of "+root, "step-of-"+root))
	c.EndRun = endCommit(s).EndRun
	c.EndRun.Status, c.EndRun.Reason, c.EndRun.Suspended = cairn.RunSuspended, cairn.ReasonCalls, &cairn.Suspension{StepID: "step-of-" + root, Children: []cairn.ChildRef{{CallID: "call", SessionID: child, Agent: agentName, Kind: cairn.ChildSubAgent}}}
	c.Usage = cairn.Usage{InputTokens: 3, OutputTokens: 4, Custom: map[string]float64{"cents": 0.25}}
	c.Status, c.Lease.Action = cairn.SessionPaused, driver.LeaseRelease
	c.Suspend = &driver.Suspend{StepID: "step-of-" + root, OpenCalls: 2, NextDeadline: at(3)}
	c.Context = &driver.ContextChange{Archived: new(true)}
	h.commit(root, c)
	h.write(root, answers(h.call(root, "another call of "+root), "ann"))
	h.commit(root, &driver.Commit{Ending: stopOf("second run")})

	h.commit(child, beginCommit("run of the child", "worker", brief))
	s = h.load(child)
	h.stage(s, piece("staged", "reply", `{"a":1}`), piece("staged", "b", `2`), piece("before", "reply", `3`))
	h.requestStop(child, interrupt("run of the child", "no longer needed"))
	h.commit(companion, &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step"}})
	h.commit(grandchild, &driver.Commit{Messages: says("hello"), Enqueue: &driver.QueuedTurn{ID: "later", Messages: says("more")}})
	testclock.Await(h.T, "the child's lease to lapse", func() bool { return !h.load(child).Running(time.Now()) })

	log := h.importer().EventLog()
	_, err = log.Append(h.Context(), h.log(root), 0, lines(1, 12)...)
	h.must(err)
	h.must(log.Trim(h.Context(), h.log(root), 4))
	return []string{root, child, companion, grandchild}
}

// whole is everything that can be read of the sessions of a store and of the log of one tree.
type whole struct {
	Sessions []cairn.Session
	Secrets  []string
	Contents []*content
	Inside   []*driver.Inside
	Calls    []cairn.PendingCall
	Due      []driver.Due
	First    int64
	Last     int64
	Events   []cairn.Event
}

func (h *harness) whole(root string, ids []string) *whole {
	h.Helper()
	w := &whole{Sessions: h.list(driver.SessionQuery{}), Calls: h.calls(driver.CallQuery{})}
	for _, id := range ids {
		w.Secrets, w.Contents = append(w.Secrets, h.load(id).Secret), append(w.Contents, h.content(id))
		inside, err := h.importer().Inside(h.Context(), id, 0, math.MaxInt32)
		h.must(err)
		w.Inside = append(w.Inside, inside)
	}
	var err error
	due, err := h.st.Due(h.Context(), driver.DueQuery{})
	w.Due = due.Items
	h.must(err)
	log := h.importer().EventLog()
	w.First, w.Last, err = log.Bounds(h.Context(), h.log(root))
	h.must(err)
	w.Events, err = log.Read(h.Context(), h.log(root), w.First-1, 0)
	h.must(err)
	return w
}

// imports copies a tree, which a run may hold, into another store.
func (h *harness) imports(from *harness, root string) {
	h.Helper()
	h.must(h.importer().Import(h.Context(), root, store.Export(h.Context(), from.importer(), root)))
	difference, err := store.Compare(h.Context(), from.importer(), h.importer(), root)
	if err != nil || difference != "" {
		h.Fatalf("the copy of %q differs in %s, %v", root, difference, err)
	}
}

// absent checks that nothing is left of a tree: its ids and its log are free.
func (h *harness) absent(root string, ids []string, what string) {
	h.Helper()
	for _, id := range ids {
		if h.content(id) != nil {
			h.Fatalf("%s: session %q is there", what, id)
		}
	}
	if list := h.calls(driver.CallQuery{RootID: root}); len(list) > 0 {
		h.Fatalf("%s: calls %s are there", what, callIDs(list))
	}
	if first, last, err := h.importer().EventLog().Bounds(h.Context(), h.log(root)); err != nil || first != 1 || last != 0 {
		h.Fatalf("%s: the log goes from %d to %d, %v", what, first, last, err)
	}
}

func importsEverything(h *harness) {
	ids := h.grown("root")
	to := h.other()
	copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "root")
	if err != nil || !copied {
		h.Fatalf("copied %t, %v", copied, err)
	}
	same(h.T, "the copy", to.whole("root", ids), h.whole("root", ids))
	for _, q := range []driver.SessionQuery{{UserID: "ann"}, {Agent: "other"}, {Tags: []string{"ü"}}, {Metadata: cairn.Metadata{"k": "v"}},
		{ThreadID: "root"}, {ParentID: "root"}, {RootID: "root"}, {RootsOnly: true}, {Statuses: []cairn.SessionStatus{cairn.SessionPaused}}} {
		same(h.T, fmt.Sprintf("sessions of %+v", q), to.list(q), h.list(q))
	}
	for _, q := range []driver.CallQuery{{Reviewer: "ann"}, {Statuses: []cairn.CallStatus{cairn.CallOpen}}, {UserID: "ann"}, {Agent: agentName},
		{Reviewer: "bob", Statuses: []cairn.CallStatus{cairn.CallOpen}}, {SessionID: "root", StepID: "step-of-root"}, {DueBefore: at(100)}} {
		same(h.T, fmt.Sprintf("calls of %+v", q), to.calls(q), h.calls(q))
	}
}

// importsTexts copies runs whose texts are those of messages, some of which a rewind has removed, and rewinds the copy.
func importsTexts(h *harness) {
	h.create("root")
	var texts []string
	var first *cairn.Session
	for i := range 4 {
		texts = append(texts, fmt.Sprint("answer ", i))
		s := h.answers("root", fmt.Sprint("run-", i), cairn.TextPart(texts[i]))
		switch i {
		case 0:
			first = s
		case 2:
			h.commit("root", &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: first.CheckpointID})
		}
	}
	to := h.other()
	if copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "root"); err != nil || !copied {
		h.Fatalf("copied %t, %v", copied, err)
	}
	to.wantTexts("root", texts...)
	to.commit("root", &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: first.CheckpointID})
	to.commit("root", &driver.Commit{Messages: says("in its place", "of another one")})
	to.wantTexts("root", texts...)
	h.wantTexts("root", texts...)
}

// importsInPages copies more of everything than one part holds.
func importsInPages(h *harness) {
	h.createWith("root", `{"list":[]}`)
	s := h.begin("root", "run")
	for i := range 110 {
		s = h.stepState(s, fmt.Sprint("reply ", i), appendOp("/list", `"`+fmt.Sprint(i)+` and some length"`))
	}
	h.end(s)
	var writes []driver.CallWrite
	for i := range 101 {
		writes = append(writes, asks(fmt.Sprintf("call-%03d", i), "step"))
	}
	h.write("root", writes...)
	for i := range 101 {
		h.end(h.begin("root", fmt.Sprint("run-", i)))
	}
	_, err := h.importer().EventLog().Append(h.Context(), h.log("root"), 0, lines(1, 250)...)
	h.must(err)
	for part, err := range store.Export(h.Context(), h.importer(), "root") {
		h.must(err)
		n := max(len(part.Messages), len(part.States), len(part.Runs), len(part.Checkpoints), len(part.Calls), len(part.Events))
		if n > 100 {
			h.Fatalf("a part holds %d things", n)
		}
	}
	to := h.other()
	to.imports(h, "root")
	same(h.T, "the copy", to.whole("root", []string{"root"}), h.whole("root", []string{"root"}))
}

// importContinues answers a call of a copy and resumes its run, as a person and a worker would.
func importContinues(h *harness) {
	h.grown("root")
	to := h.other()
	to.imports(h, "root")
	before := to.load("root")
	to.write("root", answers(to.call("root", "call-of-root"), "bob"))
	c := beginCommit("third run", "another worker", time.Hour)
	c.StartRun.Kind, c.Suspend = cairn.RunResume, &driver.Suspend{}
	c.Dequeue, c.Guard.Version = []string{"turn-of-root"}, to.load("root").Version
	s := to.commit("root", c)
	if s.Turn != before.Turn+1 || s.Lease.Token <= before.Lease.Token || s.Queued != 0 || s.MessageCount != before.MessageCount+1 {
		h.Fatalf("the run began as %+v after %+v", s, before)
	}
	s = to.stepState(s, "goes on", appendOp("/list", "9"))
	cp, err := driver.FindCheckpoint(h.Context(), to.st, "root", s.CheckpointID)
	h.must(err)
	if last := h.checkpoints("root"); cp.Number != last[len(last)-1].Number+1 || cp.ParentID != before.CheckpointID {
		h.Fatalf("the next checkpoint is %+v", cp)
	}
	to.end(s)
	to.wantState("root", "", `{"n":8,"list":[0,1,2,9]}`)
	to.must(to.st.Delete(h.Context(), "root"))
	to.create("root")
}

// importTakenOver has a worker find a copied run whose process died, with its stop request.
func importTakenOver(h *harness) {
	h.grown("root")
	to := h.other()
	to.imports(h, "root")
	due := to.awaitDue("child of root")
	if due.Kind != driver.DueCrashed {
		h.Fatalf("due as %+v", due)
	}
	before := to.load("child of root")
	s := to.commit("child of root", &driver.Commit{Guard: driver.Guard{Lapsed: true},
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "heir", TTL: time.Hour}})
	if s.Lease.Token <= before.Lease.Token {
		h.Fatalf("token %d after %d", s.Lease.Token, before.Lease.Token)
	}
	stop, err := to.st.Renew(h.Context(), "child of root", s.Lease.Token, time.Hour)
	if err != nil || stop == nil || stop.Reason != "no longer needed" {
		h.Fatalf("stop request %+v, %v", stop, err)
	}
	err = to.st.Stage(h.Context(), "child of root", before.Lease.Token, piece("staged", "late", `1`))
	to.wantConflict(err, cairn.ErrFenced, "staging by the process that died")
}

// importRewinds rewinds a copy to each of its checkpoints, newest first, continues there each time, and copies the
// result.
func importRewinds(h *harness) {
	h.grown("root")
	to := h.other()
	to.imports(h, "root")
	for i, id := range slices.Backward(h.checkpointIDs("root")) {
		_, err := driver.Rewind(h.Context(), to.st, "root", id)
		h.must(err)
		to.wantState("root", "", string(h.state("root", id)))
		s := to.begin("root", fmt.Sprint("after rewind ", i))
		to.end(to.stepState(s, "again", replaceOp("/n", "100")))
	}
	again := h.other()
	again.imports(to, "root")
	same(h.T, "a copy of the copy", again.content("root"), to.content("root"))
}

func importBranches(h *harness) {
	h.grown("root")
	to := h.other()
	to.imports(h, "root")
	for _, cp := range h.checkpoints("root") {
		branch := "branch at " + cp.ID
		to.branch("root", driver.BranchPoint{CheckpointID: cp.ID}, branch)
		to.wantState(branch, "", string(h.state("root", cp.ID)))
		same(h.T, "messages", to.texts(branch), h.texts("root")[:cp.MessageCount])
		to.branch("root", driver.BranchPoint{Messages: &cp.MessageCount}, branch+" by its messages")
	}
	n, err := to.st.Prune(h.Context(), "root", 1)
	if want := len(h.checkpoints("root")) - 1; err != nil || n != want {
		h.Fatalf("pruned %d checkpoints, %v, want %d", n, err, want)
	}
	to.wantState("root", "", string(h.state("root", "")))
}

// importRewindsRun rewinds the latest run of a copy.
func importRewindsRun(h *harness) {
	h.threeSteps("root")
	h.tries("root", "tried")
	to := h.other()
	to.imports(h, "root")
	for _, each := range []*harness{h, to} {
		each.commit("root", &driver.Commit{Guard: driver.Guard{Idle: true}, RewindRun: "tried", Status: cairn.SessionInterrupted})
	}
	same(h.T, "state", to.state("root", ""), h.state("root", ""))
	same(h.T, "messages", to.messages("root"), h.messages("root"))
	same(h.T, "checkpoints", to.checkpoints("root"), h.checkpoints("root"))
}

// importedEvents follows the log of a copy from each of its sequences, including events appended after the copy.
func importedEvents(h *harness) {
	h.create("root")
	const total = 8
	_, err := h.importer().EventLog().Append(h.Context(), h.log("root"), 0, lines(1, total+1)...)
	h.must(err)
	to := h.other()
	to.imports(h, "root")
	log := to.importer().EventLog()
	if last, err := log.Append(h.Context(), h.log("root"), total, say("after the copy")); err != nil || last != total+1 {
		h.Fatalf("the next event has sequence %d, %v", last, err)
	}
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	for after := range int64(total + 1) {
		list, err := take(log.Follow(ctx, h.log("root"), after), int(total+1-after))
		h.must(err)
		h.must(checkContiguous(list, after))
		if text := list[len(list)-1].Text; text != "after the copy" {
			h.Fatalf("the last event after %d says %q", after, text)
		}
	}
}

// importTrimmed copies logs of which nothing or only the end is left. The copy's log refuses old fencing tokens.
func importTrimmed(h *harness) {
	for root, keep := range map[string]int64{"some": 7, "none": 11} {
		h.create(root)
		s := h.begin(root, "run")
		h.end(s)
		log := h.importer().EventLog()
		_, err := log.Append(h.Context(), h.log(root), 0, lines(1, 11)...)
		h.must(err)
		h.must(log.Trim(h.Context(), h.log(root), keep))
		to := h.other()
		to.imports(h, root)
		log = to.importer().EventLog()
		_, err = log.Read(h.Context(), h.log(root), keep-2, 0)
		h.wantError(err, cairn.ErrTrimmed, "reading what was trimmed before the copy")
		if first, last, err := log.Bounds(h.Context(), h.log(root)); err != nil || first != keep || last != 10 {
			h.Fatalf("the log goes from %d to %d, %v, want %d to 10", first, last, err, keep)
		}
		if sweeper, ok := log.(driver.LogSweeper); ok && keep <= 10 {
			if page, err := sweeper.Unswept(h.Context(), 0, driver.PageQuery{}); err != nil || !slices.Contains(page.Items, h.log(root)) {
				h.Fatalf("of the copies due for a sweep are %q, %v", page.Items, err)
			}
		}
		f, ok := log.(driver.Fencer)
		if !ok {
			continue
		}
		_, err = f.AppendFenced(h.Context(), h.log(root), driver.AnySequence, holds(root, s.Lease.Token-1), say("late"))
		h.wantError(err, cairn.ErrFenced, "an event of an earlier holder")
		if last, err := f.AppendFenced(h.Context(), h.log(root), 10, holds(root, s.Lease.Token), say("next")); err != nil || last != 11 {
			h.Fatalf("the next event has sequence %d, %v", last, err)
		}
	}
}

// importExpires lets a copy expire.
func importExpires(h *harness) {
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "root", Agent: agentName, ExpiresAt: future}, nil)
	h.must(err)
	to := h.other()
	to.imports(h, "root")
	_, err = driver.SetContext(h.Context(), to.st, "root", driver.ContextChange{ExpiresAt: &past})
	h.must(err)
	same(h.T, "stale copies", to.stale(), []string{"root"})
	to.awaitGone("root")
	h.load("root")
	to.wantError(to.importer().Import(h.Context(), "root", store.Export(h.Context(), h.importer(), "root")), cairn.ErrExpired, "import over what has expired")
}

// importOverOthers imports a tree when one of its ids or its log's name is taken: it is refused.
func importOverOthers(h *harness) {
	to := h.other()
	for i := range 4 {
		root := fmt.Sprint("root ", i)
		ids := h.grown(root)
		taken := ids[i]
		to.threeSteps(taken)
		to.unchanged(taken, "an import of a tree that has its id", func() {
			err := to.importer().Import(h.Context(), root, store.Export(h.Context(), h.importer(), root))
			to.wantError(err, cairn.ErrExists, "import over "+taken)
		})
		to.absent(root, slices.Delete(ids, i, i+1), "import over "+taken)
	}
	h.create("root")
	_, err := to.importer().EventLog().Append(h.Context(), h.log("root"), 0, say("another's"))
	h.must(err)
	err = to.importer().Import(h.Context(), "root", store.Export(h.Context(), h.importer(), "root"))
	to.wantError(err, cairn.ErrExists, "import over a log")
	if list, err := to.importer().EventLog().Read(h.Context(), h.log("root"), 0, 0); err != nil || len(list) != 1 || to.content("root") != nil {
		h.Fatalf("the log has %d events, %v", len(list), err)
	}
}

// importsAgain copies a tree that already exists: nothing happens if it is the same.
func importsAgain(h *harness) {
	h.grown("root")
	to := h.other()
	for i := range 2 {
		copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "root")
		if err != nil || copied != (i == 0) {
			h.Fatalf("copy %d: copied %t, %v", i, copied, err)
		}
	}
	differs := func(what string) {
		copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "root")
		h.wantError(err, cairn.ErrExists, "copy over one that differs in "+what)
		if copied {
			h.Fatalf("it was copied over one that differs in %s", what)
		}
	}
	_, err := to.importer().EventLog().Append(h.Context(), h.log("root"), 11, say("more"))
	h.must(err)
	differs("an event")
	to.commit("grandchild of root", &driver.Commit{Messages: says("more")})
	differs("a message")
	h.must(to.st.Delete(h.Context(), "grandchild of root"))
	differs("a session")
	_, err = store.Copy(h.Context(), h.importer(), to.importer(), "child of root")
	h.wantError(err, cairn.ErrInvalid, "copy of a child")
	_, err = store.Copy(h.Context(), h.importer(), to.importer(), "nobody")
	h.wantError(err, cairn.ErrNotFound, "copy of nobody")
}

func importRunning(h *harness) {
	h.create("root")
	h.tree("child", "root")
	s := h.begin("child", "run")
	to := h.other()
	_, err := store.Copy(h.Context(), h.importer(), to.importer(), "root")
	if seen := h.wantConflict(err, cairn.ErrAlreadyRunning, "copy of a tree that runs"); seen.ID != "child" {
		h.Fatalf("%q is reported as running", seen.ID)
	}
	to.absent("root", []string{"root", "child"}, "a copy that was refused")
	h.end(s)
	if copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "root"); err != nil || !copied {
		h.Fatalf("copied %t, %v, after the run has ended", copied, err)
	}
}

// importChanging changes a tree while it is being read.
func importChanging(h *harness) {
	for what, change := range map[string]func(root string){
		"message": func(root string) { h.commit(root, &driver.Commit{Messages: says("more")}) },
		"event": func(root string) {
			_, err := h.importer().EventLog().Append(h.Context(), h.log(root), driver.AnySequence, say("more"))
			h.must(err)
		},
		"child": func(root string) { h.tree("late child of "+root, root) },
	} {
		root := "root " + what
		ids := h.grown(root)
		to := h.other()
		changed := false
		parts := func(yield func(*driver.Part, error) bool) {
			for part, err := range store.Export(h.Context(), h.importer(), root) {
				if !changed && len(part.Checkpoints) > 0 {
					change(root)
					changed = true
				}
				if !yield(part, err) {
					return
				}
			}
		}
		err := to.importer().Import(h.Context(), root, parts)
		h.wantError(err, cairn.ErrStale, "import of a tree that got another "+what)
		to.absent(root, ids, "another "+what)
	}
}

func importCancelled(h *harness) {
	ids := h.grown("root")
	list := h.parts("root")
	to := h.other()
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if err := to.importer().Import(ctx, "root", given(list)); !errors.Is(err, context.Canceled) {
		h.Fatalf("error %v", err)
	}
	to.absent("root", ids, "a cancelled import")
	if _, err := to.importer().Inside(ctx, "root", 0, 1); err == nil {
		h.Fatal("a cancelled look succeeds")
	}
	_, err := to.importer().Inside(h.Context(), "root", 0, 1)
	to.wantError(err, cairn.ErrNotFound, "a look at nobody")
}

// importRace imports a tree several times concurrently: one of the imports wins.
func importRace(h *harness) {
	to := h.other()
	for i := range h.rounds(5) {
		root := fmt.Sprint("root ", i)
		h.threeSteps(root)
		list := h.parts(root)
		errs := race(4, func(int) error { return to.importer().Import(h.Context(), root, given(list)) })
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				to.wantError(err, cairn.ErrExists, "an import that lost")
			}
		}
		if won != 1 {
			h.Fatalf("%d imports won", won)
		}
		same(h.T, "the copy", to.content(root), h.content(root))
	}
}

func importSeen(h *harness) {
	ids := h.grown("root")
	to := h.other()
	second := h.on(h.opts.Second(h.T, to.st))
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	followed := make(chan error, 1)
	go func() {
		_, err := take(second.importer().EventLog().Follow(ctx, h.log("root"), 3), 8)
		followed <- err
	}()
	to.imports(h, "root")
	same(h.T, "the copy through a second handle", second.whole("root", ids), h.whole("root", ids))
	if err := <-followed; err != nil && !errors.Is(err, cairn.ErrTrimmed) {
		h.Fatal(err)
	}
}

// faultyImport makes each internal write of an import fail in turn.
func faultyImport(h *harness) {
	to := h.other()
	for n := 1; n <= mostWrites; n++ {
		root := h.newID("session")
		h.create(root) // a small tree that has something of nearly everything
		h.commit(root, withWait(&driver.Commit{Messages: says("hello")}, root))
		h.end(h.step(h.begin(root, "run"), "reply"))
		_, err := h.importer().EventLog().Append(h.Context(), h.log(root), 0, lines(1, 3)...)
		h.must(err)
		list := h.parts(root)
		disarm := h.opts.Fault(h.T, to.st, n)
		err = to.importer().Import(h.Context(), root, given(list))
		failed := disarm()
		if err != nil {
			to.wantError(err, cairn.ErrUnavailable, "import")
			to.absent(root, []string{root}, "an import that failed")
			to.must(to.importer().Import(h.Context(), root, given(list)))
		}
		same(h.T, "the copy", to.content(root), h.content(root))
		if !failed {
			if n == 1 {
				h.Fatal("no internal write was made to fail")
			}
			return
		}
	}
	h.Fatalf("still failing at internal write %d", mostWrites)
}
