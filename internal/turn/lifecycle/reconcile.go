package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// past is a run as the store has it, for comparison with the log.
type past struct {
	journal.Past
	token int64 // fences earlier lease holders off from the log
	start int64 // the log's position when it began
	after int64 // a log position no later than what followed the last commit
	// opening is the run's first message, if known.
	opening *cairn.Message
	// holds reports whether the store still has this past. It is called after the log was read. It is nil if no other
	// process writes the run.
	holds func(context.Context) (bool, error)
}

// pastOf returns the past of a session's current run.
func pastOf(row *cairn.Session, run *cairn.Run) past {
	return past{token: nextToken(row), start: run.StartSequence, after: row.LogSequence, Past: journal.Past{Run: run, Steps: row.Step,
		Messages: row.MessageCount, Checkpoint: row.CheckpointID, Made: row.Step > 0 && row.CheckpointID == step.CheckpointID(run.ID, row.Step)}}
}

// pastOfLive returns the past of the run of a session in memory.
func pastOfLive(l *session.Live) past {
	p := pastOf(l.Row, l.Run)
	if i := l.Run.FirstMessage - l.First; i >= 0 && i < len(l.Messages) {
		p.opening = &l.Messages[i]
	}
	return p
}

// nextToken returns the fencing token with which the log of a session's past is completed: that of the lease holder, or
// the next one if there is none. It fences off the process that drove the session last, which may still be alive.
func nextToken(row *cairn.Session) int64 {
	if row.Status == cairn.SessionActive {
		return row.Lease.Token
	}
	return row.Lease.Token + 1
}

// Reconcile completes a session's log from the store, for a process that died between the two: it adds the marks of
// what a run committed and discards what the run did not. It may be called at any time for a run that no process
// drives. It does nothing for the current run of an active session.
func (r *Runs) Reconcile(ctx context.Context, row *cairn.Session, runID string) error {
	if row.Status == cairn.SessionActive && row.RunID == runID {
		return nil
	}
	run, err := store.FindRun(ctx, r.Store, row.ID, runID)
	if err != nil || run.Status == cairn.RunRunning {
		return err
	}
	if run.Steps == 0 { // the process that began or ended the run may have died before it completed earlier runs
		if err := r.completeEnds(ctx, row, run.Turn-1); err != nil {
			return err
		}
	}
	p := pastOf(row, run)
	if row.RunID != runID {
		p = past{token: nextToken(row), start: run.StartSequence, after: run.StartSequence, Past: journal.Past{Run: run, Steps: run.Steps, Messages: run.FirstMessage}}
	}
	p.End = true
	if run.Status.Suspends() {
		page, err := r.Store.Calls(ctx, store.CallQuery{SessionID: row.ID, StepID: run.Suspended.StepID, Limit: 1000})
		if err != nil {
			return err
		}
		opened := slices.DeleteFunc(page.Items, func(c cairn.PendingCall) bool { return c.RunID != runID })
		p.Calls = journal.Pending(run.Steps, opened)
	}
	_, err = r.reconcile(ctx, row, p)
	return err
}

// completeEnds completes the log of a session's runs, up to a turn, that have ended without their end on the log: a
// process that took over may have died before it published what it found. The oldest run comes first. So if the log has
// the end of a run, it has the ends of all runs before it.
func (r *Runs) completeEnds(ctx context.Context, row *cairn.Session, upTo int) error {
	if upTo < 1 {
		return nil
	}
	if row.Turn == upTo { // the last run's end mostly comes right after its last commit
		if published, err := r.endPublished(ctx, row); err != nil || published {
			return err
		}
	}
	missing, err := r.unpublished(ctx, row, upTo)
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(missing) {
		if err := r.Reconcile(ctx, row, id); err != nil {
			return err
		}
	}
	return nil
}

// endPublished reports whether the log has the end of the last run of a session that no process drives.
func (r *Runs) endPublished(ctx context.Context, row *cairn.Session) (bool, error) {
	after, limit := row.LogSequence, 32
	for {
		batch, err := r.Log.Read(ctx, row.Log(), after, limit)
		if errors.Is(err, cairn.ErrTrimmed) { // what came after the last commit, and so the end
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

// unpublished lists the runs up to a turn whose end is not on the log. It begins with the latest run, and stops at one
// whose end is on the log or may have been trimmed.
func (r *Runs) unpublished(ctx context.Context, row *cairn.Session, upTo int) ([]string, error) {
	var list []string
	for run, err := range store.All(func(cursor string) (store.Page[cairn.Run], error) {
		return r.Store.Runs(ctx, row.ID, store.PageQuery{Newest: true, Limit: 4, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		if run.Turn > upTo {
			continue
		}
		p := past{after: run.StartSequence, Past: journal.Past{Run: run}}
		if run.ID == row.RunID { // its end comes after its last commit
			p.after = max(p.after, row.LogSequence)
		}
		seen, _, err := r.since(ctx, row, p)
		if err != nil || seen.Ended(run) || seen.Trimmed {
			return list, err
		}
		list = append(list, run.ID)
	}
	return list, nil
}

// reconcile adds what the log lacks of a run and returns the log's last sequence.
func (r *Runs) reconcile(ctx context.Context, row *cairn.Session, p past) (int64, error) {
	w := store.Writer{Session: row.ID, Token: p.token}
	if _, err := r.Journal.AppendAs(ctx, row.Log(), store.AnySequence, w); err != nil {
		return 0, err
	}
	for {
		seen, last, err := r.since(ctx, row, p)
		if err != nil {
			return 0, err
		}
		if !p.Reaches(seen) && p.after > p.start {
			// The last commit may have held several steps. Marks of any of them may be missing.
			p.after, p.Unmarked = p.start, true
			continue
		}
		from := p.Run.FirstMessage
		if p.Reaches(seen) { // an end without a reply may have added messages that have no mark
			from = seen.Messages
		}
		if p.Added == nil && (!p.Reaches(seen) || p.ends(row, seen)) {
			if err := r.added(ctx, row, &p, from); err != nil {
				return 0, err
			}
		}
		if !p.EndPublished(seen) {
			if err := r.afterwards(ctx, row, &p); err != nil {
				return 0, err
			}
		}
		missing := p.Missing(seen)
		if len(missing) == 0 {
			return last, nil
		}
		if p.holds != nil {
			if ok, err := p.holds(ctx); !ok || err != nil {
				return last, err
			}
		}
		last, err = r.Journal.Complete(ctx, row, p.Run.ID, last, w, missing)
		if !errors.Is(err, cairn.ErrStale) { // another process appended concurrently
			return last, err
		}
	}
}

// ends reports whether the run's end is missing on the log and may have added messages.
func (p *past) ends(row *cairn.Session, seen *journal.Seen) bool {
	return p.End && !p.EndPublished(seen) && seen.Messages > 0 && (p.Messages > seen.Messages || row.RunID != p.Run.ID)
}

// added sets the events of the messages that the run has added, from an index on. For a run that is not the session's
// last, it also sets the number of messages after the run.
func (r *Runs) added(ctx context.Context, row *cairn.Session, p *past, from int) error {
	p.Added = []cairn.Event{}
	for at := from; ; {
		page, err := store.Messages(ctx, r.Store, row.ID, at, 1000)
		if err != nil {
			return err
		}
		for i := range page {
			switch page[i].RunID {
			case p.Run.ID:
				p.Added = append(p.Added, journal.Added(at+i, page[i:i+1])...)
				p.Messages = max(p.Messages, at+i+1)
			case "": // added alongside the run
			default:
				return nil
			}
		}
		if at += len(page); len(page) < 1000 {
			return nil
		}
	}
}

// afterwards does what follows the commit that ended a run or began one in place of a wait, in case the process died
// before it: it sets the events of closed calls, and ends the sub-agents that the run left suspended.
func (r *Runs) afterwards(ctx context.Context, row *cairn.Session, p *past) (err error) {
	if p.Calls == nil {
		if p.Calls, err = r.cancelled(ctx, row.ID, *p); err != nil {
			return err
		}
	}
	var before time.Time // later runs have children of their own
	switch {
	case p.End && !p.Run.Status.Suspends() && !p.Run.EndedAt.IsZero(): // otherwise the process that ends it reaps them
		before = p.Run.EndedAt.Add(time.Microsecond)
	case !p.End && p.Steps == 0 && len(p.Calls) > 0:
		before = p.Run.StartedAt
	}
	if !before.IsZero() {
		if err := r.ReapChildren(ctx, row, before); err != nil {
			return err
		}
	}
	return r.CompleteBelow(ctx, row, p.Run.StartedAt)
}

// completeTree completes the log for a session that no process drives, and for the sessions below it that changed since
// its last run began.
func (r *Runs) completeTree(ctx context.Context, a *cairn.Agent, row *cairn.Session) error {
	if row.RunID != "" && define.Delegates(a) {
		run, err := store.FindRun(ctx, r.Store, row.ID, row.RunID)
		if err == nil {
			err = r.CompleteBelow(ctx, row, run.StartedAt)
		}
		if err != nil {
			return err
		}
	}
	return r.completeEnds(ctx, row, row.Turn)
}

// CompleteBelow completes the log for the sessions below one that have changed since a time and that no process drives.
// Children come before their parents, so that readers find a sub-agent's events between those of its parent.
func (r *Runs) CompleteBelow(ctx context.Context, row *cairn.Session, since time.Time) error {
	q := store.SessionQuery{ParentID: row.ID, UpdatedAfter: since}
	for child, err := range r.list(ctx, q) {
		if err != nil {
			return err
		}
		if err := r.CompleteBelow(ctx, child, since); err != nil {
			return err
		}
		if child.Status == cairn.SessionActive {
			continue
		}
		if err := r.completeEnds(ctx, child, child.Turn); err != nil {
			return err
		}
	}
	return nil
}

// cancelled lists the events of calls that were closed because their wait was cancelled: by the run that began in place
// of the wait, or by the stop that ended the run.
func (r *Runs) cancelled(ctx context.Context, id string, p past) (list []cairn.Event, err error) {
	closed := func(m *cairn.Message) {
		if m.RunID == p.Run.ID && m.Origin == cairn.OriginWithdrawn {
			list = append(list, journal.Results(p.Steps, []cairn.Message{*m})...)
		}
	}
	from, limit := p.Run.FirstMessage, 0
	switch {
	case p.Run.Reason == cairn.ReasonInterrupted, p.Run.Reason == cairn.ReasonAborted:
		limit = 1000
		if p.Steps > 0 && p.Run.Kind != cairn.RunResume { // what it began with was published before its first commit
			from++
		}
	case p.Steps == 0 && p.opening != nil: // the first message is the one that closes calls
		closed(p.opening)
	case p.Steps == 0:
		limit = 1
	}
	var first *cairn.Message // of a resumed run: unless it is also the last, it closed calls that a rewind had left open
	for ; limit > 0; from += limit {
		page, err := store.Messages(ctx, r.Store, id, from, limit)
		if err != nil {
			return nil, err
		}
		for i := range page {
			m := &page[i]
			switch {
			case m.RunID != p.Run.ID:
			case p.Steps > 0 && from+i == p.Run.FirstMessage:
				first = m
			default:
				first = nil
				closed(m)
			}
		}
		if len(page) < limit || limit == 1 {
			break
		}
	}
	if first != nil {
		closed(first)
	}
	return list, nil
}

// since reads a run's events from the log.
func (r *Runs) since(ctx context.Context, row *cairn.Session, p past) (seen *journal.Seen, last int64, err error) {
	seen = journal.NewSeen(p.Steps)
	after, err := r.Journal.EachSince(ctx, row.Log(), p.after, func(ev *cairn.Event) {
		if ev.SessionID == row.ID && ev.RunID == p.Run.ID {
			seen.Note(ev)
		}
	})
	if err != nil {
		return seen, 0, err
	}
	// Later events make an append at after fail, so none is overlooked.
	first, last, err := r.Log.Bounds(ctx, row.Log())
	seen.Trimmed = p.after+1 < first && p.after < last
	return seen, min(after, last), err
}

// DiscardAttempt discards what a dead attempt at the step's first effect published, and completes the log up to the
// step. Other attempts hold the same lease. So before it publishes anything, and after it has read the log, it calls
// holds, which reports whether the step is still in the state that l has. If not, it does nothing.
func (r *Runs) DiscardAttempt(ctx context.Context, l *session.Live, holds func(context.Context) (bool, error)) error {
	if l.LogLast > l.Run.StartSequence { // this process has seen at least the run's beginning on the log
		if _, last, err := r.Log.Bounds(ctx, l.Row.Log()); err != nil || last == l.LogLast {
			l.Emit.At(last)
			return err
		}
	}
	if l.Row.Step == 0 { // the process that began the run may have died before it completed earlier runs
		if err := r.completeEnds(ctx, l.Row, l.Row.Turn-1); err != nil {
			return err
		}
	}
	p := pastOfLive(l)
	p.Deferred, p.holds = len(l.Deferred.Steps), holds
	last, err := r.reconcile(ctx, l.Row, p)
	l.Emit.At(last)
	return err
}
