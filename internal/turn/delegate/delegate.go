// Package delegate advances children: the sessions of other agents that calls consult. There is one mechanism for all
// kinds of children, [Advance]. What differs between a session of the same store and an agent elsewhere is in a
// [Driver].
//
// The package decides what is done with a child and when. How a child is reached is up to the driver: the package does
// not call the store, the event log or user code.
package delegate

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// Driver reaches one child for one call. A later attempt at the call may repeat any method, so each is idempotent by
// the call, the child or the run.
type Driver interface {
	// Begin begins the run that the call asks for. It returns ErrExists if an earlier attempt began it.
	Begin(ctx context.Context) (turn.Begun, error)
	// Resume continues the child from its current state. It returns a run to be driven, or the run that the child came
	// to: one that has ended, with its end on the caller's event log, or one that is suspended. If it returns neither,
	// the caller calls it again. It returns ErrAlreadyRunning while another process drives the child, and ErrStale or
	// ErrNotResumable if the child has changed concurrently.
	Resume(ctx context.Context) (turn.Begun, *cairn.Run, error)
	// Drive records for the next effect, and for other attempts at this one, that a run is to be driven.
	Drive(ctx context.Context, b turn.Begun) error
	// Stop passes a stop of the call's own run, if there is one, on to the child. It is called until the child has
	// ended.
	Stop(ctx context.Context)
	// End ends a child that cannot be advanced further, with the cause.
	End(ctx context.Context, cause error) error
}

// Outcome is how far a child got. At most one field is set; none if the call's own run is to stop.
type Outcome struct {
	// Drive is a run of the child that must be driven first.
	Drive *turn.Begun
	// Run is the run that the child came to: it has ended or is suspended.
	Run *cairn.Run
	// Failed is why the child could not be advanced further. The child has ended.
	Failed error
}

// Pauses between polls of a child that another process drives.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = time.Second
)

// Advance takes a child as far as possible without driving it: it begins the run that the call asks for, if begin is
// set, or else resumes the child. An error means only that this process can do no more for the child; it says nothing
// about the child itself.
func Advance(ctx context.Context, d Driver, begin bool) (Outcome, error) {
	out, err := advance(ctx, d, begin)
	switch {
	case err == nil:
		return out, nil
	case session.IsStopped(err):
		return Outcome{}, nil
	case context.Cause(ctx) != nil || turn.Lost(err):
		return Outcome{}, err
	}
	return Outcome{Failed: err}, d.End(ctx, err)
}

func advance(ctx context.Context, d Driver, begin bool) (Outcome, error) {
	pause := firstPause
	for ; ; begin = false {
		var b turn.Begun
		var run *cairn.Run
		var err error
		if begin {
			b, err = d.Begin(ctx)
		} else {
			b, run, err = d.Resume(ctx)
		}
		switch {
		case errors.Is(err, cairn.ErrExists):
			continue // an earlier attempt began it
		case errors.Is(err, cairn.ErrAlreadyRunning): // wait until it ends, or its lease lapses
			d.Stop(ctx)
		case errors.Is(err, cairn.ErrStale), errors.Is(err, cairn.ErrNotResumable): // another process was faster
		case err != nil:
			return Outcome{}, err
		case run != nil:
			return Outcome{Run: run}, nil
		case b.RunID != "":
			return Outcome{Drive: &b}, d.Drive(ctx, b)
		}
		if err := retry.Sleep(ctx, pause); err != nil {
			return Outcome{}, err
		}
		pause = min(2*pause, longestPause)
	}
}
