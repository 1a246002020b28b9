package engine

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// stopper stops one particular run of a session, wherever it is driven.
type stopper interface {
	stopRun(ctx context.Context, sessionID string, stop cairn.Stop) error
}

// Run is a handle on one run. It is safe for concurrent use. Dropping it does not stop the run.
type Run struct {
	in      *reader
	stopper stopper
	id      string
	session string
	root    string
	// incarnation is that of the tree, whose log the run writes to.
	incarnation string
	turn        int
	start       int64

	// queued reports that the turn was queued, so that other runs may come first. If its messages may join another run,
	// message is the id of the first of them, and from is the number of messages that the session had before.
	queued  bool
	message string
	from    int

	token int64 // of the lease under which this process drives it
	// hosted waits until the host has stopped driving the run; nil if this is unknown.
	hosted func(context.Context) error

	done chan struct{}   // closed when this process has stopped driving the run; nil if it never did
	lost context.Context // ends with done if the run has not ended; nil like done
	lose context.CancelFunc
	end  *runEnd // set before done is closed; nil like done

	found bool // the verb that returned the handle began nothing
}

// runKey identifies a run in a process. Callers may give runs of two sessions one id.
type runKey struct{ session, run string }

func (r *Run) key() runKey { return runKey{r.session, r.id} }

// runEnd is how this process stopped driving a run.
type runEnd struct {
	record *cairn.Run // nil if the run has not ended
	err    error      // why it has not
}

// ID returns the run's id. A queued turn has that id in the queue as well. If its messages joined another run, the id
// stays the same, and [cairn.Result.RunID] is the id of the run that they joined.
func (r *Run) ID() string { return r.id }

// SessionID returns the session's id.
func (r *Run) SessionID() string { return r.session }

// Turn returns the run's number in its session, from 1; 0 for a run that was queued.
func (r *Run) Turn() int { return r.turn }

// Found reports whether the session had the run already, so that the call that returned the handle began and queued
// nothing: see [WithRunID] and [OncePerMessage]. It is false for handles by [Engine.Run] and [Engine.Attach].
func (r *Run) Found() bool { return r.found }

// Cursor returns the place on the session's log behind which the run's events are: those before it belong to earlier
// runs. For a turn that was queued it is the end of the log at that time.
func (r *Run) Cursor() cairn.Cursor {
	return cairn.Cursor{Incarnation: r.incarnation, Sequence: r.start}
}

// SessionEvents yields what [Engine.Events] yields for the run's session after [Run.Cursor], and ends with the same
// errors: past and future events, also of later runs. It does not read the session, whose log the handle knows.
func (r *Run) SessionEvents(ctx context.Context) iter.Seq2[cairn.Event, error] {
	return r.in.follow(ctx, r.session, r.root, r.incarnation, r.start)
}

// Wait returns the run's outcome once it has ended or is suspended. For a failed run it returns both the outcome and
// its error. Any other error means that the outcome is unknown: ctx is done, or this process could not drive the run to
// its end, in which case it can be resumed. The result is never nil: if the outcome is unknown, it has the run's ids
// and the status [cairn.RunRunning]. If the messages joined another run, see [BusySteer], it is the outcome of that
// run. A turn that was removed from the queue has no outcome: the error is ErrAborted.
//
// Wait neither needs nor ends the loops over [Run.Text] and [Run.Events]. A program that shows the run as it happens
// loops first, until the run ends, and then calls Wait.
func (r *Run) Wait(ctx context.Context) (*cairn.Result, error) {
	res, err := r.wait(ctx)
	if res == nil {
		res = &cairn.Result{SessionID: r.session, RunID: r.id, Turn: r.turn, Status: cairn.RunRunning}
	}
	return res, err
}

// wait is Wait, except that the result is nil if the outcome is unknown.
func (r *Run) wait(ctx context.Context) (*cairn.Result, error) {
	switch {
	case r.queued:
		return r.waitQueued(ctx)
	case r.hosted != nil:
		return r.waitHosted(ctx)
	case r.done == nil:
		return r.waitElsewhere(ctx)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.end.record == nil {
		if r.end.err == nil {
			return nil, cairn.Errorf(cairn.ErrInternal, "run %s ended without a record", r.id)
		}
		return nil, r.end.err
	}
	return outcome(r.end.record)
}

func outcome(record *cairn.Run) (*cairn.Result, error) {
	res := record.Result()
	if res.Status == cairn.RunFailed && res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

// waitHosted waits for a run that the host drives.
func (r *Run) waitHosted(ctx context.Context) (*cairn.Result, error) {
	stopped := r.hosted(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	record, err := driver.FindRun(ctx, r.in.store, r.session, r.id)
	switch {
	case err != nil || record.Status != cairn.RunRunning:
		return ended(record, err)
	case stopped != nil:
		return nil, stopped
	}
	return r.waitElsewhere(ctx) // another process has taken it over
}

// waitElsewhere follows a run that another process drives.
func (r *Run) waitElsewhere(ctx context.Context) (*cairn.Result, error) {
	record, err := driver.FindRun(ctx, r.in.store, r.session, r.id)
	if err != nil || record.Status != cairn.RunRunning {
		return ended(record, err)
	}
	for _, err := range r.Events(ctx) {
		if err != nil {
			return nil, err
		}
	}
	return ended(driver.FindRun(ctx, r.in.store, r.session, r.id))
}

func ended(record *cairn.Run, err error) (*cairn.Result, error) {
	if err != nil {
		return nil, err
	}
	return outcome(record)
}

// Events yields the run's events, past and future, from its first one to its EventRunEnd. It may be called any number
// of times. It ends early only with an error: ctx's if it is done, ErrDeleted or ErrExpired if the session is gone, and
// ErrClosed if the engine was closed. It ends with other errors if the log cannot be read or this process could not
// drive the run to its end. If the messages may join another run, see [BusySteer], it yields the session's events from
// the moment the messages were queued to the end of the run that carries them. If the turn is removed from the queue,
// it ends with ErrAborted. [Run.Text] is for programs that want only the reply.
func (r *Run) Events(ctx context.Context) iter.Seq2[cairn.Event, error] {
	if r.queued {
		return r.queuedEvents(ctx, r.start)
	}
	return func(yield func(cairn.Event, error) bool) {
		outer := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if r.lost != nil { // a run that this process stops driving publishes nothing more
			defer context.AfterFunc(r.lost, cancel)()
		}
		begun := false // skips events of the previous run and its sub-agents
		for ev, err := range r.in.follow(ctx, r.session, r.root, r.incarnation, r.start) {
			if err != nil {
				if outer.Err() == nil {
					err = r.whyLost(err)
				}
				yield(cairn.Event{}, err)
				return
			}
			begun = begun || ev.RunID == r.id
			if !begun || ev.SessionID == r.session && ev.RunID != r.id {
				continue
			}
			if !yield(ev, nil) || ev.Ends(r.id) {
				return
			}
		}
	}
}

// whyLost returns why this process stopped driving the run before its end, or else err.
func (r *Run) whyLost(err error) error {
	if r.lost != nil && r.lost.Err() != nil {
		<-r.done
		if r.end.err != nil {
			return r.end.err
		}
	}
	return err
}
