package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Tree is what remains of a session and of the sub-agents and companions below it.
type Tree struct {
	// Sessions are the root and the sessions below it, parents before their children.
	Sessions []*History
	// Events is the log that all of them write to. Own reports whether it is the store's own.
	Events []cairn.Event
	Own    bool
	// Settled reports whether no process drives the tree and its log is complete. A tree that dead processes left
	// is not settled: a run may be open, and on a log elsewhere the last marks may be missing.
	Settled bool
	// Answered reports whether, moreover, calls were answered until no session was suspended.
	Answered bool
	// Hosted reports whether a host lets processes execute effects. It attempts an effect again if the answer to the
	// first attempt is lost, which may be in the same process.
	Hosted bool
}

// History is what remains of one session: its rows in the store, and what the journal recorded as acknowledged.
type History struct {
	Session     *cairn.Session
	Messages    []cairn.Message
	State       json.RawMessage
	Runs        []cairn.Run
	Checkpoints []cairn.Checkpoint
	Calls       []cairn.PendingCall
	Queue       []driver.QueuedTurn
	// Events are the session's events on the log.
	Events  []cairn.Event
	Journal []record
	// Books are the rows that the session's calls have added to the test's table; nil without a table.
	Books []entry
	// Sample is the state at the checkpoint in the middle; nil if there are no checkpoints.
	Sample json.RawMessage
	// Due is the reason for which the store lists the session as due; empty if it does not. The list was read
	// between Asked and Answered, the session after Answered.
	Due             driver.DueKind
	Asked, Answered time.Time
	// Own and Settled are the tree's.
	Own, Settled bool
}

// logged reports whether the log has the marks of every commit. A log of the store's own has them with the commit,
// whichever process dies; a log elsewhere once all outboxes are drained.
func (h *History) logged() bool { return h.Own || h.Settled }

// place is where the sessions of a test and their events are.
type place struct {
	st  driver.Store
	log driver.Log
	own bool // the log is the store's own
}

// placeOf returns the place of sessions whose events are in their store's own log.
func placeOf(st driver.Store) *place {
	return &place{st: st, log: logOf(st), own: true}
}

// load reads the tree of a root that no process drives. It returns nil if the session does not exist.
func (p *place) load(ctx context.Context, root string, journal map[string][]record, settled bool) (*Tree, error) {
	if there, err := driver.Exists(ctx, p.st, root); err != nil || !there {
		return nil, err
	}
	row, err := driver.Load(ctx, p.st, root)
	if err != nil {
		return nil, err
	}
	for {
		t, err := p.read(ctx, row, journal, settled)
		if err != nil {
			return nil, err
		}
		_, last, err := p.log.Bounds(ctx, row.Log())
		// A server may still have been at work on the last statement of a dead process.
		if err != nil || last == int64(len(t.Events)) {
			return t, err
		}
	}
}

// read reads the tree of a root: its log, and then what is in the store.
func (p *place) read(ctx context.Context, row *cairn.Session, journal map[string][]record, settled bool) (*Tree, error) {
	st, root := p.st, row.ID
	asked := time.Now()
	due, err := allDue(ctx, st)
	if err != nil {
		return nil, err
	}
	answered := time.Now()
	t := &Tree{Own: p.own, Settled: settled}
	for last := int64(0); ; last = t.Events[len(t.Events)-1].Sequence {
		batch, err := p.log.Read(ctx, row.Log(), last, 0)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			break
		}
		t.Events = append(t.Events, batch...)
	}
	calls, err := pages(func(cursor string) (driver.Page[cairn.PendingCall], error) {
		return st.Calls(ctx, driver.CallQuery{RootID: root, Cursor: cursor})
	})
	if err != nil {
		return nil, err
	}
	err = t.add(ctx, st, root, calls, journal)
	for _, h := range t.Sessions {
		h.Due, h.Asked, h.Answered = due[h.Session.ID], asked, answered
	}
	return t, err
}

// add reads a session and the sessions below it.
func (t *Tree) add(ctx context.Context, st driver.Store, id string, calls []cairn.PendingCall, journal map[string][]record) error {
	snap, err := st.Read(ctx, id, driver.Want{Messages: true, State: true, Staged: true, Calls: true, Cache: true})
	if err != nil {
		return err
	}
	h := &History{Session: snap.Session, Messages: snap.Messages, State: snap.State, Journal: journal[id], Own: t.Own, Settled: t.Settled}
	if h.Runs, err = pages(func(cursor string) (driver.Page[cairn.Run], error) {
		return st.Runs(ctx, id, driver.PageQuery{Cursor: cursor})
	}); err != nil {
		return err
	}
	h.Checkpoints, err = pages(func(cursor string) (driver.Page[cairn.Checkpoint], error) {
		return st.Checkpoints(ctx, id, driver.PageQuery{Cursor: cursor})
	})
	if err != nil {
		return err
	}
	if n := len(h.Checkpoints); n > 0 {
		if h.Sample, err = driver.State(ctx, st, id, h.Checkpoints[n/2].ID); err != nil {
			return err
		}
	}
	if books, ok := st.(Books); ok {
		ids, numbers, err := books.Entered(ctx, id)
		if err != nil {
			return err
		}
		h.Books = []entry{}
		for i := range ids {
			h.Books = append(h.Books, entry{ids[i], numbers[i]})
		}
	}
	if h.Queue, err = driver.Queue(ctx, st, id); err != nil {
		return err
	}
	for i := range calls {
		if calls[i].SessionID == id {
			h.Calls = append(h.Calls, calls[i])
		}
	}
	for i := range t.Events {
		if t.Events[i].SessionID == id {
			h.Events = append(h.Events, t.Events[i])
		}
	}
	t.Sessions = append(t.Sessions, h)
	children, err := pages(func(cursor string) (driver.Page[cairn.Session], error) {
		return st.List(ctx, driver.SessionQuery{ParentID: id, Cursor: cursor})
	})
	for i := range children {
		if err == nil {
			err = t.add(ctx, st, children[i].ID, calls, journal)
		}
	}
	return err
}

// pages returns all items of a list.
func pages[T any](read func(cursor string) (driver.Page[T], error)) (all []T, err error) {
	for item, err := range driver.All(read) {
		if err != nil {
			return nil, err
		}
		all = append(all, *item)
	}
	return all, nil
}

// Invariant is a property of every tree. Check returns an error if it does not hold.
type Invariant struct {
	Name  string
	Check func(*Tree) error
}

// Invariants are all invariants.
var Invariants = []Invariant{
	{"no committed step lost", each(nothingLost)},
	{"one writer at a time", oneWriter},
	{"no committed step run again", each(nothingCommittedAgain)},
	{"no staged result computed again", each(nothingStagedAgain)},
	{"per tool, all is staged before it is committed", each(stagedFirst)},
	{"no message twice", each(messagesOnce)},
	{"every tool use has one result before the next reply", each(usesAnswered)},
	{"the transcript is what the model says", each(transcriptScripted)},
	{"the state is the fold of the results", each(stateFolded)},
	{"a committed call has one row, any other none", each(booksBalanced)},
	{"run turns contiguous", each(runsContiguous)},
	{"usage adds up", each(usageAddsUp)},
	{"checkpoints in order", each(checkpointsOrdered)},
	{"events contiguous", eventsContiguous},
	{"no mark behind the session's place", each(placedBehindMarks)},
	{"queued turns are on the log", each(queueLogged)},
	{"replay equals live", each(replayEqualsLive)},
	{"one mark per end", each(marksOnce)},
	{"patches lead to the state", each(patchesFolded)},
	{"no session running without a lease", each(nobodyLeftRunning)},
	{"what needs a worker is due", each(needsAreDue)},
	{"of any number of answers one is used, once", each(answersUsedOnce)},
	{"no tool runs before it is approved", each(nothingUnapproved)},
	{"late answers reach the model once", each(lateAnswersOnce)},
	{"open calls are what the session is suspended for", waitsAgree},
	{"children belong to a call of their parent", childrenBelong},
	{"no child waits for a parent that ended", everyWaitEnds},
	{"a sub-agent ends before the run that consulted it", childrenEndFirst},
	{"what a child came to is the result of its call", childResultsKept},
	{"a consultation that began ends before its call does", each(consultationsEnd)},
	{"a question gets the answer of its number, in every pass", each(questionsInOrder)},
	{"no effect twice, unless it was unknown and a person or a probe chose it; none confirmed that did not happen", each(effectsSettled)},
	{"queued turns run once, in order", each(queueInOrder)},
	{"what the user said is on the log once, in its place", each(userMessagesLoggedOnce)},
	{"a stop that returned has ended the run", each(stopsHold)},
	{"a message to a crashed session is there once, if it was acknowledged", each(messagesKept)},
	{"the epoch counts the rewinds", each(rewindsCounted)},
	{"a sub-agent is consulted once", consultedOnce},
	{"no session stuck", noSessionStuck},
}

// each turns a check of a session into a check of every session of a tree.
func each(check func(*History) error) func(*Tree) error {
	return func(t *Tree) error {
		for _, h := range t.Sessions {
			if err := check(h); err != nil {
				return fmt.Errorf("session %s of %s: %w", h.Session.ID, h.Session.Agent, err)
			}
		}
		return nil
	}
}

// check returns an error for each invariant that does not hold.
func (t *Tree) check() []error {
	var list []error
	for _, inv := range Invariants {
		if err := inv.Check(t); err != nil {
			list = append(list, fmt.Errorf("tree %s: %s: %w", t.Sessions[0].Session.ID, inv.Name, err))
		}
	}
	return list
}

// session returns one of the tree's sessions; nil if it is not in the tree.
func (t *Tree) session(id string) *History {
	for _, h := range t.Sessions {
		if h.Session.ID == id {
			return h
		}
	}
	return nil
}

// step is a committed step in the transcript.
type step struct {
	run    *cairn.Run
	number int // in the run
	from   int // index of the first message: a row before the reply, if there is one
	to     int // index after the last message
	// reply is nil if the step resumes one that an earlier run suspended. at is its index.
	reply   *cairn.Message
	at      int
	results *cairn.Message   // nil if there are none
	after   []*cairn.Message // hidden rows
	late    int              // number of late answers behind them
}

// turn is what a run added to the transcript.
type turn struct {
	run *cairn.Run
	// resumes reports whether the run resumes the step that the previous run suspended. Such a step may have no
	// messages.
	resumes bool
	// undone reports whether the run was undone: nothing of it is left.
	undone bool
	// withdrawn are the results of cancelled calls: those of the previous run's suspension, or of the run's own.
	withdrawn []*cairn.Message
	input     []*cairn.Message
	steps     []step
	// loose are rows of a step that was stopped before its reply. left are those about effects of a step that was discarded
	// when the run ended. strangers are messages that belong to no step.
	loose, left, strangers []*cairn.Message
}

// turns splits the transcript by the ids of its messages, without checking it.
func (h *History) turns() []turn {
	list := make([]turn, len(h.Runs))
	byRun, undone := map[string]*turn{}, h.undone()
	for i := range h.Runs {
		list[i].run, list[i].undone = &h.Runs[i], undone[h.Runs[i].ID]
		list[i].resumes = i > 0 && h.Runs[i].Kind == cairn.RunResume && h.Runs[i-1].Status == cairn.RunSuspended
		byRun[h.Runs[i].ID] = &list[i]
	}
	for i := range h.Messages {
		if t := byRun[h.Messages[i].RunID]; t != nil {
			t.add(&h.Messages[i], i)
		}
	}
	return list
}

func (t *turn) add(m *cairn.Message, at int) {
	rest, own := strings.CutPrefix(m.ID, t.run.ID+"/")
	number, what := 0, ""
	if own {
		fmt.Sscanf(rest, "%d/%s", &number, &what)
	}
	switch {
	case m.Origin == cairn.OriginWithdrawn:
		t.withdrawn = append(t.withdrawn, m)
	case isLeft(m):
		t.left = append(t.left, m)
	case m.Origin == cairn.OriginCompanion:
		t.loose = append(t.loose, m)
	case isLate(m) && (len(t.steps) == 0 || len(t.loose) > 0):
		t.loose = append(t.loose, m)
	case isLate(m): // written with the step's commit, or after a takeover
		s := &t.steps[len(t.steps)-1]
		s.to, s.late = at+1, s.late+1
	case own && strings.HasPrefix(rest, "in"):
		t.input = append(t.input, m)
	case !own && len(t.steps) > 0 && joined(m):
		t.steps[len(t.steps)-1].to = at + 1 // with whose commit it was written
	case what != "":
		s := t.step(number, at)
		s.to = at + 1
		switch {
		case what == "reply" && s.reply == nil:
			s.reply, s.at = m, at
		case what == "results" && s.results == nil:
			s.results = m
		case m.Hidden:
			s.after = append(s.after, m)
		default:
			t.strangers = append(t.strangers, m)
		}
	default:
		t.strangers = append(t.strangers, m)
	}
}

// step returns the turn's last step, or begins the next one, to which the preceding loose messages belong.
func (t *turn) step(number, at int) *step {
	if n := len(t.steps); n > 0 && t.steps[n-1].number == number {
		return &t.steps[n-1]
	}
	t.steps = append(t.steps, step{run: t.run, number: number, from: at - len(t.loose)})
	t.loose = nil
	return &t.steps[len(t.steps)-1]
}

// count returns the number of the turn's steps. The first step of a resumed run may have added nothing.
func (t *turn) count(committed int) int {
	if n := len(t.steps); n > 0 {
		return t.steps[n-1].number
	}
	if t.resumes {
		return min(committed, 1)
	}
	return 0
}

// committedSteps returns how many steps of a run are committed, according to the store.
func (h *History) committedSteps(run *cairn.Run) int {
	if run.Status == cairn.RunRunning {
		return h.Session.Step
	}
	return run.Steps
}

// stopped reports whether a run was stopped.
func stopped(run *cairn.Run) bool {
	return run.Status == cairn.RunInterrupted && run.Reason == cairn.ReasonInterrupted ||
		run.Status == cairn.RunFailed && run.Reason == cairn.ReasonAborted
}

// results returns the results in the transcript by call.
func (h *History) results() map[string][]*cairn.ToolResult {
	list := map[string][]*cairn.ToolResult{}
	for i := range h.Messages {
		for _, r := range h.Messages[i].ToolResults() {
			list[r.CallID] = append(list[r.CallID], r)
		}
	}
	return list
}

func (s *step) String() string { return fmt.Sprintf("run %s step %d", s.run.ID, s.number) }

// stepID returns the id of a run's step.
func stepID(run string, number int) string { return fmt.Sprintf("%s/%d", run, number) }

// compact returns JSON in canonical form, since stores may reformat it.
func compact(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func join[T any](list []T, show func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = show(v)
	}
	return strings.Join(texts, ", ")
}
