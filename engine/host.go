package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Host decides where runs are driven, in place of goroutines of the process: on an engine that keeps track of them itself
// and calls workers. An Engine with a Host begins runs, with one write as ever, and hands them to Start; from there on the
// host calls [Drive], and carries out the effects that this asks for with [Engine.Effect] of any engine, in any process, that
// has the same store and the run's agent.
type Host interface {
	// Start makes the host drive a run that was begun, whatever becomes of this process. If another process drove it
	// before, under a lease with a lower token, that need not continue. An error says that it is not driven; then a
	// worker takes it over.
	//
	// ctx has the values of the call that began the run, and its hooks (see [WithHooks]). A host that carries out effects in
	// this process may hand them on. It does not end with that call's.
	//
	// wait returns when the host has stopped driving the run, with the reason if that is not its end; nil means that the host
	// cannot say.
	Start(ctx context.Context, b host.Run) (wait func(context.Context) error, err error)
}

// Keeper is a Host that finds out by itself that a process has died, and has its effects carried out by another one under the
// lease of the run. A worker that finds such a lease run out asks the host before it takes the run over.
type Keeper interface {
	Host
	// Name is the host's to every process of the store, and kept with the leases of its runs. It has no @.
	Name() string
	// Driving reports whether the host continues a run by itself, under the lease that b names, and needs nobody to take
	// it over. An error says that it is not known now; then the run is left alone for a while.
	Driving(ctx context.Context, b host.Run) (bool, error)
	// CheckLease refuses leases that run out before the host has found out that a process has died. The error is
	// ErrInvalid, and names all times that are involved.
	CheckLease(ttl time.Duration) error
}

// GivenUp returns the effect that a host is to carry out in place of one that it has tried as often as it may: that keeps why
// as what the model call, or the call of a tool or a sub-agent, came to. Other effects cannot be given up; a host that can do no
// more for them releases the run, see [Engine.ReleaseRun].
func GivenUp(e host.Effect, why *cairn.Error) (instead host.Effect, ok bool) {
	return turn.GivenUp(e, why)
}

// Drive is the agent loop: it drives a run from its last committed step to its end, or until it is suspended, and
// returns how that came out. It does nothing but order effects, so it may be replayed. Where another process has taken the run
// over, which an effect's ErrFenced says, it returns an empty status and no error: there is nothing left to do. Any other
// error is one of the scheduler; what was committed stands.
func Drive(s host.Scheduler, b host.Run) (cairn.RunStatus, error) {
	end, err := turn.Loop(s, b)
	if errors.Is(err, cairn.ErrFenced) {
		return "", nil
	}
	return end.Status, err
}
