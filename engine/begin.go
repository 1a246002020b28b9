package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/effects"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// newRun is what the options of a verb say of the run that it begins.
func newRun(sessionID string, o *runOptions) lifecycle.NewRun {
	return lifecycle.NewRun{SessionID: sessionID, RunID: o.runID, Model: o.model, TraceParent: o.create.TraceParent, Hooks: o.hooks, Owner: o.owner()}
}

// beginTurn begins the next turn of a session and drives it.
func (e *Engine) beginTurn(ctx context.Context, in lifecycle.Turn, input *cairn.Input) (*Run, error) {
	return e.begin(ctx, &in.NewRun, input, func() (host.Run, error) { return e.runs.Execute(ctx, in) })
}

// beginResume begins a run that continues a session and drives it.
func (e *Engine) beginResume(ctx context.Context, in lifecycle.Resumption, input *cairn.Input) (*Run, error) {
	if input != nil {
		in.QueueID = e.opts.NewID("run")
	}
	return e.begin(ctx, &in.NewRun, input, func() (host.Run, error) { return e.runs.Resume(ctx, in) })
}

// begin begins a run by verb, which reads in, and drives it. It gives the run an id if it has none, and adds input to
// its messages; nil adds nothing.
func (e *Engine) begin(ctx context.Context, in *lifecycle.NewRun, input *cairn.Input, verb func() (host.Run, error)) (*Run, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	if in.RunID == "" {
		in.RunID = e.opts.NewID("run")
	}
	if input != nil {
		in.Messages = slices.Clone(input.Messages)
	}
	release, err := e.reserve(ctx, in.SessionID, in.RunID)
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	defer release()
	asked := time.Now()
	b, err := verb()
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	if e.opts.Host != nil {
		ctx = effects.WithHooks(ctx, in.Hooks)
	}
	return e.drive(ctx, b, asked), nil
}

// reserve keeps a run from being begun twice at once in this process: to the store, whose writes are idempotent, both
// would be the same. It waits for another call that is about to begin the run, which cannot be found before.
func (e *Engine) reserve(ctx context.Context, sessionID, runID string) (release func(), err error) {
	key := runKey{sessionID, runID}
	e.mu.Lock()
	defer e.mu.Unlock()
	for other := e.beginning[key]; other != nil; other = e.beginning[key] {
		e.mu.Unlock()
		select {
		case <-other:
			e.mu.Lock()
		case <-ctx.Done():
			e.mu.Lock()
			return nil, ctx.Err()
		}
	}
	if e.driving[key] != nil {
		return nil, cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: run %q has already begun", sessionID, runID)
	}
	done := make(chan struct{})
	e.beginning[key] = done
	return func() {
		e.mu.Lock()
		delete(e.beginning, key)
		e.mu.Unlock()
		close(done)
	}, nil
}

// recover takes over a run whose process died.
func (e *Engine) recover(ctx context.Context, sessionID string, hooks *cairn.Hooks) (*Run, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	asked := time.Now()
	b, err := e.runs.Recover(ctx, sessionID, hooks)
	if err == nil && b.RunID == "" {
		err = cairn.Errorf(cairn.ErrCrashLoop, "session %q: run failed after too many takeovers", sessionID)
	}
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	if e.opts.Host != nil { // the context may be of another run
		ctx = effects.WithHooks(ctx, hooks)
	}
	return e.drive(ctx, b, asked), nil
}

// resumeSuspended resumes a session that waits, unless it was stopped meanwhile. If its process has died it takes the
// run over.
func (e *Engine) resumeSuspended(ctx context.Context, sessionID string, child bool) (*Run, error) {
	run, err := e.resumeWait(ctx, sessionID, child)
	if died(err) {
		return e.recover(ctx, sessionID, nil)
	}
	return run, err
}

// resumeWait is resumeSuspended for a session that is paused. It returns a DiedError if the session's process has died.
func (e *Engine) resumeWait(ctx context.Context, sessionID string, child bool) (*Run, error) {
	return e.beginResume(ctx, lifecycle.Resumption{NewRun: lifecycle.NewRun{SessionID: sessionID, Child: child}, Paused: true}, nil)
}

// startQueued begins the next turn of a session's queue; the run is nil if the queue is empty.
func (e *Engine) startQueued(ctx context.Context, sessionID string) (*Run, error) {
	queue, err := driver.Queue(ctx, e.store, sessionID)
	turns := turnsOf(queue)
	if err != nil || len(turns) == 0 {
		return nil, err
	}
	next := turns[0]
	in := lifecycle.NewRun{SessionID: sessionID, RunID: next.ID, Model: &next.Model, TraceParent: next.TraceParent, Messages: next.Messages}
	return e.beginTurn(ctx, lifecycle.Turn{NewRun: in, Dequeue: []string{next.ID}}, nil)
}

// beginQueued begins what is queued behind a run that has ended here.
func (e *Engine) beginQueued(ctx context.Context, sessionID string) {
	if _, err := e.startQueued(ctx, sessionID); err != nil && !isConflict(err) {
		e.opts.Logger.Warn("next queued turn not begun; a worker will begin it", "session", sessionID, "error", err)
	}
}

// resumeSoon resumes a session whose last answer has come. If that fails a worker or the next Resume does it. A run
// whose process has died is taken over in the background, since its log, its children and what it owes to other servers
// may take long.
func (e *Engine) resumeSoon(ctx context.Context, root string) {
	_, err := e.resumeWait(context.WithoutCancel(ctx), root, false)
	switch {
	case died(err):
		e.recoverSoon(root)
	case err != nil && !isConflict(err) && !errors.Is(err, cairn.ErrNotResumable):
		e.opts.Logger.Warn("session not resumed after an answer", "session", root, "error", err)
	}
}

// recoverSoon takes over the run of a process that died, in the background: its log, its children and the stops that it
// owes to other servers may take long. If the run was taken over too often and has failed, the next queued turn begins.
func (e *Engine) recoverSoon(root string) {
	e.behind(func(ctx context.Context) {
		_, err := e.recover(ctx, root, nil)
		switch {
		case err != nil && cairn.AsError(err).Code == cairn.ErrCrashLoop:
			e.beginQueued(ctx, root)
		case err != nil && !isConflict(err):
			e.opts.Logger.Warn("run of a dead process not taken over", "session", root, "error", err)
		}
	})
}
