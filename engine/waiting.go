package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// wait applies the options to a session that waits for calls, or that has answers its run has not used yet. If it
// returns neither a run nor an error, the turn may be able to begin.
func (e *Engine) wait(ctx context.Context, in *lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	row, err := driver.Load(ctx, e.store, in.SessionID)
	if err != nil {
		return nil, err
	}
	if row.Status != cairn.SessionPaused || row.Ending != nil {
		return nil, nil
	}
	w, err := e.runs.Waiting(ctx, row)
	switch {
	case err != nil:
		return nil, err
	case len(w.Open) == 0 || w.Answered && o.waiting == WaitingWithdraw:
		return e.behindAnswers(ctx, in.SessionID, input, o, w)
	case o.waiting == WaitingEnqueue:
		return e.enqueue(ctx, in.SessionID, input, o, false, func(row *cairn.Session, _ *driver.Commit) (bool, error) {
			return row.Status == cairn.SessionPaused && row.Ending == nil && !row.Ready(), nil
		})
	case o.waiting == WaitingRefuse:
		return nil, w.Refusal(in.SessionID)
	}
	in.Withdraw = true
	return nil, nil
}

// behindAnswers queues a turn behind the run that uses the accepted answers, and resumes that run. It closes open calls
// as not executed. If this process dies in between, a worker resumes the run.
func (e *Engine) behindAnswers(ctx context.Context, sessionID string, input *cairn.Input, o *runOptions, w *lifecycle.Wait) (*Run, error) {
	if err := o.storable(); err != nil {
		return nil, err
	}
	run, err := e.enqueue(ctx, sessionID, input, o, false, func(row *cairn.Session, c *driver.Commit) (bool, error) {
		if row.Status != cairn.SessionPaused || row.Ending != nil || len(w.Open) == 0 {
			return row.Status == cairn.SessionPaused && row.Ending == nil, nil
		}
		_, err := e.runs.DropOpen(ctx, c, row)
		return true, err
	})
	if run == nil || err != nil {
		return nil, err
	}
	if err := e.runs.DropBelow(ctx, w, sessionID); err != nil {
		return nil, err
	}
	e.resumeSoon(ctx, sessionID)
	return run, nil
}
