package effects

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// past is a run as the store has it, to hold the log against: it ended, or its process died.
type past struct {
	runID      string
	run        *cairn.Run
	token      int64 // of the lease, whose earlier holders may write no more
	steps      int   // committed
	deferred   int   // that have ended since, and are going to be
	start      int64 // the log's position when it began
	after      int64 // a log position no later than what followed the last commit
	messages   int
	checkpoint string
	// end is the run's record if it has ended, and calls tells of those that it left open or that were closed with it.
	end   *cairn.Run
	calls []cairn.Event
	// fresh says that the caller has just ended the run, so that its end cannot have been published and trimmed.
	fresh bool
	// unmarked says that the last commit is known to have no mark.
	unmarked bool
}

// pastOf returns the past of a session's current run.
func pastOf(row *cairn.Session, run *cairn.Run) past {
	return past{runID: row.RunID, run: run, token: nextToken(row), steps: row.Step, start: run.StartSequence, after: row.LogSequence,
		messages: row.MessageCount, checkpoint: row.CheckpointID}
}

// nextToken is the fencing token with which the log is told of a session's past: that of its holder or, if it has none, of
// the next one, so that whoever drove it last, should that process still live, adds nothing more.
func nextToken(row *cairn.Session) int64 {
	if row.Status == cairn.SessionActive {
		return row.Lease.Token
	}
	return row.Lease.Token + 1
}

// Reconcile brings a session's log up to its store where a process died between the two: it adds the marks of what a
// run committed and takes back what it did not. It is safe to call at any time on a run that nobody drives; an active
// session's current run is left alone.
func (fx *Effects) Reconcile(ctx context.Context, row *cairn.Session, runID string) error {
	if row.Status == cairn.SessionActive && row.RunID == runID {
		return nil
	}
	run, err := store.FindRun(ctx, fx.Store, row.ID, runID)
	if err != nil || run.Status == cairn.RunRunning {
		return err
	}
	if run.Steps == 0 { // whoever began or ended it may have died before it told of those before it
		if err := fx.tellEnds(ctx, row, run.Turn-1); err != nil {
			return err
		}
	}
	p := pastOf(row, run)
	if row.RunID != runID {
		p = past{runID: runID, run: run, token: nextToken(row), steps: run.Steps, start: run.StartSequence, after: run.StartSequence, messages: run.FirstMessage}
	}
	p.end = run
	if run.Status.Suspends() {
		page, err := fx.Store.Calls(ctx, store.CallQuery{SessionID: row.ID, StepID: run.Suspended.StepID, Limit: 1000})
		if err != nil {
			return err
		}
		opened := slices.DeleteFunc(page.Items, func(c cairn.PendingCall) bool { return c.RunID != runID })
		p.calls = pendingEvents(run.Steps, opened)
	}
	_, err = fx.reconcile(ctx, row, p)
	return err
}

// tellEnds completes the log of those of a session's runs up to a turn that have ended but whose end is not there: a
// process that took over may itself have died before it told of what it found. The oldest is told first, so that one
// whose end is there has none before it that lacks it.
func (fx *Effects) tellEnds(ctx context.Context, row *cairn.Session, upTo int) error {
	if row.Turn == upTo && upTo > 0 { // mostly the last run's end is right behind its last commit
		if told, err := fx.endTold(ctx, row); err != nil || told {
			return err
		}
	}
	untold, err := fx.untold(ctx, row, upTo)
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(untold) {
		if err := fx.Reconcile(ctx, row, id); err != nil {
			return err
		}
	}
	return nil
}

// endTold reports whether the log tells of the end of the last run of a session that nobody drives.
func (fx *Effects) endTold(ctx context.Context, row *cairn.Session) (bool, error) {
	after, limit := row.LogSequence, 32
	for {
		batch, err := fx.Log.Read(ctx, row.Log(), after, limit)
		if errors.Is(err, cairn.ErrTrimmed) { // with more that came after the last commit
			return true, nil
		}
		if err != nil || len(batch) == 0 {
			return false, err
		}
		for i := range batch {
			ev := &batch[i]
			if ev.SessionID == row.ID && ev.Ends(row.RunID) && (!ev.Status.Suspends() || row.Status == cairn.SessionPaused) {
				return true, nil
			}
			after = ev.Sequence
		}
		limit = 1000
	}
}

// untold lists the runs up to a turn whose end is not in the log, from the latest back to the first whose end is, or may
// have been trimmed.
func (fx *Effects) untold(ctx context.Context, row *cairn.Session, upTo int) ([]string, error) {
	var list []string
	q := store.PageQuery{Newest: true, Limit: 4}
	for {
		page, err := fx.Store.Runs(ctx, row.ID, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			run := &page.Items[i]
			if run.Turn > upTo {
				continue
			}
			p := past{runID: run.ID, after: run.StartSequence}
			if run.ID == row.RunID { // its end comes after its last commit
				p.after = max(p.after, row.LogSequence)
			}
			seen, _, err := fx.since(ctx, row, p)
			if err != nil || seen.ended(run) || seen.trimmed {
				return list, err
			}
			list = append(list, run.ID)
		}
		if q.Cursor = page.Next; page.Next == "" {
			return list, nil
		}
	}
}

// reconcile adds what the log lacks of a run and returns the log's last sequence.
func (fx *Effects) reconcile(ctx context.Context, row *cairn.Session, p past) (int64, error) {
	w := store.Writer{Session: row.ID, Token: p.token}
	if _, err := fx.append(ctx, row.Log(), store.AnySequence, w); err != nil {
		return 0, err
	}
	for {
		seen, last, err := fx.since(ctx, row, p)
		if err != nil {
			return 0, err
		}
		told := p.steps == 0 && seen.started || p.steps > 0 && seen.committed[p.steps] || p.trimmed(&seen)
		if !told && p.after > p.start {
			// The last commit may have held several steps, of which any number of marks are missing, or none at all.
			p.after, p.unmarked = p.start, true
			continue
		}
		if !p.over(&seen) {
			if err := fx.afterwards(ctx, row, &p); err != nil {
				return 0, err
			}
		}
		var missing []cairn.Event
		for _, ev := range p.missing(seen) {
			ev.SessionID, ev.RunID, ev.Agent, ev.Time = row.ID, p.runID, row.Agent, row.AsOf
			missing = append(missing, fit(ev, fx.eventLimit())...)
		}
		if len(missing) == 0 {
			return last, nil
		}
		last, err = fx.append(ctx, row.Log(), last, w, missing...)
		if !errors.Is(err, cairn.ErrStale) { // else somebody else wrote meanwhile: look again
			return last, err
		}
	}
}

// afterwards is what a process that ended a run, or began one in place of a wait, may have died before: it works out what the
// log is to say of the calls that were closed, and ends the sub-agents that the run left waiting.
func (fx *Effects) afterwards(ctx context.Context, row *cairn.Session, p *past) (err error) {
	if p.calls == nil {
		if p.calls, err = fx.withdrawn(ctx, row.ID, *p); err != nil {
			return err
		}
	}
	if p.end != nil && !p.end.Status.Suspends() && !p.end.EndedAt.IsZero() { // else whoever ends it now sees to them
		if err := fx.leaveChildren(ctx, row, p.end.EndedAt.Add(time.Microsecond)); err != nil { // later runs have children of their own
			return err
		}
	}
	return fx.tellBelow(ctx, row, p.run.StartedAt)
}

// tellTree completes the log for a session that nobody drove and for those below it that its last run had to do with.
func (fx *Effects) tellTree(ctx context.Context, a *cairn.Agent, row *cairn.Session) error {
	if row.RunID != "" && fx.delegates(a) {
		run, err := store.FindRun(ctx, fx.Store, row.ID, row.RunID)
		if err == nil {
			err = fx.tellBelow(ctx, row, run.StartedAt)
		}
		if err != nil {
			return err
		}
	}
	return fx.tellEnds(ctx, row, row.Turn)
}

// delegates reports whether an agent has others do something.
func (fx *Effects) delegates(a *cairn.Agent) bool {
	return len(a.Companions) > 0 || slices.ContainsFunc(a.Tools, func(t cairn.Tool) bool { return t.Agent() != nil })
}

// tellBelow completes the log for the sessions below one that have changed since a time and that nobody drives: each before
// the one above it, so that readers find what a sub-agent did between the events of whoever consulted it.
func (fx *Effects) tellBelow(ctx context.Context, row *cairn.Session, since time.Time) error {
	q := store.SessionQuery{ParentID: row.ID, UpdatedAfter: since}
	for {
		page, err := fx.Store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			child := &page.Items[i]
			if err := fx.tellBelow(ctx, child, since); err != nil {
				return err
			}
			if child.Status == cairn.SessionActive {
				continue
			}
			if err := fx.tellEnds(ctx, child, child.Turn); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// withdrawn tells of the calls that were closed because nobody waits for them any more: by the run as it began in place of
// the wait, or by the stop that ended it.
func (fx *Effects) withdrawn(ctx context.Context, id string, p past) (list []cairn.Event, err error) {
	from, limit := p.run.FirstMessage, 0
	switch {
	case p.run.Reason == cairn.ReasonInterrupted, p.run.Reason == cairn.ReasonAborted:
		limit = 1000
		if p.steps > 0 && p.run.Kind != cairn.RunResume { // what it began with was told before its first commit
			from++
		}
	case p.run.Kind == cairn.RunExecute && p.steps == 0:
		limit = 1 // it comes first of all
	}
	for ; limit > 0; from += limit {
		page, err := store.Messages(ctx, fx.Store, id, from, limit)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if m := &page[i]; m.RunID == p.runID && m.Origin == cairn.OriginWithdrawn {
				list = append(list, toolEnds(p.steps, page[i:i+1])...)
			}
		}
		if len(page) < limit || limit == 1 {
			break
		}
	}
	return list, nil
}

// marks is what a log tells of a run beyond its last commit.
type marks struct {
	started   bool
	waits     bool // it was suspended
	over      bool // it has ended for good
	failed    bool // its error is told
	output    bool // its output is told
	trimmed   bool // some of what came after the position is no longer there
	committed map[int]bool
	discarded []int          // steps that were taken back
	kept      string         // the last checkpoint that is told of
	calls     map[string]int // that wait or have ended, with the step
	open      []int          // steps begun but neither committed nor taken back
}

// ended reports whether the log tells of the end that a run has come to.
func (m *marks) ended(run *cairn.Run) bool { return m.over || m.waits && run.Status.Suspends() }

// since reads what the log says of a run.
func (fx *Effects) since(ctx context.Context, row *cairn.Session, p past) (m marks, last int64, err error) {
	m.committed, m.calls = map[int]bool{}, map[string]int{}
	after, err := fx.eachSince(ctx, row.Log(), p.after, func(ev *cairn.Event) {
		if ev.SessionID == row.ID && ev.RunID == p.runID {
			m.add(ev, p.steps)
		}
	})
	if err != nil {
		return m, 0, err
	}
	// What comes in from here on makes an append on top of after fail, so that it is not overlooked.
	first, last, err := fx.Log.Bounds(ctx, row.Log())
	m.trimmed = p.after+1 < first && p.after < last
	return m, min(after, last), err
}

func (m *marks) add(ev *cairn.Event, committed int) {
	drop := func() {
		for i, n := range m.open {
			if n == ev.Step {
				m.open = append(m.open[:i], m.open[i+1:]...)
				return
			}
		}
	}
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		m.started = true
	case cairn.EventStepStart:
		if ev.Step > committed {
			drop()
			m.open = append(m.open, ev.Step)
		}
	case cairn.EventStepDiscarded:
		drop()
		m.forget(ev.Step)
		m.discarded = append(m.discarded, ev.Step)
	case cairn.EventStepCommitted:
		m.committed[ev.Step] = true
	case cairn.EventCheckpoint:
		m.kept = ev.CheckpointID
	case cairn.EventToolApproval, cairn.EventToolPending, cairn.EventToolEnd:
		m.calls[callMark(ev)] = ev.Step
	case cairn.EventError:
		m.failed = true
	case cairn.EventOutput:
		m.output = true
	case cairn.EventRunEnd:
		m.waits = m.waits || ev.Status.Suspends()
		m.over = m.over || !ev.Status.Suspends()
	}
}

// forget drops what a step that is taken back said of calls.
func (m *marks) forget(step int) {
	maps.DeleteFunc(m.calls, func(_ string, at int) bool { return at == step })
}

// trimmed reports whether the marks of the run's last commit may have been trimmed: what may have been there is not published
// again.
func (p *past) trimmed(m *marks) bool { return m.trimmed && !p.unmarked }

// over reports whether the end of the run is in the log, or may have been trimmed.
func (p *past) over(m *marks) bool {
	return p.end != nil && (m.ended(p.end) || p.trimmed(m) && !p.fresh)
}

// missing lists the events the log lacks.
func (p *past) missing(m marks) []cairn.Event {
	if p.runID == "" || p.over(&m) { // whoever told of the end told all before it
		return nil
	}
	var list []cairn.Event
	trimmed := p.trimmed(&m)
	if p.steps == 0 && !m.started && !trimmed {
		list = append(list, beginEvent(p.run.PreviousRunID, p.messages))
	}
	if p.steps > 0 && !m.committed[p.steps] && !trimmed {
		for n := p.firstUnmarked(&m); n <= p.steps; n++ {
			if !m.committed[n] {
				list = append(list, cairn.Event{Type: cairn.EventStepCommitted, Step: n, MessageCount: p.messages})
			}
		}
	}
	if p.steps > 0 && m.kept != p.checkpoint && p.checkpoint == checkpointID(p.runID, p.steps) && !trimmed { // maybe alone: the log is written at any moment
		list = append(list, cairn.Event{Type: cairn.EventCheckpoint, Step: p.steps, CheckpointID: p.checkpoint, MessageCount: p.messages})
	}
	if next := p.steps + p.deferred + 1; trimmed && !slices.Contains(m.open, next) && !slices.Contains(m.discarded, next) {
		m.open = append(m.open, next) // its start may have been trimmed, and readers have seen it
	}
	for _, n := range m.open {
		if n <= p.steps+p.deferred {
			continue
		}
		list = append(list, cairn.Event{Type: cairn.EventStepDiscarded, Step: n})
		m.forget(n)
	}
	for i := range p.calls {
		if _, told := m.calls[callMark(&p.calls[i])]; !told {
			list = append(list, p.calls[i])
		}
	}
	if p.end != nil {
		list = append(list, slices.DeleteFunc(endEvents(p.end), func(ev cairn.Event) bool {
			return m.failed && ev.Type == cairn.EventError || m.output && ev.Type == cairn.EventOutput
		})...)
	}
	return list
}

// firstUnmarked returns the first step whose mark may be missing: marks come in order, so where the log was trimmed it is the
// one behind the last that is marked, or at least the last step.
func (p *past) firstUnmarked(m *marks) int {
	if !m.trimmed {
		return 1
	}
	for n := p.steps; n > 1; n-- {
		if m.committed[n-1] {
			return n
		}
	}
	return p.steps
}

// callMark tells the end of a call from its beginning to wait.
func callMark(ev *cairn.Event) string {
	if ev.Type == cairn.EventToolEnd {
		return "end " + ev.CallID
	}
	return ev.CallID
}
