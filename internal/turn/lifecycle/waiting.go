package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/store/driver"
)

func answered(c cairn.PendingCall) bool { return c.Status == cairn.CallAnswered }

// ReasonContinued is the reason of a call that is closed as not executed because a new message cancels its wait.
const ReasonContinued = "the conversation has continued"

// Wait is what a paused session and the sub-agents that it waits for still wait for.
type Wait struct {
	// Open are the calls that are neither answered nor overdue.
	Open []cairn.PendingCall
	// Answered is set if an accepted answer has not been used by a run.
	Answered bool
}

// Waiting returns what a paused session waits for. Without any open call it can be resumed.
func (r *Runs) Waiting(ctx context.Context, row *cairn.Session) (*Wait, error) {
	w := &Wait{}
	return w, r.waiting(ctx, row, w)
}

func (r *Runs) waiting(ctx context.Context, row *cairn.Session, w *Wait) error {
	snap, err := r.Store.Read(ctx, row.ID, driver.Want{Calls: true, Run: row.RunID})
	if err != nil {
		return err
	}
	if row = snap.Session; row.Status != cairn.SessionPaused || row.Ending != nil {
		return nil
	}
	for _, call := range snap.Calls {
		switch {
		case call.Status == cairn.CallOpen && !call.Overdue(row.AsOf):
			w.Open = append(w.Open, call)
		case call.Status == cairn.CallAnswered:
			w.Answered = true
		}
	}
	if snap.Run == nil || snap.Run.Suspended == nil {
		return nil
	}
	for _, c := range snap.Run.Suspended.Children {
		if late(&c, row.AsOf) { // it ends when the session is resumed
			continue
		}
		child, err := driver.Load(ctx, r.Store, c.SessionID)
		if errors.Is(err, cairn.ErrNotFound) {
			continue
		}
		if err == nil {
			err = r.waiting(ctx, child, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namedCalls bounds how many calls an error names in words.
const namedCalls = 5

// Refusal returns the ErrWaiting of a session that waits for open calls, which it names.
func (w *Wait) Refusal(id string) error {
	e := cairn.Errorf(cairn.ErrWaiting, "session %q waits for %s:", id, count(len(w.Open), "open call", 0, ""))
	e.Field = "session"
	var names []string
	for i := range w.Open {
		e.Calls = append(e.Calls, w.Open[i].CallRef)
		names = append(names, fmt.Sprintf("%s %q", w.Open[i].Tool, w.Open[i].ID))
	}
	if more := len(names) - namedCalls; more > 0 {
		names = append(names[:namedCalls], fmt.Sprintf("%d more", more))
	}
	e.Message += " " + strings.Join(names, ", ")
	return e
}

// DropOpen adds to a commit what closes the open calls of a paused session as not executed, and reports whether there
// are any. Answered calls keep their answers for the run that resumes.
func (r *Runs) DropOpen(ctx context.Context, c *driver.Commit, row *cairn.Session) (any bool, err error) {
	snap, err := r.Store.Read(ctx, row.ID, driver.Want{Calls: true})
	if err != nil {
		return false, err
	}
	s := &driver.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls}
	for i := range snap.Calls {
		if call := &snap.Calls[i]; call.Status == cairn.CallOpen && !call.Overdue(row.AsOf) {
			c.Calls = append(c.Calls, driver.CallWrite{Call: inbox.Drop(*call, ReasonContinued, row.AsOf), Seen: call.Version})
			s.OpenCalls--
		}
	}
	if len(c.Calls) == 0 {
		return false, nil
	}
	if s.OpenCalls > 0 { // those that are overdue, and sub-agents
		s.NextDeadline = row.NextDeadline
	}
	c.Suspend = s
	return true, nil
}

// DropBelow closes the open calls of the sub-agents that a session waits for as not executed. A call that is answered
// concurrently keeps its answer.
func (r *Runs) DropBelow(ctx context.Context, w *Wait, root string) error {
	done := []string{root}
	for i := range w.Open {
		id := w.Open[i].SessionID
		if slices.Contains(done, id) {
			continue
		}
		done = append(done, id)
		_, err := driver.Update(ctx, r.Store, id, func(row *cairn.Session) (*driver.Commit, error) {
			c := &driver.Commit{}
			if row.Status != cairn.SessionPaused {
				return nil, nil
			}
			if any, err := r.DropOpen(ctx, c, row); err != nil || !any {
				return nil, err
			}
			return c, nil
		})
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
	}
	return nil
}
