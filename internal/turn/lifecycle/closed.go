package lifecycle

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// Announce logs and calls the hooks for a run that was ended without being driven, and for the results with which its calls were
// closed. The end is committed, so errors are only logged. The agent may not be registered here.
func (r *Runs) Announce(ctx context.Context, row *cairn.Session, run *cairn.Run, results []cairn.Message) {
	r.LogEnd(row, run, nil)
	a, err := r.Agent(row.Agent, run.AgentVersion)
	if err != nil || !user.HooksOf(r.Hooks, a, nil).Any(func(h *cairn.Hooks) bool {
		return user.EndHook(h, run) != nil || len(results) > 0 && (h.OnMessage != nil || h.AfterTool != nil || h.AfterSubAgent != nil)
	}) {
		return
	}
	from := row.MessageCount
	if len(results) > 0 {
		from = 0
	}
	l, err := r.Over(ctx, row, run.ID, from)
	if err == nil {
		defer l.Emit.Close()
		r.SetAgent(l, a, nil)
		r.AnnounceClosed(ctx, l, results)
		r.RunEnded(ctx, l, l.Run)
		err = l.Emit.Flush(ctx)
	}
	if err != nil {
		r.Logger.Warn("hooks were not notified of the end of a run", "session", row.ID, "run", run.ID, "error", err)
	}
}

// AnnounceClosed calls AfterSubAgent, OnMessage and AfterTool for the results with which calls were closed.
func (r *Runs) AnnounceClosed(ctx context.Context, l *session.Live, results []cairn.Message) {
	s := r.Scope(l, l.Run.Steps).Freeze("after the run has ended")
	for i := range results {
		for _, one := range results[i].ToolResults() {
			c := &step.Call{Use: transcript.Use(l.Messages, one), Result: &step.Result{Result: one}}
			if child := one.Child; child.SessionID != "" {
				s.AfterSubAgent(ctx, c, one, child.Agent)
			}
			s.Result(ctx, c, results[i].ID)
		}
	}
}

// Over reads a session whose run has ended, for its hooks, with its messages from an index on. The caller closes the
// emitter.
func (r *Runs) Over(ctx context.Context, row *cairn.Session, runID string, from int) (*session.Live, error) {
	snap, err := r.Store.Read(ctx, row.ID, driver.ToDrive(from))
	if err != nil {
		return nil, err
	}
	l, err := session.New(snap, r.Now())
	if err != nil {
		return nil, err
	}
	if l.Run, err = driver.FindRun(ctx, r.Store, row.ID, runID); err != nil {
		return nil, err
	}
	l.Drives(r.Journal.Emitter(ctx, l.Row, runID, l.Row.LogSequence), nil, l.Row.UpdatedAt)
	return l, nil
}

// RunEnded calls the hooks for a run's end, which was committed.
func (r *Runs) RunEnded(ctx context.Context, l *session.Live, run *cairn.Run) {
	r.Scope(l, run.Steps).Freeze("after the run has ended").RunEnded(ctx, run)
}
