package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// once does what begins a run, unless the session has the run that the options name.
func (e *Engine) once(ctx context.Context, sessionID string, o *runOptions, begin func() (*Run, error)) (*Run, error) {
	if o.runID == "" {
		return begin()
	}
	if err := o.checkRunID(); err != nil {
		return nil, err
	}
	release, err := e.alone(ctx, o.runID)
	if err != nil {
		return nil, err
	}
	defer release()
	if there, err := e.named(ctx, sessionID, o.runID); there != nil || err != nil {
		return there, err
	}
	run, err := begin()
	if err == nil {
		return run, nil
	}
	if there, _ := e.named(ctx, sessionID, o.runID); there != nil { // another process was faster
		return there, nil
	}
	return nil, err
}

func (o *runOptions) checkRunID() error {
	if problem := ids.Check(o.runID); o.runID != "" && problem != "" {
		return cairn.Invalid("run_id", "%s", problem)
	}
	return nil
}

// alone waits until no other call in this process is about to begin the run of a name: that one's cannot be found before it
// has begun.
func (e *Engine) alone(ctx context.Context, runID string) (release func(), err error) {
	for {
		e.mu.Lock()
		other := e.naming[runID]
		if other == nil {
			mine := make(chan struct{})
			e.naming[runID] = mine
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				delete(e.naming, runID)
				e.mu.Unlock()
				close(mine)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
