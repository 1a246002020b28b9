package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// Execute begins a turn: it creates the session or adds to it, regardless of the outcome of the previous turn. It
// returns once the turn has begun, which is one write behind at most one read; the run continues in the background and
// does not end with ctx.
//
// A session that waits for calls takes no turn until they are answered: the error is ErrWaiting, whose
// [cairn.Error.Calls] are the open ones (see [WithOnWaiting]). Once all are answered, Execute queues the turn, resumes
// the suspended run, and returns the queued turn's Run: an accepted answer is used before any new message.
//
// If the process that drove the session has died, no step is lost: Execute takes its run over, in the background, and
// returns the Run of a queued turn, which begins when that run has ended. [BusyInterrupt] and [BusyRollback] stop the
// run instead. Until its lease lapses, a dead run looks like a live one.
//
// Further errors are ErrInvalid or ErrTooLarge for bad input, ErrNotFound for an unknown agent, and ErrClosed after
// Close. The error is ErrAlreadyRunning while another run holds the session (see [WithOnBusy]), or while a sub-agent of
// a wait that is being ended still runs. It is ErrQueueFull if the session's queue has no room for the turn (see
// [Options.MaxQueue]). [cairn.Error.RetryAfter] of ErrAlreadyRunning is the time until the run's lease lapses unless
// its process renews it.
func (e *Engine) Execute(ctx context.Context, sessionID, agent string, in cairn.Input, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := cairn.CheckSessionID(sessionID); err != nil {
		return nil, err
	}
	if err := o.qualify(sessionID); err != nil {
		return nil, err
	}
	if err := e.executable(agent, &in, o); err != nil {
		return nil, err
	}
	state, err := e.checkInitial(ctx, agent, o)
	if err != nil {
		return nil, err
	}
	o.create.Agent, o.create.TTL = agent, e.ttl(agent)
	next := lifecycle.Turn{NewRun: newRun(sessionID, o), Agent: agent, Create: &o.create, State: state}
	next.Once, next.Seen = o.follows(&in)
	return e.once(ctx, sessionID, o, func() (*Run, error) {
		switch {
		case o.from != nil:
			return e.replace(ctx, next, &in, o)
		case o.fresh:
			return e.begin(ctx, &next.NewRun, &in, func() (host.Run, error) { return e.runs.Create(ctx, next) })
		}
		return e.placeOnce(ctx, next, &in, o)
	})
}

// Validate returns the error with which Execute would refuse an agent, an input and options, regardless of the session.
// It does not read the store, for callers that create the session first: see [Engine.Create].
func (e *Engine) Validate(agent string, in cairn.Input, opts ...RunOption) error {
	o := options(opts)
	if err := e.executable(agent, &in, o); err != nil {
		return err
	}
	_, err := e.checkInitial(e.ctx, agent, o)
	return err
}

func (e *Engine) executable(agent string, in *cairn.Input, o *runOptions) error {
	if err := e.checkModel(agent, o); err != nil {
		return err
	}
	if err := in.Validate(); err != nil {
		return err
	}
	switch {
	case o.input != nil:
		return cairn.Invalid("options", "WithInput is only for Resume and Retry")
	case o.checkpoint != "":
		return cairn.Invalid("options", "FromCheckpoint is only for Resume")
	case o.paused:
		return cairn.Invalid("options", "OnlyPaused is only for Resume")
	case o.busy < BusyReject || o.busy > BusySteer:
		return cairn.Invalid("options", "WithOnBusy: unknown value %d", o.busy)
	case o.busy == BusySteer && o.model != nil:
		return cairn.Invalid("options", "WithModel: cannot be combined with BusySteer; the turn under way keeps its model")
	case o.waiting < WaitingRefuse || o.waiting > WaitingEnqueue:
		return cairn.Invalid("options", "WithOnWaiting: unknown value %d", o.waiting)
	case o.busy == BusyEnqueue || o.busy == BusySteer || o.waiting == WaitingEnqueue:
		if err := o.storable(); err != nil {
			return err
		}
	}
	switch {
	case o.keep && o.from == nil:
		return cairn.Invalid("options", "KeepReplaced is only for FromMessage")
	case o.once && in.Messages[0].ID == "":
		return cairn.Invalid("options", "OncePerMessage: the first message has no id")
	}
	if err := o.checkRunID(); err != nil {
		return err
	}
	return e.checkCreated(&o.create)
}

// Resume continues an interrupted or paused session in a new run, or takes over the run of a process that died.
// WithInput adds messages first, FromCheckpoint rewinds first. Behind a wait, the results of its calls come before the
// messages of WithInput, which are queued until then. If a process died, they become the next turn, which begins when
// the run that Resume takes over has ended. The error is ErrNotResumable if there is nothing to continue (see
// [Engine.CanResume]), ErrAlreadyRunning while a run holds the session, and ErrNotRunning if OnlyPaused refuses it. It
// is ErrInvalid for the session of a sub-agent, which its root continues.
func (e *Engine) Resume(ctx context.Context, sessionID string, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := e.check(ctx, sessionID, o); err != nil {
		return nil, err
	}
	return e.once(ctx, sessionID, o, func() (*Run, error) { return e.resume(ctx, sessionID, o) })
}

func (e *Engine) resume(ctx context.Context, sessionID string, o *runOptions) (*Run, error) {
	if o.checkpoint != "" {
		if err := e.rewindToBegin(ctx, sessionID, o); err != nil {
			return nil, err
		}
	} else if o.input == nil && o.model == nil { // reads less than a resume, and the takeover reads the rest
		row, err := driver.Load(ctx, e.store, sessionID)
		if err != nil {
			return nil, err
		}
		if err := o.mayUse(row); err != nil {
			return nil, err
		}
		if row.Crashed(row.AsOf) && row.ParentID == "" {
			return e.recover(ctx, sessionID, o.hooks)
		}
	}
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		run, err := e.beginResume(ctx, lifecycle.Resumption{NewRun: newRun(sessionID, o), Paused: o.paused}, o.input)
		if !died(err) {
			return run, err
		}
		switch {
		case o.input != nil:
			run, err = e.behindDead(ctx, sessionID, o.input, o)
		case o.model != nil:
			_, err = e.interruptCurrent(ctx, &lifecycle.Turn{NewRun: lifecycle.NewRun{SessionID: sessionID}}, o)
		default:
			return e.recover(ctx, sessionID, o.hooks)
		}
		if run != nil || err != nil && !isConflict(err) {
			return run, err
		}
	}
}

// rewindToBegin rewinds a session so that a run can begin there. It first checks that a run can begin, and closes a
// dead run that holds the session.
func (e *Engine) rewindToBegin(ctx context.Context, sessionID string, o *runOptions) error {
	checkpointID := o.checkpoint
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return errClosed()
	}
	row, err := driver.Load(ctx, e.store, sessionID)
	if err != nil {
		return err
	}
	if err := o.mayUse(row); err != nil {
		return err
	}
	if row.RootID != sessionID { // before it is rewound
		return driver.NotRoot(row)
	}
	if e.agent(row.Agent) == nil {
		return unknownAgent(row.Agent)
	}
	cp, err := driver.FindCheckpoint(ctx, e.store, sessionID, checkpointID)
	if err != nil {
		return err
	}
	there := cairn.Session{MessageCount: cp.MessageCount}
	if there.Status, err = driver.StatusAt(ctx, e.store, sessionID, cp.MessageCount); err != nil {
		return err
	}
	if ok, why := lifecycle.Resumable(&there); !ok {
		return cairn.Errorf(cairn.ErrNotResumable, "session %q cannot be resumed from checkpoint %q: %s", sessionID, checkpointID, why)
	}
	if row.Crashed(row.AsOf) {
		if err := e.runs.CheckKeeper(ctx, row); err != nil {
			return err
		}
		if err := e.runs.Abandon(ctx, row); err != nil {
			return err
		}
	}
	_, err = e.Rewind(ctx, sessionID, checkpointID)
	return err
}

// Retry repeats a failed turn from its last committed step, with a fresh budget of steps. The error is ErrNotResumable
// if the session's last run did not fail.
func (e *Engine) Retry(ctx context.Context, sessionID string, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := e.check(ctx, sessionID, o); err != nil {
		return nil, err
	}
	switch {
	case o.checkpoint != "":
		return nil, cairn.Invalid("options", "FromCheckpoint is only for Resume")
	case o.paused:
		return nil, cairn.Invalid("options", "OnlyPaused is only for Resume")
	}
	return e.once(ctx, sessionID, o, func() (*Run, error) {
		in := newRun(sessionID, o)
		return e.begin(ctx, &in, o.input, func() (host.Run, error) { return e.runs.Retry(ctx, in) })
	})
}

func (e *Engine) check(ctx context.Context, sessionID string, o *runOptions) error {
	switch {
	case o.busy != BusyReject:
		return cairn.Invalid("options", "WithOnBusy is only for Execute")
	case o.waiting != WaitingRefuse:
		return cairn.Invalid("options", "WithOnWaiting is only for Execute")
	case o.from != nil:
		return cairn.Invalid("options", "FromMessage is only for Execute")
	case o.expects() != "":
		return cairn.Invalid("options", "%s is only for Execute", o.expects())
	case len(o.created) > 0:
		return cairn.Invalid("options", "%s is only for an Execute that creates the session", o.created[0])
	}
	if err := cairn.CheckSessionID(sessionID); err != nil {
		return err
	}
	if err := o.qualify(sessionID); err != nil {
		return err
	}
	if o.input != nil {
		if err := o.input.Validate(); err != nil {
			return err
		}
	}
	if o.model == nil {
		return nil
	}
	row, err := driver.Load(ctx, e.store, sessionID)
	if err != nil {
		return err
	}
	if err := o.mayUse(row); err != nil {
		return err
	}
	return e.checkModel(row.Agent, o)
}

// checkModel returns an error if an agent is not registered or lacks the model that a run's options name.
func (e *Engine) checkModel(agent string, o *runOptions) error {
	a := e.agent(agent)
	if a == nil {
		return unknownAgent(agent)
	}
	if o.model == nil {
		return nil
	}
	if _, known := define.Model(a, *o.model); !known {
		return unknownModel(a, *o.model)
	}
	return nil
}

// Resumability describes how a session can be continued.
type Resumability struct {
	// Resume and Retry say which verb continues it; at most one is true.
	Resume bool `json:"resume"`
	Retry  bool `json:"retry"`
	// Reason is the reason as text.
	Reason string `json:"reason"`
}

// CanResume reports whether and why a session can be resumed or retried.
func (e *Engine) CanResume(ctx context.Context, sessionID string) (Resumability, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return Resumability{}, err
	}
	switch {
	case row.ParentID != "":
		return Resumability{Reason: "it belongs to a sub-agent; resume its root"}, nil
	case row.Running(row.AsOf):
		return Resumability{Reason: "it is running"}, nil
	case row.Status == cairn.SessionActive:
		switch err := e.runs.CheckKeeper(ctx, row); {
		case errors.Is(err, cairn.ErrAlreadyRunning):
			return Resumability{Reason: "its host is driving a run"}, nil
		case err != nil:
			return Resumability{}, err
		}
		return Resumability{Resume: true, Reason: "its process died"}, nil
	case row.Status == cairn.SessionFailed:
		return Resumability{Retry: true, Reason: "its last run failed"}, nil
	}
	ok, why := lifecycle.Resumable(row)
	if ok && row.Status == cairn.SessionPaused {
		what, err := e.runs.WaitsFor(ctx, row)
		if err != nil {
			return Resumability{}, err
		}
		if what != "" {
			return Resumability{Reason: "it waits for " + what}, nil
		}
	}
	if ok {
		why = "it is " + string(row.Status)
	}
	return Resumability{Resume: ok, Reason: why}, nil
}
