package host

import (
	"context"
	"encoding/json"
	"time"
)

// Host drives runs in place of the process's goroutines: on a workflow engine that tracks runs itself and calls
// workers. An engine with a Host begins runs with one write, as always, and hands them to Start. From then on the host
// calls Drive of package loop, and carries out the effects that Drive asks for. It does so with the Engine of any engine,
// in any process, that has the same store and the run's agent.
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
	// needed. An error means that this is unknown at present; the caller then leaves the run as it is for a while. ctx
	// ends after two seconds. If Driving does not answer by then, the host counts as unreachable for five seconds, in
	// which it is not asked about any run. Driving is called for many runs at once.
	Driving(ctx context.Context, b Run) (bool, error)
	// CheckLease rejects leases that lapse before the host has detected a dead process. The error is ErrInvalid, and
	// names all durations involved.
	CheckLease(ttl time.Duration) error
}

// StepKeeper is a Keeper whose runs are driven step by step, by engine.Engine.Advance. A run of another agent that a step
// waits for is driven within that step. If the process dies, the next attempt at the step takes such a run over without
// asking Driving.
type StepKeeper interface {
	Keeper
	// DrivesSteps marks the host. It does nothing.
	DrivesSteps()
}

// Engine is an engine as a host calls it: any engine, in any process, that has the run's store and agent. Its methods
// are safe for concurrent use.
type Engine interface {
	// Effect carries out one effect of a run for a host, and returns its output. It needs only the store, but is faster in
	// the process that carried out the previous effect. While it runs, it renews the run's lease and receives stop
	// requests.
	//
	// A host may call it again with the same input if the answer was lost. Work that was done is not repeated, but a model
	// or tool call that was cut off is made again. If the first call is still running although the host has abandoned it,
	// the log shows one sequence of events and one outcome counts; one of the two calls may return ErrUnavailable, for the
	// host to retry.
	//
	// The error is ErrFenced if another process has taken the run over; the host then abandons it. It is ErrInvalid for an
	// unknown effect, ErrNotFound for an unknown agent or a deleted session, ErrClosed after Close, and any other error
	// for a failure that may pass.
	Effect(ctx context.Context, name string, in json.RawMessage) (out json.RawMessage, err error)
	// ReleaseRun releases a run that a host can no longer drive, so that a worker takes it over at once instead of when
	// the lease lapses. It is not an error if another process already has the run.
	ReleaseRun(ctx context.Context, at Position) error
	// Hold renews a run's lease while do runs. A host calls it around its work for the run between two effects, such as
	// waiting for a sub-agent's run. The context passed to do ends if the lease is lost or cannot be renewed; the error is
	// then ErrFenced or ErrUnavailable, as from Effect. It also ends when the engine is closed, with ErrClosed: Close
	// waits for effects, but not for waits between them.
	Hold(ctx context.Context, at Position, do func(context.Context) error) error
}
