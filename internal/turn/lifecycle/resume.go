package lifecycle

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// Resumption asks for a run that continues the turn of a session.
type Resumption struct {
	NewRun
	// Paused requires that the session is paused. A session that was stopped is then refused.
	Paused bool
	// QueueID is the id under which the messages are queued if they come behind results of calls.
	QueueID string
}

// Resume begins a run that continues a paused or interrupted session. It returns a DiedError if the session's process
// has died: the run is to be taken over, see [Runs.Recover].
func (r *Runs) Resume(ctx context.Context, in Resumption) (turn.Begun, error) {
	return r.begin(ctx, &in.NewRun, func(l *session.Live, _ bool) error { return r.resume(ctx, l, in) }, nil)
}

func (r *Runs) resume(ctx context.Context, l *session.Live, in Resumption) error {
	b, err := r.admit(ctx, l, &in.NewRun, "", cairn.RunResume)
	if err != nil {
		return err
	}
	if err := r.admitResume(ctx, b, in.Paused); err != nil {
		return err
	}
	if err := r.draft(ctx, b); err != nil {
		return err
	}
	if b.row.SuspendedStep != "" {
		b.expire()
		r.join(b, in.QueueID)
	}
	if err := r.write(ctx, b); err != nil {
		return err
	}
	for i := range b.commit.Calls {
		if call := &b.commit.Calls[i].Call; call.Status == cairn.CallAnswered { // see expire
			LogCall(r.Logger, slog.LevelWarn, LineCallTimeout, call, "deadline", call.Deadline)
		}
	}
	r.closePast(ctx, b)
	r.started(ctx, b)
	return nil
}

// admitResume admits a resume if the session's status allows it and no call is open.
func (r *Runs) admitResume(ctx context.Context, b *beginning, paused bool) error {
	row := b.row
	if paused && row.Ending != nil {
		return driver.Conflict(cairn.ErrNotRunning, row, "session %q is not waiting: %s", row.ID, whyEnding)
	}
	if paused && row.Status != cairn.SessionPaused {
		return driver.Conflict(cairn.ErrNotRunning, row, "session %q is not waiting, it is %s", row.ID, row.Status)
	}
	if ok, why := Resumable(row); !ok {
		return cairn.Errorf(cairn.ErrNotResumable, "session %q cannot be resumed: %s", row.ID, why)
	}
	if row.Status == cairn.SessionPaused {
		what, err := r.WaitsFor(ctx, row)
		if err == nil && what != "" {
			err = cairn.Errorf(cairn.ErrNotResumable, "session %q cannot be resumed: it waits for %s", row.ID, what)
		}
		return err
	}
	return nil
}

// expire closes the calls of the suspended step whose deadline has passed, with the run's beginning.
func (b *beginning) expire() {
	for _, call := range b.live.Calls() {
		if now := b.row.AsOf; call.Overdue(now) {
			b.commit.Calls = append(b.commit.Calls, driver.CallWrite{Call: inbox.Expire(call, now), Seen: call.Version})
		}
	}
}

// join queues the run's messages in place of adding them: the results of the suspended step come first. They join the
// turn with the step's commit, as messages do that steer it.
func (r *Runs) join(b *beginning, queueID string) {
	if len(b.Messages) == 0 {
		return
	}
	b.commit.Enqueue = &driver.QueuedTurn{ID: queueID, Messages: stamp(b.Messages, queueID), Steer: true, At: b.row.AsOf}
	queued := journal.Queued(queueID, b.Messages)
	queued.Version = 1 // the store sets it
	b.commit.Events = r.Marks(b.row, "", queued)
}

const whyEnding = "its wait is being ended"

// Resumable reports whether a session that no process drives can be resumed, and if not, why.
func Resumable(row *cairn.Session) (ok bool, why string) {
	if row.Ending != nil {
		return false, whyEnding
	}
	switch row.Status {
	case cairn.SessionInterrupted, cairn.SessionPaused, cairn.SessionActive:
		return true, ""
	case cairn.SessionFailed:
		return false, "its last run failed; retry it"
	case cairn.SessionIdle:
		if row.MessageCount > 0 {
			return true, ""
		}
		return false, "it has no messages yet"
	}
	return false, "its last run completed; execute the next turn"
}

// Retry begins a run that repeats a failed one from the session's last committed step.
func (r *Runs) Retry(ctx context.Context, in NewRun) (turn.Begun, error) {
	return r.begin(ctx, &in, func(l *session.Live, _ bool) error { return r.retry(ctx, l, in) }, nil)
}

func (r *Runs) retry(ctx context.Context, l *session.Live, in NewRun) error {
	b, err := r.admit(ctx, l, &in, "", cairn.RunRetry)
	var died *DiedError
	switch {
	case errors.As(err, &died):
		return cairn.Errorf(cairn.ErrNotResumable, "session %q cannot be retried: its run has not failed, its process has died", l.Row.ID)
	case err != nil:
		return err
	case b.row.Status != cairn.SessionFailed:
		return cairn.Errorf(cairn.ErrNotResumable, "session %q cannot be retried: it is %s, not failed", b.row.ID, b.row.Status)
	}
	if err := r.draft(ctx, b); err != nil {
		return err
	}
	return r.commence(ctx, b)
}
