package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// discarded is the event of a commit that takes a run over or ends it in place of its process: what that process has
// published since the run's last commit is void. It is there whether or not the process has published anything, so the
// log need not be read.
func discarded(row *cairn.Session) cairn.Event { return journal.StepDiscarded(row.Step+1, nil) }

// DiscardAttempt discards what a dead attempt at the first effect of the step under way has published. Other attempts
// hold the same lease. So after it has read the log and before it publishes anything, it calls holds, which reports
// whether the step is still in the state that l has. If not, it does nothing.
func (r *Runs) DiscardAttempt(ctx context.Context, l *session.Live, holds func(context.Context) (bool, error)) error {
	row, next := l.Row, l.NextStep()
	for {
		began := false
		last, err := r.Journal.EachSince(ctx, row.Log(), row.LogSequence, func(ev *cairn.Event) {
			if ev.SessionID != row.ID || ev.RunID != l.Run.ID {
				return
			}
			switch {
			case ev.Type == cairn.EventStepStart && ev.Step >= next:
				began = true
			case ev.Type == cairn.EventStepDiscarded && ev.Step <= next:
				began = false
			}
		})
		if err != nil {
			return err
		}
		if began {
			if ok, err := holds(ctx); !ok || err != nil {
				return err
			}
			void := r.Marks(row, l.Run.ID, journal.StepDiscarded(next, nil))
			void[0].Time = l.Now(r.Now())
			last, err = r.Journal.AppendAs(ctx, row.Log(), last, driver.Writer{Session: row.ID, Token: row.Lease.Token}, void...)
		}
		if errors.Is(err, cairn.ErrStale) { // another process appended concurrently
			continue
		}
		l.Emit.At(last)
		return err
	}
}
