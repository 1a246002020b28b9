package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// childEnds returns, by call, how the sessions that the open calls of a suspended step consulted have ended. A call that
// only waits for a companion has not consulted it.
func (r *Runs) childEnds(ctx context.Context, row *cairn.Session, messages []cairn.Message) (map[string]cairn.ChildEnd, error) {
	if row.SuspendedStep == "" {
		return nil, nil
	}
	waits, err := r.Suspension(ctx, row)
	if err != nil || waits == nil || len(waits.Children) == 0 {
		return nil, err
	}
	_, open := transcript.Unanswered(messages)
	ends := map[string]cairn.ChildEnd{}
	for _, c := range waits.Children {
		i := slices.IndexFunc(open, func(u *cairn.ToolUse) bool { return u.CallID == c.CallID })
		if i < 0 || c.Kind == cairn.ChildCompanion && !step.ConsultsCompanion(open[i].Tool) {
			continue
		}
		end := cairn.ChildEnd{SessionID: c.SessionID, Agent: c.Agent}
		child, err := driver.Load(ctx, r.Store, c.SessionID)
		var run *cairn.Run
		if err == nil { // its end precedes that of the call on the log
			err = r.Journal.Drain(ctx, child)
		}
		if err == nil {
			run, err = driver.FindRun(ctx, r.Store, c.SessionID, child.RunID)
		}
		switch {
		case err == nil:
			end.Status = run.Status
		case !errors.Is(err, cairn.ErrNotFound):
			return nil, err
		}
		ends[c.CallID] = end
	}
	return ends, nil
}

// Suspension returns what the suspended step of a session waits for. It reads the record of the run that was suspended;
// later runs may have resumed that run without ending the step.
func (r *Runs) Suspension(ctx context.Context, row *cairn.Session) (*cairn.Suspension, error) {
	for id := row.RunID; id != ""; {
		run, err := driver.FindRun(ctx, r.Store, row.ID, id)
		if err != nil {
			return nil, err
		}
		if run.Suspended != nil {
			return run.Suspended, nil
		}
		id = run.PreviousRunID
	}
	return nil, nil
}
