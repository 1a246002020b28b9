package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// WaitsFor returns a text for what a paused session waits for. It is empty if the session, or one of the sub-agents
// that it waits for, can continue.
func (r *Runs) WaitsFor(ctx context.Context, row *cairn.Session) (string, error) {
	if row.SuspendedStep == "" || row.Ready() || overdue(row, row.AsOf) {
		return "", nil
	}
	children, err := r.awaitedBy(ctx, row)
	if err != nil {
		return "", err
	}
	for _, c := range children {
		child, err := driver.Load(ctx, r.Store, c.SessionID)
		if errors.Is(err, cairn.ErrNotFound) || err == nil && child.Status != cairn.SessionPaused {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if what, err := r.WaitsFor(ctx, child); err != nil || what == "" {
			return "", err
		}
	}
	return count(row.OpenCalls-len(children), "call", len(children), "sub-agent"), nil
}

func overdue(row *cairn.Session, now time.Time) bool {
	return !row.NextDeadline.IsZero() && !now.Before(row.NextDeadline)
}

// count returns a text for two numbers of things.
func count(n int, what string, m int, other string) string {
	say := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	switch {
	case m == 0:
		return say(n, what)
	case n <= 0:
		return say(m, other)
	}
	return say(n, what) + " and " + say(m, other)
}

// TimedOut is the stop of a sub-agent whose call has reached its deadline.
var TimedOut = cairn.Stop{Kind: cairn.StopInterrupt, Reason: "the call that consulted it timed out"}

// awaitedBy returns the sessions that a paused session waits for.
func (r *Runs) awaitedBy(ctx context.Context, row *cairn.Session) ([]cairn.ChildRef, error) {
	run, err := driver.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil || run.Suspended == nil {
		return nil, err
	}
	return run.Suspended.Children, nil
}

// late reports whether the call that consults a session has reached its deadline.
func late(c *cairn.ChildRef, now time.Time) bool {
	return !c.Deadline.IsZero() && !now.Before(c.Deadline)
}

// Expire closes the calls of a paused session whose deadline has passed. It reports whether the session can continue:
// nothing is open, or a sub-agent that it waits for has reached its deadline. The run that continues it ends the
// sub-agent, and the session is due until then.
func (r *Runs) Expire(ctx context.Context, id string) (bool, error) {
	timedOut := false
	var expired []driver.CallWrite
	row, err := driver.Update(ctx, r.Store, id, func(row *cairn.Session) (*driver.Commit, error) {
		now := row.AsOf
		timedOut, expired = false, nil
		if row.Status != cairn.SessionPaused || row.Ending != nil || !overdue(row, now) {
			return nil, nil
		}
		snap, err := r.Store.Read(ctx, id, driver.ToDrive(row.MessageCount))
		if err != nil {
			return nil, err
		}
		c := &driver.Commit{Suspend: &driver.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls}}
		for _, call := range snap.Calls {
			switch {
			case call.Overdue(now):
				c.Calls = append(c.Calls, driver.CallWrite{Call: inbox.Expire(call, now), Seen: call.Version})
				c.Suspend.OpenCalls--
			case call.Status == cairn.CallOpen:
				c.Suspend.NextDeadline = session.Earlier(c.Suspend.NextDeadline, call.Deadline)
			}
		}
		children, err := r.awaitedBy(ctx, row)
		if err != nil {
			return nil, err
		}
		for i := range children {
			timedOut = timedOut || late(&children[i], now)
			c.Suspend.NextDeadline = session.Earlier(c.Suspend.NextDeadline, children[i].Deadline)
		}
		if timedOut && len(c.Calls) == 0 {
			return nil, nil
		}
		expired = c.Calls
		return c, nil
	})
	if err != nil {
		return false, err
	}
	for i := range expired {
		LogCall(r.Logger, slog.LevelWarn, LineCallTimeout, &expired[i].Call, "deadline", expired[i].Call.Deadline)
	}
	return row.Ready() || timedOut, nil
}
