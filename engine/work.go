package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// skipFor is how long a worker leaves a session alone that it could not take on.
const skipFor = 30 * time.Second

// Work serves the store until ctx is done, then returns nil: it looks for runs whose process died and drives them on
// from their last commit, in this process. Any number of workers share a store. Runs that it took on go on after ctx
// is done, until the engine is closed. The error is ErrClosed after Close.
func (e *Engine) Work(ctx context.Context) error {
	slots := make(chan struct{}, e.opts.WorkConcurrency)
	skip := map[string]time.Time{}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for {
		found, err := e.work(ctx, slots, skip, &waiting)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, cairn.ErrClosed):
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
			return errClosed()
		}
	}
}

// work takes on what is due, as far as there are slots, and reports whether it took anything.
func (e *Engine) work(ctx context.Context, slots chan struct{}, skip map[string]time.Time, waiting *sync.WaitGroup) (found bool, err error) {
	now := e.opts.Now()
	for id, until := range skip {
		if now.After(until) {
			delete(skip, id)
		}
	}
	due, err := e.store.Due(ctx, cap(slots)+len(skip))
	if err != nil {
		return false, err
	}
	for _, d := range due {
		if _, ok := skip[d.SessionID]; ok {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return found, ctx.Err()
		}
		r, err := e.takeOver(ctx, d)
		if err != nil {
			<-slots
			if errors.Is(err, cairn.ErrClosed) {
				return found, err
			}
			if !isConflict(err) { // else somebody else has it
				skip[d.SessionID] = now.Add(skipFor)
			}
			continue
		}
		found = true
		waiting.Go(func() {
			defer func() { <-slots }()
			select {
			case <-r.done:
			case <-ctx.Done():
			}
		})
	}
	return found, nil
}

func (e *Engine) takeOver(ctx context.Context, d store.Due) (*Run, error) {
	r, err := e.recover(ctx, d.SessionID)
	switch {
	case err == nil:
		e.opts.Logger.Info("run taken over", "session", d.SessionID, "run", r.id, "since", d.Since)
	case isConflict(err): // another worker was faster
	default:
		e.opts.Logger.Warn("run not taken over", "session", d.SessionID, "error", err)
	}
	return r, err
}
