package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/learning"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/remotestop"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// skipFor is how long a worker leaves a session alone that it could not claim.
const skipFor = 30 * time.Second

// Work serves the store until ctx is done or the engine is closed, and then returns nil. It takes over runs whose
// process died and drives them from their last commit, in this process. It resumes sessions that have every answer they
// waited for, closes calls whose deadline has passed, and ends waits whose end has begun (see [cairn.Session.Ending]).
// It calls Sweep when it begins and every Options.SweepInterval. Any number of workers share a store. While it works,
// the engine is registered there, see [Engine.Workers]. A failure of the store does not end it: it logs the failure and
// retries.
//
// Runs that it claimed continue after ctx is done, until the engine is closed. [Engine.Serve] closes it as well.
func (e *Engine) Work(ctx context.Context) error {
	if e.isClosed() {
		return nil
	}
	w := newWorker(e.opts.WorkConcurrency)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	background, stop := context.WithCancel(ctx)
	defer stop()
	if e.records != nil {
		waiting.Go(func() { e.keepRegistered(background) })
	}
	if e.records != nil {
		waiting.Go(func() { e.deliverStops(background) })
		waiting.Go(func() { e.learnTurns(background) })
		waiting.Go(func() {
			e.attend(background, cairn.UpkeepInterval, "worker cannot name the files of branches", func() error { return e.mendBranches(background) })
		})
	}
	waiting.Go(func() { e.keepToolsets(background) })
	if e.opts.SweepInterval > 0 {
		waiting.Go(func() { e.sweepOften(background) })
	}
	for {
		err := e.work(ctx, w, &waiting)
		switch {
		case ctx.Err() != nil, e.isClosed():
			return nil
		case errors.Is(err, cairn.ErrClosed): // the store's
			return err
		case err != nil:
			e.opts.Logger.Warn("worker cannot list due sessions", "error", err)
		}
		timer := time.NewTimer(e.opts.WorkInterval)
		select {
		case <-timer.C:
		case <-w.again:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// deliverStops delivers stops that are still owed to models that work elsewhere.
func (e *Engine) deliverStops(ctx context.Context) {
	pauses := remotestop.Pauses()
	e.attend(ctx, e.opts.WorkInterval, "worker cannot list undelivered stops", func() error {
		if !e.anyAgent(remotestop.Elsewhere) {
			return nil
		}
		return e.runs.RemoteStops.DeliverRecorded(ctx, pauses)
	})
}

// learnTurns has memories learn from ended turns that they have not learned from yet.
func (e *Engine) learnTurns(ctx context.Context) {
	pauses := learning.Pauses()
	e.attend(ctx, e.opts.WorkInterval, "worker cannot list turns to learn from", func() error {
		if !e.anyAgent(func(a *cairn.Agent) bool { return a.Memory != nil }) {
			return nil
		}
		return e.runs.Learning.LearnRecorded(ctx, pauses)
	})
}

// keepToolsets does the work of the agents' toolsets.
func (e *Engine) keepToolsets(ctx context.Context) {
	e.attend(ctx, cairn.UpkeepInterval, "upkeep of toolsets failed", func() error {
		var failed []error
		kept := map[cairn.Keeper]bool{}
		for _, a := range e.agents.Load().versions {
			for _, ts := range define.Toolsets(a) {
				k, ok := ts.(cairn.Keeper)
				if ok && reflect.ValueOf(k).Comparable() { // agents may share one
					ok, kept[k] = !kept[k], true
				}
				if ok {
					u := user.Code{What: fmt.Sprintf("the upkeep of the toolset %q", k.Name()), Err: cairn.ErrHook, Agent: a.Name}
					_, err := user.Call(ctx, &e.runs.User, u, func(ctx context.Context) (none struct{}, err error) { return none, k.Upkeep(ctx) })
					failed = append(failed, err)
				}
			}
		}
		return errors.Join(failed...)
	})
}

// attend calls fn at once and at every interval until ctx is done. Its first error of a row is logged.
func (e *Engine) attend(ctx context.Context, every time.Duration, failed string, fn func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		err := fn()
		if err != nil && !failing && ctx.Err() == nil {
			e.opts.Logger.Warn(failed, "error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// anyAgent reports whether an agent of this engine is one of those.
func (e *Engine) anyAgent(those func(*cairn.Agent) bool) bool {
	for _, a := range e.agents.Load().versions {
		if those(a) {
			return true
		}
	}
	return false
}

// worker is the state of one call of Work. Its times are the process's: they only measure how long a session is left
// alone.
type worker struct {
	slots  chan struct{} // one entry per run under way, or claim that may become one
	claims chan struct{} // one entry per claim under way, except for those that take long
	again  chan struct{} // has an entry once a claim has succeeded: what it leaves may be due

	mu     sync.Mutex
	taking map[string]bool      // sessions that are being claimed
	left   map[string]time.Time // sessions left alone, and until when

	// from is a cursor: everything due before it is left alone.
	from string
	// reported holds the agents that are not served here and were logged; next is when to look for more.
	reported map[string]bool
	next     time.Time
}

func newWorker(concurrency int) *worker {
	return &worker{slots: make(chan struct{}, concurrency), claims: make(chan struct{}, claimsAtOnce), again: make(chan struct{}, 1),
		taking: map[string]bool{}, left: map[string]time.Time{}, reported: map[string]bool{}}
}

const (
	// dueBatch is how many due sessions a worker asks for at once.
	dueBatch = 100
	// claimsAtOnce is how many sessions a worker claims at once: enough to make use of the store, and few enough to
	// leave connections to runs. A claim that takes longer than longClaim no longer counts.
	claimsAtOnce = 8
	longClaim    = time.Second
)

// work claims due sessions of the engine's agents, as slots permit. It looks past all sessions that are left alone. It
// returns once it has begun to claim all others.
func (e *Engine) work(ctx context.Context, w *worker, waiting *sync.WaitGroup) error {
	now := time.Now()
	w.mu.Lock()
	for id, until := range w.left {
		if !now.Before(until) {
			delete(w.left, id)
			w.from = ""
		}
	}
	w.mu.Unlock()
	e.reportUnserved(ctx, w, now)
	begun := false
	for q := (driver.DueQuery{Agents: e.Agents(), Cursor: w.from, Limit: dueBatch}); ; {
		page, err := e.store.Due(ctx, q)
		if err != nil {
			return err
		}
		kept := e.askHost(ctx, page.Items, w)
		for _, d := range page.Items {
			if kept[d.SessionID] || !w.begin(d.SessionID) {
				continue
			}
			begun = true
			if err := e.take(ctx, d, w, waiting); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
		if !begun {
			w.passed(page)
		}
	}
}

// begin reports whether a session is to be claimed: it is neither left alone nor being claimed already.
func (w *worker) begin(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, left := w.left[id]; left || w.taking[id] {
		return false
	}
	w.taking[id] = true
	return true
}

// claimed ends what begin began. The session is left alone for the time rest.
func (w *worker) claimed(id string, rest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taking, id)
	if rest > 0 {
		w.left[id] = time.Now().Add(rest)
	}
}

// passed records that a page with a successor holds nothing to claim for the time being.
func (w *worker) passed(page store.Page[store.Due]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range page.Items {
		if _, ok := w.left[d.SessionID]; !ok {
			return // another worker has it, and it may be due again
		}
	}
	w.from = page.Next
}

// take claims a session in the background, once there is a free slot and few others are being claimed. The error is
// that of ctx.
func (e *Engine) take(ctx context.Context, d store.Due, w *worker, waiting *sync.WaitGroup) error {
	for _, room := range []chan struct{}{w.slots, w.claims} {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	waiting.Go(func() {
		defer func() { <-w.slots }()
		claim := sync.OnceFunc(func() { <-w.claims })
		long := time.AfterFunc(longClaim, claim)
		r, rest := e.claim(ctx, d)
		long.Stop()
		claim()
		w.claimed(d.SessionID, rest)
		if r == nil {
			return
		}
		select {
		case w.again <- struct{}{}:
		default:
		}
		if r.done == nil { // nothing to drive in this process
			return
		}
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	})
	return nil
}

// claim takes a due session over. The run is nil if it could not; rest is then how long the session is to be left alone.
func (e *Engine) claim(ctx context.Context, d store.Due) (r *Run, rest time.Duration) {
	// The end of ctx must not leave a lease that no process renews or releases.
	r, err := e.takeOver(context.WithoutCancel(ctx), d)
	if errors.Is(err, cairn.ErrCorrupt) && e.runs.FailCorrupt(ctx, d.SessionID, err) == nil {
		err = nil
	}
	switch {
	case err != nil:
		return nil, restAfter(err)
	case r == nil:
		return &Run{}, 0
	}
	return r, 0
}

// leave leaves a session alone for a while that could not be claimed because of err.
func (w *worker) leave(id string, err error) {
	if rest := restAfter(err); rest > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.left[id] = time.Now().Add(rest)
	}
}

// leaves reports whether a session is left alone now.
func (w *worker) leaves(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, left := w.left[id]
	return left
}

// restAfter returns how long a session is left alone that could not be claimed because of err.
func restAfter(err error) time.Duration {
	var held *heldError
	var away *lifecycle.UnreachableError
	switch {
	case errors.Is(err, cairn.ErrClosed):
		return 0
	case errors.As(err, &held):
		return min(held.rest, skipFor)
	case errors.As(err, &away):
		return min(away.Rest, skipFor)
	case isConflict(err): // another worker has it
		return 0
	case errors.Is(err, cairn.ErrCorrupt): // still unreadable in half a minute
		return 20 * skipFor
	}
	return skipFor
}

// unservedEvery is how often a worker looks for due sessions of agents that it does not know.
const unservedEvery = 10 * time.Minute

// reportUnserved logs due sessions that this worker does not serve, once per agent.
func (e *Engine) reportUnserved(ctx context.Context, w *worker, now time.Time) {
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(unservedEvery)
	page, err := e.store.Due(ctx, driver.DueQuery{Limit: 1000})
	if err != nil {
		return // the next look for sessions reports the error
	}
	for _, d := range page.Items {
		if e.agent(d.Agent) == nil && !w.reported[d.Agent] {
			w.reported[d.Agent] = true
			e.opts.Logger.Warn("due sessions belong to an agent that this worker does not serve", "agent", d.Agent, "session", d.SessionID,
				"because", d.Kind, "since", d.Since)
		}
	}
}

// takeOver does what a due session needs. The run is nil if none has to be driven.
func (e *Engine) takeOver(ctx context.Context, d store.Due) (*Run, error) {
	r, err := e.serveDue(ctx, d)
	var away *lifecycle.UnreachableError
	switch {
	case err == nil && r != nil:
		e.opts.Logger.Info("run claimed", "session", d.SessionID, "run", r.id, "because", d.Kind, "since", d.Since)
	case err == nil, isConflict(err): // another worker was faster
	case errors.As(err, &away) && !away.Asked: // reported when it was asked
	default:
		e.opts.Logger.Warn("session not claimed", "session", d.SessionID, "because", d.Kind, "error", err)
	}
	return r, err
}

func (e *Engine) serveDue(ctx context.Context, d store.Due) (*Run, error) {
	if d.Kind == store.DueCrashed {
		if err := e.leftAlone(ctx, d.SessionID); err != nil {
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
	case d.Kind == store.DueOutbox:
		return nil, e.emptyOutbox(ctx, d.SessionID)
	case d.Kind == store.DueEnding:
		return nil, e.goOnEnding(ctx, d.SessionID)
	case d.RootID != d.SessionID:
		return e.serveChild(ctx, d)
	case d.Kind == store.DueCrashed:
		return e.recover(ctx, d.SessionID, nil)
	case d.Kind == store.DueQueued:
		return e.startQueued(ctx, d.SessionID)
	}
	return e.resumeSuspended(ctx, d.SessionID, false)
}

// emptyOutbox brings to the log what a dead process left in a session's outbox.
func (e *Engine) emptyOutbox(ctx context.Context, id string) error {
	row, err := driver.Load(ctx, e.store, id)
	if err == nil {
		_, err = e.runs.Empty(ctx, row)
	}
	return err
}

// goOnEnding continues the end of a wait: the process that began it has died, or a sub-agent still ran. As long as
// one does, the worker looks again with each look for due sessions.
func (e *Engine) goOnEnding(ctx context.Context, id string) error {
	row, err := driver.Load(ctx, e.store, id)
	if err != nil || row.Ending == nil {
		return err
	}
	return e.cancelWait(ctx, row, *row.Ending)
}

// serveChild handles a due child session. Its root resumes it; if no session waits for it any more, it is ended.
func (e *Engine) serveChild(ctx context.Context, d store.Due) (*Run, error) {
	child, err := driver.Load(ctx, e.store, d.SessionID)
	if err != nil {
		return nil, err
	}
	if alone, err := e.worksAlone(ctx, child); err != nil || alone {
		return e.continueCompanion(ctx, child, err)
	}
	root, err := driver.Load(ctx, e.store, d.RootID)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) {
		return nil, err
	}
	stop := cairn.Stop{Kind: cairn.StopInterrupt, Reason: "its parent no longer waits for it"}
	switch {
	case err == nil && root.Running(root.AsOf):
		return nil, cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: its root is running", d.SessionID)
	case err == nil && root.Status == cairn.SessionActive:
		if err := e.shorten(ctx, root); err != nil {
			return nil, err
		}
		return e.recover(ctx, d.RootID, nil)
	case d.Kind == store.DueCrashed:
		stop.RunID = child.RunID
		_, err := e.endCrashed(ctx, child, stop)
		return nil, err
	}
	for above := child; ; { // up to the one that no session waits for
		awaited, err := e.awaited(ctx, above)
		switch {
		case err != nil:
			return nil, err
		case !awaited:
			stop.RunID = above.RunID
			return nil, e.runs.CancelWait(ctx, above.ID, stop)
		case above.ParentID == d.RootID:
			return e.resumeSuspended(ctx, d.RootID, false)
		}
		if above, err = driver.Load(ctx, e.store, above.ParentID); err != nil {
			return nil, err
		}
	}
}

// awaited reports whether a suspended parent waits for a child. The error is ErrAlreadyRunning if the parent is running
// and may have seen a companion wait: then it resumes the companion, or waits for it once its step is committed.
func (e *Engine) awaited(ctx context.Context, child *cairn.Session) (bool, error) {
	parent, err := driver.Load(ctx, e.store, child.ParentID)
	if errors.Is(err, cairn.ErrNotFound) {
		return false, nil
	}
	if err == nil && parent.Status == cairn.SessionActive && child.Status == cairn.SessionPaused && child.Kind == cairn.ChildCompanion {
		var waits bool
		if waits, err = e.runs.Awaited(ctx, child); waits && err == nil {
			err = cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: its parent is running", child.ID)
		}
	}
	if err != nil || parent.Status != cairn.SessionPaused {
		return false, err
	}
	run, err := driver.FindRun(ctx, e.store, parent.ID, parent.RunID)
	if err != nil {
		return false, err
	}
	return run.Suspended.Awaits(child.ID), nil
}

// worksAlone reports whether a child is a companion that works by itself. An awaited companion is continued by its
// parent, even if the parent is only about to do so.
func (e *Engine) worksAlone(ctx context.Context, child *cairn.Session) (bool, error) {
	if child.Kind != cairn.ChildCompanion {
		return false, nil
	}
	if awaited, err := e.awaited(ctx, child); err != nil || awaited {
		return false, err
	}
	if _, err := driver.Load(ctx, e.store, child.ParentID); err != nil {
		if errors.Is(err, cairn.ErrNotFound) {
			err = nil
		}
		return err == nil, err
	}
	awaited, err := e.runs.Awaited(ctx, child)
	return err == nil && !awaited, err
}

// continueCompanion resumes a companion that works by itself.
func (e *Engine) continueCompanion(ctx context.Context, child *cairn.Session, err error) (*Run, error) {
	switch {
	case err != nil:
		return nil, err
	case child.Status == cairn.SessionActive:
		return e.recover(ctx, child.ID, nil)
	}
	return e.resumeSuspended(ctx, child.ID, true)
}
