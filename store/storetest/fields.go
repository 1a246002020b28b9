package storetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/sample"
	"github.com/cairn-agents/cairn/store/driver"
)

var fieldTests = []storeTest{
	{name: "EveryFieldIsReadBack", run: testEveryFieldIsReadBack},
}

// rows are what a history of commits has left in a store's lists, and the session's row after each commit.
type rows struct {
	*harness
	id       string
	sessions []cairn.Session
}

// write commits, and checks that the row read afterwards is the one that the commit returned.
func (r *rows) write(c *driver.Commit) *cairn.Session {
	r.Helper()
	answer := r.commit(r.id, c)
	read := r.load(r.id)
	as := *answer
	as.AsOf = read.AsOf
	if !reflect.DeepEqual(&as, read) {
		r.Fatalf("a commit answers\n%+v\nand this is read:\n%+v", as, *read)
	}
	r.sessions = append(r.sessions, *read)
	return answer
}

// fullEnd returns a commit that suspends a run, with all that may come with it and every field set. message is in its
// queued turn.
func fullEnd(s *cairn.Session, message cairn.Message) *driver.Commit {
	c := endCommit(s)
	id := c.EndRun.ID
	sample.Fill(c.EndRun)
	c.EndRun.ID, c.EndRun.Status, c.EndRun.Reason, c.Status = id, cairn.RunSuspended, cairn.ReasonCalls, cairn.SessionPaused
	c.Suspend = &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: sample.Time}
	var call cairn.PendingCall
	sample.Fill(&call)
	call.Status = cairn.CallOpen
	c.Calls = []driver.CallWrite{{Call: call}}
	c.Enqueue = &driver.QueuedTurn{}
	sample.Fill(c.Enqueue)
	c.Enqueue.Messages = []cairn.Message{message}
	c.Cache = make([]driver.CacheEntry, 1)
	sample.Fill(&c.Cache[0])
	c.Events, c.Outbox = make([]cairn.Event, 1), true
	sample.Fill(&c.Events[0])
	c.Events[0].Sequence, c.Events[0].Incarnation = 0, ""
	return c
}

// testEveryFieldIsReadBack: a field that is added to a row, a run, a checkpoint or anything else that is stored must be
// written and read back.
func testEveryFieldIsReadBack(h *harness) {
	const root = "acme::root"
	h.create(root)
	r := &rows{harness: h, id: "acme::child"}
	var create cairn.Session
	sample.Fill(&create)
	create.ID, create.UserID, create.ThreadID = r.id, "acme::alice", "acme::thread"
	create.Branch.From = "acme::source"
	create.ParentID, create.RootID, create.Incarnation = root, root, h.load(root).Incarnation
	create.ExpiresAt, create.TTL = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), cairn.Duration(time.Hour)
	r.write(&driver.Commit{Guard: driver.Guard{New: true}, Create: &create, Messages: []cairn.Message{cairn.Context("first")}})

	begin := beginCommit("run", "worker", time.Hour)
	sample.Fill(begin.StartRun)
	begin.StartRun.ID, begin.StartRun.Status = "run", cairn.RunRunning
	begin.Usage, begin.LogSequence = begin.StartRun.Usage, 5
	s := r.write(begin)
	step := func(text string) *driver.Commit {
		c := h.stepCommit(s, text)
		c.State = h.change(s, appendOp("/list", `"`+text+`"`))
		c.Checkpoint.LogSequence = 6
		return c
	}
	first := step("one")
	s = r.write(first)
	s = r.write(step("two"))
	s = r.write(&driver.Commit{Rewind: first.Checkpoint.ID, Recovered: true})
	var message cairn.Message
	sample.Fill(&message)
	message.Summary.From, message.Trust = 1, cairn.TrustTainted
	for _, p := range message.Parts {
		for i := range p.Result.Artifacts {
			p.Result.Artifacts[i].MediaType, p.Result.Artifacts[i].Size = "text/plain", 7
		}
	}
	again := step("three")
	again.Messages = append(again.Messages, message)
	s = r.write(again)

	h.must(h.st.Stage(h.Context(), r.id, s.Lease.Token, driver.Staged{StepID: "step", Key: "key", Data: []byte(`{"a":1}`)}))
	last := fullEnd(s, message)
	call := last.Calls[0].Call
	last.Context = &driver.ContextChange{Archived: new(true)}
	s = r.write(last)
	var ending cairn.Stop
	sample.Fill(&ending)
	same(h.T, "the stop of the wait", r.write(&driver.Commit{Ending: &ending}).Ending, &ending)

	all := h.content(r.id)
	r.none("a session's row", sample.Empty(r.sessions), ".AsOf", ".Removal", ".RemovedAt")
	h.begin(r.id, "next run") // begins where the first run left the session
	r.none("a run", sample.Empty(h.runs(r.id)))
	r.noneOf(all)

	run := *last.EndRun
	kept := all.Runs[0]
	run.SessionID, run.Turn, run.StartSequence, run.FirstMessage = r.id, 1, begin.StartRun.StartSequence, 1
	run.Before, run.StartedAt, run.EndedAt = kept.Before, r.sessions[1].UpdatedAt, s.UpdatedAt
	same(h.T, "the run", kept, run)
	call.RootID, call.SessionID, call.UserID, call.Agent, call.Version = root, r.id, create.UserID, create.Agent, 1
	call.Tenant = "acme"
	call.CreatedAt, call.UpdatedAt = s.UpdatedAt, s.UpdatedAt
	same(h.T, "the call", all.Calls, []cairn.PendingCall{call})
	boxed := last.Events[0]
	boxed.Version = s.Version
	same(h.T, "what the log lacks", s.Outbox, &cairn.Outbox{Version: s.Version, Events: []cairn.Event{boxed}})
	same(h.T, "when the session was archived", s.ArchivedAt, s.UpdatedAt)
	same(h.T, "the last message", all.Messages[len(all.Messages)-1], message)
	same(h.T, "the queue", all.Queue, []driver.QueuedTurn{*last.Enqueue})
	same(h.T, "the cache", all.Cache, last.Cache)
}

// noneOf fails for fields without a value in what a session has in addition to its row and runs.
func (r *rows) noneOf(all *content) {
	r.Helper()
	r.none("a checkpoint", sample.Empty(all.Checkpoints))
	r.none("a message", sample.Empty(all.Messages))
	r.none("a call", sample.Empty(all.Calls))
	r.none("a queued turn", sample.Empty(all.Queue))
	r.none("a staged piece", sample.Empty(all.Staged))
	r.none("a cached result", sample.Empty(all.Cache))
}

// none fails for fields that were read back without a value.
func (r *rows) none(what string, empty []string, but ...string) {
	r.Helper()
	empty = slices.DeleteFunc(empty, func(name string) bool { return slices.Contains(but, name) })
	slices.Sort(empty)
	if len(empty) > 0 {
		r.Errorf("of %s nothing is read back in %v", what, empty)
	}
}
