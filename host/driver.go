package host

import (
	"context"
	"time"
)

// Host drives runs in place of the process's goroutines: on a workflow engine that tracks runs itself and calls
// workers. An engine with a Host begins runs with one write, as always, and hands them to Start. From then on the host
// calls [github.com/cairn-agents/cairn/engine.Drive], and carries out the effects that Drive asks for with Engine.Effect
// of any engine, in any process, that has the same store and the run's agent.
type Host interface {
	// Start makes the host drive a run that has begun, even if this process dies. Drivers of the run that hold an older
	// fencing token may be cancelled. If the host drives the run under this token already, because the answer to an
	// earlier call was lost, Start changes nothing.
	//
	// The verb that began the run waits half a second for Start and then returns, since the store has the run. After
	// ErrUnavailable the engine keeps the lease and calls Start again, until it succeeds, the run is asked to stop, or
	// the engine is closed. On any other error the run is not driven, and a worker takes it over.
	//
	// ctx has the values of the call that began the run, and its hooks: see
	// [github.com/cairn-agents/cairn/engine.WithHooks]. A host that carries out effects in this process may pass them
	// on. ctx does not end with that call's context; it ends if Start has not returned after five seconds, or has failed.
	//
	// wait returns when the host has stopped driving the run, with the reason if the run has not ended. A nil wait
	// means that the host does not know.
	Start(ctx context.Context, b Run) (wait func(context.Context) error, err error)
}

// Keeper is a Host that detects a dead process by itself, and has another process carry out the effects under the run's
// lease. A worker that finds such a lease lapsed asks the host before it takes the run over.
type Keeper interface {
	Host
	// Name returns the host's name. Every process of the store uses the same name, and the leases of the host's runs
	// record it. It contains no @.
	Name() string
	// Driving reports whether the host continues a run by itself, under the lease that b names, so that no takeover is
	// needed. An error means that this is not known now; the run is then left alone for a while. ctx ends after two
	// seconds. If Driving does not answer by then, the host counts as unreachable for five seconds, in which it is not
	// asked about any run. Driving is called for many runs at once.
	Driving(ctx context.Context, b Run) (bool, error)
	// CheckLease rejects leases that lapse before the host has detected a dead process. The error is ErrInvalid, and
	// names all durations involved.
	CheckLease(ttl time.Duration) error
}
