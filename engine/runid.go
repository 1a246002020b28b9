package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// once calls begin, unless the session already has the run that the options name.
func (e *Engine) once(ctx context.Context, sessionID string, o *runOptions, begin func() (*Run, error)) (*Run, error) {
	if o.runID == "" {
		return begin()
	}
	if err := o.checkRunID(); err != nil {
		return nil, err
	}
	if !o.fresh { // else a session that exists refuses the write
		if there, err := e.named(ctx, sessionID, o); there != nil || err != nil {
			return there, err
		}
	}
	run, err := begin()
	if err == nil {
		return run, nil
	}
	if there, _ := e.named(ctx, sessionID, o); there != nil { // another caller was faster
		return there, nil
	}
	return nil, err
}

func (o *runOptions) checkRunID() error {
	if problem := ids.CheckPath(o.runID); o.runID != "" && problem != "" {
		return cairn.Invalid("run_id", "%s", problem)
	}
	return nil
}
