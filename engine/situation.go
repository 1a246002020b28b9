package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Situation returns why a session waits, its current activity, or the outcome of its last run. For a running session it
// also reads the last events of the log, and for a session that waits for a worker the registered workers.
func (e *Engine) Situation(ctx context.Context, id string) (*cairn.Situation, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	f, err := e.situationFacts(ctx, row, true)
	if err != nil {
		return nil, err
	}
	if f.row.Running(f.row.AsOf) {
		if f.tail, err = e.tail(ctx, f.row); err != nil {
			return nil, err
		}
	}
	s := situationOf(f)
	return s, e.countWorkers(ctx, []cairn.Session{*f.row}, []*cairn.Situation{s})
}

// Situations returns the situations of the sessions of a list, in its order. It reads nothing of a session that is idle,
// active or completed, once from each other one, and up to three times more from one that waits for a session below. The
// situation of a session that was removed is nil. The activity of a running session is not read, see [Engine.Situation].
func (e *Engine) Situations(ctx context.Context, rows []cairn.Session) ([]*cairn.Situation, error) {
	list, errs := make([]*cairn.Situation, len(rows)), make([]error, len(rows))
	places := make(chan struct{}, situationReads)
	var reads sync.WaitGroup
	for i := range rows {
		row := &rows[i]
		if row.Removal != "" {
			continue
		}
		if !readsMore(row) {
			list[i] = situationOf(e.knownFacts(row))
			continue
		}
		places <- struct{}{}
		reads.Go(func() {
			defer func() { <-places }()
			f, err := e.situationFacts(ctx, row, false)
			switch {
			case err == nil:
				list[i] = situationOf(f)
			case !errors.Is(err, cairn.ErrNotFound): // removed since
				errs[i] = err
			}
		})
	}
	reads.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return list, e.countWorkers(ctx, rows, list)
}

const (
	// situationReads is the number of sessions of a list that are read at the same time.
	situationReads = 8
	// situationCalls is the number of open calls that are looked at.
	situationCalls = 20
	// situationTail is the number of events at the end of a log that are looked at.
	situationTail = 256
)

// readsMore reports whether the row alone does not have the situation of a session in a list.
func readsMore(row *cairn.Session) bool {
	return row.Status == cairn.SessionPaused || row.Status == cairn.SessionFailed || row.Status == cairn.SessionInterrupted
}

// situationFacts are what the situation of a session is computed from.
type situationFacts struct {
	row  *cairn.Session
	stop *cairn.Stop
	run  *cairn.Run // the last one; nil if it is not known
	// calls are open calls of the session, or else of sessions below it, oldest first.
	calls []cairn.PendingCall
	// child is a session below that is not ready to continue, if there are no open calls; nil for none.
	child *cairn.Session
	// tail are the last events of the tree's log that follow the last commit.
	tail     []cairn.Event
	maxSteps int
}

// knownFacts returns what the row has.
func (e *Engine) knownFacts(row *cairn.Session) *situationFacts {
	f := &situationFacts{row: row}
	if a := e.agent(row.Agent); a != nil {
		f.maxSteps = define.Steps(a)
	}
	return f
}

// situationFacts reads the facts of a session. whole reads the run of any session, not only of one whose row does not say
// enough.
func (e *Engine) situationFacts(ctx context.Context, row *cairn.Session, whole bool) (*situationFacts, error) {
	want := driver.Want{Calls: row.Status == cairn.SessionPaused}
	if whole || row.Status != cairn.SessionPaused {
		want.Run = row.RunID
	}
	snap, err := e.store.Read(ctx, row.ID, want)
	if errors.Is(err, cairn.ErrNotFound) && want.Run != "" { // a rewind may have removed the run
		want.Run = ""
		snap, err = e.store.Read(ctx, row.ID, want)
	}
	if err != nil {
		return nil, err
	}
	f := e.knownFacts(snap.Session)
	f.stop, f.run = snap.Stop, snap.Run
	if f.run != nil && f.run.ID != f.row.RunID { // another one began in between
		f.run = nil
	}
	if f.row.Status != cairn.SessionPaused || f.row.Ending != nil || f.row.Ready() {
		return f, nil
	}
	isOpen := func(c cairn.PendingCall) bool { return c.Status == cairn.CallOpen }
	if f.calls = slices.DeleteFunc(slices.Clone(snap.Calls), func(c cairn.PendingCall) bool { return !isOpen(c) }); len(f.calls) > 0 {
		return f, nil
	}
	return f, e.factsBelow(ctx, f)
}

// factsBelow reads what the sessions below a session wait for.
func (e *Engine) factsBelow(ctx context.Context, f *situationFacts) error {
	if f.row.RootID == f.row.ID {
		page, err := e.Inbox(ctx, store.CallQuery{RootID: f.row.ID, Limit: situationCalls})
		if f.calls = page.Items; err != nil || len(f.calls) > 0 {
			return err
		}
	}
	children, err := e.store.List(ctx, store.SessionQuery{ParentID: f.row.ID, Limit: situationCalls,
		Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionActive}})
	if err != nil {
		return err
	}
	for i := range children.Items {
		if c := &children.Items[i]; !c.Ready() && f.child == nil {
			f.child = c
		}
	}
	if f.child == nil || f.child.Status != cairn.SessionPaused {
		return nil
	}
	page, err := e.Inbox(ctx, store.CallQuery{RootID: f.row.RootID, SessionID: f.child.ID, Limit: situationCalls})
	f.calls = page.Items
	return err
}

// tail returns the last events of the log of a session's tree behind the session's last commit.
func (e *Engine) tail(ctx context.Context, row *cairn.Session) ([]cairn.Event, error) {
	_, last, err := e.log.Bounds(ctx, row.Log())
	if err != nil || last <= row.LogSequence {
		return nil, err
	}
	list, err := e.log.Read(ctx, row.Log(), max(row.LogSequence, last-situationTail), situationTail)
	if errors.Is(err, cairn.ErrTrimmed) { // by another process, in between
		return nil, nil
	}
	return list, err
}

// countWorkers sets the number of workers of the situations of sessions that wait for one.
func (e *Engine) countWorkers(ctx context.Context, rows []cairn.Session, list []*cairn.Situation) error {
	if e.records == nil || !slices.ContainsFunc(list, waitsForWorker) {
		return nil
	}
	serving := map[string]int{}
	for w, err := range e.Workers(ctx) {
		if err != nil {
			return err
		}
		for _, agent := range w.Agents {
			serving[agent]++
		}
	}
	for i, s := range list {
		if waitsForWorker(s) && rows[i].RootID == rows[i].ID { // the agent of a child does not count
			s.Workers = new(serving[rows[i].Agent])
		}
	}
	return nil
}

func waitsForWorker(s *cairn.Situation) bool {
	return s != nil && (s.Kind == cairn.SituationWorker || s.Kind == cairn.SituationQueue || s.Kind == cairn.SituationTakeover)
}

// situationOf computes the situation of a session.
func situationOf(f *situationFacts) *cairn.Situation {
	row := f.row
	s := &cairn.Situation{Since: row.UpdatedAt, AsOf: row.AsOf, RunID: row.RunID, Step: row.Step, MaxSteps: f.maxSteps,
		OpenCalls: row.OpenCalls, Queued: row.Queued}
	if f.run != nil {
		s.StartedAt, s.EndedAt, s.Step = f.run.StartedAt, f.run.EndedAt, max(row.Step, f.run.Steps)
	}
	switch {
	case row.Ending != nil:
		s.Kind, s.Since, s.Reason, s.StoppedBy = cairn.SituationStopping, row.Ending.At, row.Ending.Reason, row.Ending.By
	case row.Crashed(row.AsOf):
		f.takeover(s)
	case row.Status == cairn.SessionActive:
		f.work(s)
	case row.Status == cairn.SessionPaused:
		f.wait(s)
	default:
		f.end(s)
	}
	if row.ParentID != "" { // its root is resumed or retried
		s.Verbs = slices.DeleteFunc(s.Verbs, func(v cairn.Verb) bool { return v == cairn.VerbResume || v == cairn.VerbRetry })
	}
	return s
}

// end is the situation of a session that no run holds and that waits for nothing, except for the queue.
func (f *situationFacts) end(s *cairn.Situation) {
	rewound := f.run != nil && f.row.Status == cairn.SessionInterrupted && f.run.Status != cairn.RunInterrupted
	if f.run != nil && !rewound {
		s.Reason, s.StoppedBy, s.Error = cmp.Or(f.run.StopReason, string(f.run.Reason)), f.run.StoppedBy, f.run.Error
		if !s.EndedAt.IsZero() {
			s.Since = s.EndedAt
		}
	}
	switch f.row.Status {
	case cairn.SessionFailed:
		s.Kind, s.Verbs = cairn.SituationFailed, []cairn.Verb{cairn.VerbRetry}
	case cairn.SessionInterrupted:
		s.Kind, s.Verbs = cairn.SituationStopped, []cairn.Verb{cairn.VerbResume}
	case cairn.SessionIdle:
		if s.Kind = cairn.SituationNew; f.row.MessageCount > 0 {
			s.Verbs = []cairn.Verb{cairn.VerbResume}
		}
	default:
		s.Kind = cairn.SituationDone
	}
	if f.row.Queued > 0 {
		s.Kind, s.Since, s.Verbs = cairn.SituationQueue, f.row.UpdatedAt, nil
	}
}

// held sets what is known of the lease of the run.
func (f *situationFacts) held(s *cairn.Situation) {
	lease := f.row.Lease
	s.Owner, s.Step, s.Attempt = lease.Owner, f.row.Step+1, f.row.Recoveries+1
	if lease.TTL > 0 {
		s.SeenAt = earlier(lease.Until.Add(-time.Duration(lease.TTL)), f.row.AsOf)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (f *situationFacts) takeover(s *cairn.Situation) {
	f.held(s)
	s.Kind, s.Since = cairn.SituationTakeover, earlier(f.row.Lease.Until, f.row.AsOf)
	s.Verbs = []cairn.Verb{cairn.VerbResume, cairn.VerbStop}
}

// work is the situation of a running session.
func (f *situationFacts) work(s *cairn.Situation) {
	f.held(s)
	s.Kind, s.Verbs = cairn.SituationRunning, []cairn.Verb{cairn.VerbStop}
	if f.stop != nil && f.stop.RunID == f.row.RunID {
		s.Kind, s.Since, s.Reason, s.StoppedBy, s.Verbs = cairn.SituationStopping, f.stop.At, f.stop.Reason, f.stop.By, nil
		return
	}
	w := workOf(f.row, f.tail)
	if w.kind == "" {
		return
	}
	s.Kind, s.Since, s.Step, s.Attempt, s.Error = w.kind, w.since, max(s.Step, w.step), s.Attempt+w.retries, w.failed
	if w.kind == cairn.SituationRetry && !w.until.IsZero() {
		if s.Until = w.until; !f.row.AsOf.Before(w.until) { // the call that follows has published nothing yet
			s.Kind, s.Since, s.Until, s.Error = cairn.SituationModel, w.until, time.Time{}, nil
		}
	}
	if len(w.open) == 0 {
		return
	}
	first := w.open[0]
	s.Kind, s.Since, s.Tool, s.CallID, s.SessionID, s.Agent = cairn.SituationTool, first.Time, first.Tool, first.CallID, first.ChildID, first.Name
	if s.SessionID != "" {
		s.Kind = cairn.SituationChild
	}
}

// wait is the situation of a session that is paused.
func (f *situationFacts) wait(s *cairn.Situation) {
	row := f.row
	overdue := func(at time.Time) bool { return !at.IsZero() && !row.AsOf.Before(at) }
	call := urgent(f.calls)
	switch {
	case overdue(row.NextDeadline):
		s.Kind, s.Since = cairn.SituationWorker, row.NextDeadline
	case call != nil && overdue(call.Deadline):
		s.Kind, s.Since = cairn.SituationWorker, call.Deadline
	case call != nil:
		f.waitForCall(s, call)
		return
	case f.child != nil:
		s.Kind, s.Since, s.SessionID, s.Agent = cairn.SituationChild, f.child.UpdatedAt, f.child.ID, f.child.Agent
		s.Verbs = []cairn.Verb{cairn.VerbStop}
		return
	default:
		s.Kind = cairn.SituationWorker
	}
	s.Verbs = []cairn.Verb{cairn.VerbResume, cairn.VerbStop}
}

// urgent returns the call with the earliest deadline, or else the oldest one; nil for none.
func urgent(calls []cairn.PendingCall) (first *cairn.PendingCall) {
	for i := range calls {
		c := &calls[i]
		if first == nil || !c.Deadline.IsZero() && (first.Deadline.IsZero() || c.Deadline.Before(first.Deadline)) {
			first = c
		}
	}
	return first
}

// waits are the situations, and the verbs, of a session that waits for a call.
var waits = map[cairn.CallKind]struct {
	kind cairn.SituationKind
	verb cairn.Verb
}{
	cairn.CallApproval:   {cairn.SituationApproval, cairn.VerbApprove},
	cairn.CallQuestion:   {cairn.SituationAnswer, cairn.VerbAnswer},
	cairn.CallClientTool: {cairn.SituationClientTool, cairn.VerbAnswer},
	cairn.CallConnect:    {cairn.SituationAccount, cairn.VerbConnect},
	cairn.CallEffect:     {cairn.SituationEffect, cairn.VerbSettle},
	cairn.CallBudget:     {cairn.SituationBudget, cairn.VerbRaise},
}

func (f *situationFacts) waitForCall(s *cairn.Situation, call *cairn.PendingCall) {
	of := waits[call.Kind]
	s.Kind, s.Since, s.Until, s.Call = of.kind, call.CreatedAt, call.Deadline, call.Brief(f.row.AsOf)
	s.Verbs = []cairn.Verb{of.verb, cairn.VerbStop}
	if b := s.Call.Budget; b != nil && s.Until.IsZero() {
		s.Until = b.Until
	}
	if call.SessionID != f.row.ID {
		s.Kind, s.SessionID, s.Agent = cairn.SituationChild, call.SessionID, call.Agent
	}
}
