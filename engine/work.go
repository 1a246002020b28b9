package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

// skipFor is how long a worker leaves a session alone that it could not take on.
const skipFor = 30 * time.Second

// Work serves the store until ctx is done or the engine is closed, and then returns nil: it looks for runs whose
// process died and drives them on from their last commit, in this process; it resumes sessions that have every answer
// they waited for, and closes calls whose deadline has passed. It calls Sweep when it begins and every
// Options.SweepInterval. Any number of workers share a store. Meanwhile the engine is registered there, see
// [Engine.Workers]. A store that fails does not end it: that is logged, and tried again.
//
// Runs that it claimed continue after ctx is done, until the engine is closed. [Engine.Serve] closes it as
// well.
func (e *Engine) Work(ctx context.Context) error {
	if e.isClosed() {
		return nil
	}
	w := &worker{slots: make(chan struct{}, e.opts.WorkConcurrency), left: map[string]time.Time{}, reported: map[string]bool{}}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	background, stop := context.WithCancel(ctx)
	defer stop()
	if e.records != nil {
		waiting.Go(func() { e.keepRegistered(background) })
	}
	if e.records != nil {
		waiting.Go(func() { e.deliverStops(background) })
	}
	if e.opts.SweepInterval > 0 {
		waiting.Go(func() { e.sweepOften(background) })
	}
	for {
		found, err := e.work(ctx, w, &waiting)
		switch {
		case ctx.Err() != nil, e.isClosed():
			return nil
		case errors.Is(err, cairn.ErrClosed): // the store is
			return err
		case err != nil:
			e.opts.Logger.Warn("worker could not look for sessions", "error", err)
		case found:
			continue
		}
		timer := time.NewTimer(e.opts.WorkInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// deliverStops delivers the stops that are still owed to what works elsewhere, every Options.WorkInterval until ctx is done.
func (e *Engine) deliverStops(ctx context.Context) {
	var stops lifecycle.Stops
	tick := time.NewTicker(e.opts.WorkInterval)
	defer tick.Stop()
	for failing := false; ; {
		var err error
		if e.stopsElsewhere() {
			err = e.runs.DeliverStops(ctx, &stops)
		}
		if err != nil && !failing && ctx.Err() == nil {
			e.opts.Logger.Warn("worker could not look for stops that are owed", "error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stopsElsewhere reports whether an agent of this engine has others work for it.
func (e *Engine) stopsElsewhere() bool {
	for _, a := range e.agents.Load().versions {
		if lifecycle.StopsElsewhere(a) {
			return true
		}
	}
	return false
}

// worker is what one call of Work remembers. Its times are the process's: they only measure how long something is left alone.
type worker struct {
	slots chan struct{}
	left  map[string]time.Time // the sessions that are left alone, and until when
	// from is a cursor: everything due before it is left alone.
	from string
	// reported are the agents that are not served here and of which this has been said; next is when to look for more.
	reported map[string]bool
	next     time.Time
}

// work takes on what is due of the agents that this engine has, as far as there are slots, and reports whether it took
// anything. It looks past what is left alone, however much that is.
func (e *Engine) work(ctx context.Context, w *worker, waiting *sync.WaitGroup) (found bool, err error) {
	now := time.Now()
	for id, until := range w.left {
		if !now.Before(until) {
			delete(w.left, id)
			w.from = ""
		}
	}
	e.reportUnserved(ctx, w, now)
	for q := (store.DueQuery{Agents: e.Agents(), Cursor: w.from, Limit: dueBatch}); ; {
		page, err := e.store.Due(ctx, q)
		if err != nil {
			return found, err
		}
		for _, d := range page.Items {
			if _, ok := w.left[d.SessionID]; ok {
				continue
			}
			took, err := e.take(ctx, d, w, waiting)
			if err != nil {
				return found, err
			}
			found = found || took
		}
		if q.Cursor = page.Next; q.Cursor == "" || found {
			return found, nil
		}
		w.passed(page)
	}
}

// passed notes that a page that another one follows has nothing to be taken on for the time being.
func (w *worker) passed(page store.Page[store.Due]) {
	for _, d := range page.Items {
		if _, ok := w.left[d.SessionID]; !ok {
			return // another worker has it, and it may be due again
		}
	}
	w.from = page.Next
}

// dueBatch is how many due sessions a worker asks for at once.
const dueBatch = 100

// take takes a session on, as soon as there is a slot, and reports whether it did. The error says that there is no point in
// taking on others.
func (e *Engine) take(ctx context.Context, d store.Due, w *worker, waiting *sync.WaitGroup) (bool, error) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	r, err := e.takeOver(context.WithoutCancel(ctx), d) // else a lease could be left that nobody keeps or gives back
	if errors.Is(err, cairn.ErrCorrupt) && e.runs.FailCorrupt(ctx, d.SessionID, err) == nil {
		err = nil
	}
	if err != nil {
		<-w.slots
		if errors.Is(err, cairn.ErrClosed) {
			return false, err
		}
		if rest := restAfter(err); rest > 0 {
			w.left[d.SessionID] = time.Now().Add(rest)
		}
		return false, nil
	}
	if r == nil || r.done == nil { // nothing for this process to drive
		<-w.slots
		return true, nil
	}
	waiting.Go(func() {
		defer func() { <-w.slots }()
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	})
	return true, nil
}

// restAfter returns how long a session is left alone that was not taken on for a reason.
func restAfter(err error) time.Duration {
	var held *heldError
	switch {
	case errors.As(err, &held):
		return min(held.rest, skipFor)
	case isConflict(err): // another worker has it
		return 0
	case errors.Is(err, cairn.ErrCorrupt): // what cannot be read today cannot be read in half a minute
		return 20 * skipFor
	}
	return skipFor
}

// unservedEvery is how often a worker looks whether sessions of agents that it does not know are due.
const unservedEvery = 10 * time.Minute

// reportUnserved logs, once for each agent, that sessions are due which this worker does not serve.
func (e *Engine) reportUnserved(ctx context.Context, w *worker, now time.Time) {
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(unservedEvery)
	page, err := e.store.Due(ctx, store.DueQuery{Limit: 1000})
	if err != nil {
		return // the next look for sessions says so
	}
	for _, d := range page.Items {
		if e.agent(d.Agent) == nil && !w.reported[d.Agent] {
			w.reported[d.Agent] = true
			e.opts.Logger.Warn("sessions are due of an agent that this worker does not serve", "agent", d.Agent, "session", d.SessionID,
				"because", d.Kind, "since", d.Since)
		}
	}
}

// takeOver does what a session needs. The run is nil if that needed none.
func (e *Engine) takeOver(ctx context.Context, d store.Due) (*Run, error) {
	r, err := e.settleDue(ctx, d)
	switch {
	case err == nil && r != nil:
		e.opts.Logger.Info("run taken on", "session", d.SessionID, "run", r.id, "because", d.Kind, "since", d.Since)
	case err == nil, isConflict(err): // another worker was faster
	default:
		e.opts.Logger.Warn("session not taken on", "session", d.SessionID, "because", d.Kind, "error", err)
	}
	return r, err
}

func (e *Engine) settleDue(ctx context.Context, d store.Due) (*Run, error) {
	if d.Kind == store.DueCrashed {
		if err := e.stranger(ctx, d.SessionID); err != nil {
			return nil, err
		}
	}
	if d.Kind == store.DueDeadline {
		ready, err := e.runs.Expire(ctx, d.SessionID)
		if err != nil || !ready {
			return nil, err
		}
	}
	switch {
	case d.RootID != d.SessionID:
		return e.settleChild(ctx, d)
	case d.Kind == store.DueCrashed:
		return e.recover(ctx, d.SessionID, nil)
	case d.Kind == store.DueQueued:
		return e.startQueued(ctx, d.SessionID)
	}
	return e.goOn(ctx, d.SessionID, false)
}

// settleChild sees to a sub-agent's session. Its root resumes it; if nobody waits for it any more, it is ended.
func (e *Engine) settleChild(ctx context.Context, d store.Due) (*Run, error) {
	child, err := store.Load(ctx, e.store, d.SessionID)
	if err != nil {
		return nil, err
	}
	if alone, err := e.worksAlone(ctx, child); err != nil || alone {
		return e.continueCompanion(ctx, child, err)
	}
	root, err := store.Load(ctx, e.store, d.RootID)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) {
		return nil, err
	}
	stop := cairn.Stop{Kind: cairn.StopInterrupt, Reason: "nobody waits for it"}
	switch {
	case err == nil && root.Running(root.AsOf):
		return nil, cairn.Errorf(cairn.CodeRunning, "session %q: its root is running", d.SessionID)
	case err == nil && root.Status == cairn.SessionActive:
		return e.recover(ctx, d.RootID, nil)
	case d.Kind == store.DueCrashed:
		return nil, e.runs.Settle(ctx, child, stop)
	}
	for above := child; ; { // up to the one that nobody waits for
		awaited, err := e.awaited(ctx, above)
		switch {
		case err != nil:
			return nil, err
		case !awaited:
			stop.RunID = above.RunID
			return nil, e.runs.Withdraw(ctx, above.ID, stop)
		case above.ParentID == d.RootID:
			return e.goOn(ctx, d.RootID, false)
		}
		if above, err = store.Load(ctx, e.store, above.ParentID); err != nil {
			return nil, err
		}
	}
}

// awaited reports whether a suspended parent waits for a child. The error is ErrAlreadyRunning if the parent is at work
// and may have seen a companion wait: then it resumes it, or waits for it once its step is committed.
func (e *Engine) awaited(ctx context.Context, child *cairn.Session) (bool, error) {
	parent, err := store.Load(ctx, e.store, child.ParentID)
	if errors.Is(err, cairn.ErrNotFound) {
		return false, nil
	}
	if err == nil && parent.Status == cairn.SessionActive && child.Status == cairn.SessionPaused && child.Kind == cairn.ChildCompanion && e.runs.Awaits(parent, child) {
		err = cairn.Errorf(cairn.CodeRunning, "session %q: its parent is running", child.ID)
	}
	if err != nil || parent.Status != cairn.SessionPaused {
		return false, err
	}
	run, err := store.FindRun(ctx, e.store, parent.ID, parent.RunID)
	if err != nil {
		return false, err
	}
	return run.Suspended.Awaits(child.ID), nil
}

// worksAlone reports whether a child is a companion that works by itself. One that is waited for is its parent's to go
// on with, also while the parent is just about to.
func (e *Engine) worksAlone(ctx context.Context, child *cairn.Session) (bool, error) {
	if child.Kind != cairn.ChildCompanion {
		return false, nil
	}
	if awaited, err := e.awaited(ctx, child); err != nil || awaited {
		return false, err
	}
	parent, err := store.Load(ctx, e.store, child.ParentID)
	if errors.Is(err, cairn.ErrNotFound) {
		return true, nil
	}
	return err == nil && !e.runs.Awaits(parent, child), err
}

// continueCompanion resumes a companion that works by itself.
func (e *Engine) continueCompanion(ctx context.Context, child *cairn.Session, err error) (*Run, error) {
	switch {
	case err != nil:
		return nil, err
	case child.Status == cairn.SessionActive:
		return e.recover(ctx, child.ID, nil)
	}
	return e.goOn(ctx, child.ID, true)
}
