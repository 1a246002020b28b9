// Package httphost is a host for systems that can call a function or a URL: queues, cron, workflow engines. The program
// says how a run is given to its caller. The caller calls [engine.Engine.Advance], or the route POST /advance of a
// server, until an answer says that it is done. Each call drives one step of the run.
//
//	h, err := httphost.New(&httphost.Options{Start: func(ctx context.Context, run host.Run) error {
//		return queue.Send(ctx, tickets.Issue(run, time.Hour))
//	}})
//	eng, err := engine.New(st, agents, &engine.Options{Host: h})
//
// Calls may be made twice, late, out of order, and by several callers. See docs/ADVANCE.md for the protocol, and for
// AWS Step Functions, cron and other callers.
package httphost

import (
	"context"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// Options tune a Host.
type Options struct {
	// Start gives a run to a caller, which calls Advance with it, and from then on with each Progress.Run, until the
	// state is no longer engine.AdvanceMore. Start must be quick and must not call Advance itself. It may be called
	// again for a run that it was called for before: under the same lease if its answer was lost, and under a later one
	// if a worker has taken the run over. Two callers of one run do no harm. An error with ErrUnavailable means that
	// Start is to be called again; after any other error a worker takes the run over. ctx has the values of the call
	// that began the run, and ends after five seconds. Required.
	Start func(ctx context.Context, run host.Run) error
	// Patience is how long a worker leaves a run alone that no call has advanced, before it takes the run over and
	// gives it to Start again; 0 means 10 minutes. It should be longer than runs wait in the caller's queue: a run that
	// is taken over engine.Options.MaxRecoveries times without a step fails with ErrCrashLoop. Calls with references
	// from before the worker's takeover then return engine.AdvanceTakenOver.
	Patience time.Duration
}

// Host is a [host.StepKeeper] whose runs are driven by calls of Advance. It is safe for concurrent use.
type Host struct {
	opts Options

	mu   sync.Mutex
	runs map[lease]*sight // runs without a sign of life
}

// lease is the lease of a run.
type lease struct {
	session, run string
	token        int64
}

// sight is what a worker has seen of a run.
type sight struct {
	step  int
	since time.Time // first seen at that step
	last  time.Time
}

// New returns a Host. The error is ErrInvalid and names the option that is missing or wrong.
func New(opts *Options) (*Host, error) {
	h := &Host{runs: map[lease]*sight{}}
	if opts != nil {
		h.opts = *opts
	}
	switch {
	case h.opts.Start == nil:
		return nil, cairn.Invalid("Start", "is required")
	case h.opts.Patience < 0:
		return nil, cairn.Invalid("Patience", "is negative")
	case h.opts.Patience == 0:
		h.opts.Patience = 10 * time.Minute
	}
	return h, nil
}

// Start implements [host.Host].
func (h *Host) Start(ctx context.Context, b host.Run) (wait func(context.Context) error, err error) {
	return nil, h.opts.Start(ctx, b)
}

// Name implements [host.Keeper].
func (h *Host) Name() string { return "http" }

// CheckLease implements [host.Keeper]. A dead process is not detected, so no lease is too short.
func (h *Host) CheckLease(time.Duration) error { return nil }

// DrivesSteps implements [host.StepKeeper].
func (h *Host) DrivesSteps() {}

// forget is how much longer than Patience a run is remembered that no worker asks about. It is longer than a lease.
const forget = time.Hour

// Driving implements [host.Keeper]. A run whose lease has lapsed waits for its next call, for as long as Patience from
// when this process has first seen it so.
func (h *Host) Driving(_ context.Context, b host.Run) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, key := time.Now(), lease{b.SessionID, b.RunID, b.Token}
	for k, s := range h.runs {
		if now.Sub(s.last) > h.opts.Patience+forget { // it has ended, or was advanced
			delete(h.runs, k)
		}
	}
	s := h.runs[key]
	if s == nil || s.step != b.Step {
		h.runs[key] = &sight{step: b.Step, since: now, last: now}
		return true, nil
	}
	s.last = now
	return now.Sub(s.since) < h.opts.Patience, nil
}
