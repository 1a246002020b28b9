package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ctxjoin"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// AdvanceState is the state of a run after a call of [Engine.Advance].
type AdvanceState string

const (
	// AdvanceMore means that the run continues: call Advance again with Progress.Run.
	AdvanceMore AdvanceState = "more"
	// AdvanceWaiting means that the run is suspended. The caller is done: resuming the session begins another run.
	AdvanceWaiting AdvanceState = "waiting"
	// AdvanceEnded means that the run has ended, as Progress.Status says. The caller is done.
	AdvanceEnded AdvanceState = "ended"
	// AdvanceTakenOver means that a worker has taken the run over, or will: the host gets it as another Run. The caller
	// is done.
	AdvanceTakenOver AdvanceState = "taken_over"
)

// Progress is how far a run is after a call of [Engine.Advance].
type Progress struct {
	State AdvanceState
	// Run is the reference for the next call. Its Step is the number of steps that are done. Its Token differs from the
	// call's if a call has taken the run over.
	Run host.Run
	// Status is the run's status.
	Status cairn.RunStatus
	// Until is when the first call that a waiting run waits for is closed by its deadline, by the store's clock; zero if
	// no call of its session has one.
	Until time.Time
}

// Advance drives one step of a run whose host leaves that to callers, such as package httphost: it makes the model
// call, runs the tools and commits the step. A call of a sub-agent is driven to its end within the step. The engine
// must have a Host, and a store with records; it may be any engine, in any process, that has the run's store and agent.
//
// at is the reference that the host got when the run began, or Progress.Run of an earlier call. Advance is idempotent by
// its Step: a call for a step that is done drives nothing, and returns how far the run is. So calls may be repeated,
// late or out of order. If two calls for one step are made at once, one drives it; the other returns ErrAlreadyRunning
// at once, with the pause before the next call in RetryAfter.
//
// The deadline of ctx is the deadline of the call. When it passes, Advance returns AdvanceMore, and the step continues
// in this process. The next call to this engine waits for the same step. If ctx is cancelled, Advance returns its error,
// and the step continues as well.
//
// If this process dies, calls to other engines return ErrAlreadyRunning until it has shown no sign of life for
// Options.LeaseTTL. The next one takes the run over, as a worker does from a dead process, and returns AdvanceMore with
// a reference under the new lease; so do calls with earlier references. The step continues from the reply and the
// results that last by the agent's Durability, and the rest is repeated: a model's stream cannot be continued. If the
// process was only asleep, it is fenced: its writes are refused. A run that is taken over Options.MaxRecoveries times
// without a step fails with ErrCrashLoop.
//
// Other errors: ErrInvalid for an incomplete reference and for an engine without a Host or records; ErrNotFound, ErrDeleted or
// ErrExpired if the session or the run does not exist; ErrStoreBehind if the store lacks a step that the reference has;
// ErrClosed after Close; ErrUnavailable if storage fails or the agent is not registered in this engine. The same call
// may be made again after ErrClosed and ErrUnavailable, to any engine. A run that has failed is not an error.
func (e *Engine) Advance(ctx context.Context, at host.Run) (*Progress, error) {
	if err := e.checkAdvance(&at); err != nil {
		return nil, err
	}
	p, err := e.tryAdvance(ctx, at)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) { // within a read
		return &Progress{State: AdvanceMore, Run: at, Status: cairn.RunRunning}, nil
	}
	return p, err
}

// tryAdvance is Advance for a valid reference. The error may be that of a deadline which passed within a read.
func (e *Engine) tryAdvance(ctx context.Context, at host.Run) (*Progress, error) {
	p, err := e.progress(ctx, at)
	if err != nil || p.State != AdvanceMore || p.Run.Step > at.Step || p.Run.Token != at.Token {
		return p, err
	}
	if _, err := e.runs.Agent(at.Agent, at.AgentVersion); err != nil { // another process may have it
		return nil, cairn.Errorf(cairn.ErrUnavailable, "session %q: %w", at.SessionID, err)
	}
	call, err := e.advances.attend(at, func(a *advance) error { return e.beginAdvance(ctx, a) })
	if err != nil {
		return nil, err
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		e.advances.leave(call)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return p, nil
		}
		return nil, context.Cause(ctx)
	}
	if call.err != nil && (!errors.Is(call.err, cairn.ErrFenced) || errors.Is(call.err, cairn.ErrStoreBehind)) {
		return nil, call.err
	}
	if call.err == nil && call.next.Token > at.Token {
		return &Progress{State: AdvanceMore, Run: call.next, Status: cairn.RunRunning}, nil
	}
	if p, err = e.progress(ctx, at); err == nil && p.State == AdvanceMore && p.Run.Token == at.Token {
		p.Run.Step = max(p.Run.Step, call.next.Step)
	}
	return p, err
}

// Reference returns the reference of a session's last run, for [Engine.Advance]. The error is ErrNotFound if the session
// does not exist or has no run, and ErrInvalid for the session of a sub-agent, whose runs are driven by its parent's.
func (e *Engine) Reference(ctx context.Context, sessionID string) (host.Run, error) {
	row, err := driver.Load(ctx, e.store, sessionID)
	if err != nil {
		return host.Run{}, err
	}
	if row.Kind == cairn.ChildSubAgent {
		return host.Run{}, cairn.Invalid("session_id", "%q belongs to a sub-agent; its root is %q", row.ID, row.RootID)
	}
	run, err := driver.FindRun(ctx, e.store, row.ID, row.RunID)
	if err != nil {
		return host.Run{}, err
	}
	at := host.Run{RootID: row.RootID, Incarnation: row.Incarnation, Turn: run.Turn, StartSequence: run.StartSequence, Position: host.Position{
		SessionID: row.ID, Agent: run.Agent, AgentVersion: run.AgentVersion, RunID: run.ID, Token: row.Lease.Token}}
	at.Step, err = e.lastStep(ctx, row, at)
	return at, err
}

// lastStep returns the number of the last step that has ended of the run that drives a session, under the lease of the
// session's row. A step that is deferred to a later commit has ended, too.
func (e *Engine) lastStep(ctx context.Context, row *cairn.Session, at host.Run) (int, error) {
	if a, err := e.runs.Agent(at.Agent, at.AgentVersion); err == nil && define.Durability(a).Due(0, false) {
		return row.Step, nil
	}
	staged, err := driver.StagedOf(ctx, e.store, row.ID, "")
	return step.LastEnded(staged, at.RunID, row.Step, row.Lease.Token), err
}

func (e *Engine) checkAdvance(at *host.Run) error {
	switch {
	case e.opts.Host == nil:
		return cairn.Invalid("host", "engine has no host")
	case e.records == nil:
		return cairn.Invalid("store", "keeps no records")
	case at.SessionID == "":
		return cairn.Invalid("session_id", "is required")
	case at.RunID == "":
		return cairn.Invalid("run_id", "is required")
	case at.Token <= 0:
		return cairn.Invalid("token", "must be positive")
	case at.Step < 0:
		return cairn.Invalid("step", "is negative")
	}
	return nil
}

// progress returns how far a run is, by its session's row.
func (e *Engine) progress(ctx context.Context, at host.Run) (*Progress, error) {
	row, err := driver.Load(ctx, e.store, at.SessionID)
	if err != nil {
		return nil, err
	}
	p := &Progress{State: AdvanceMore, Run: at, Status: cairn.RunRunning}
	if row.RunID == at.RunID && row.Status == cairn.SessionActive {
		err := driver.Guard{Token: at.Token}.CheckToken(row)
		switch {
		case errors.Is(err, cairn.ErrStoreBehind):
			return nil, err
		case row.Lease.Owner == "": // released, for a worker
			p.State = AdvanceTakenOver
		case err != nil:
			return e.successor(ctx, row, p)
		}
		p.Run.Step, err = e.lastStep(ctx, row, at)
		return p, err
	}
	run, err := driver.FindRun(ctx, e.store, at.SessionID, at.RunID)
	if err != nil {
		return nil, err
	}
	p.Run.Step, p.Status, p.State = run.Steps, run.Status, AdvanceEnded
	if row.RunID == at.RunID && run.Status == cairn.RunSuspended {
		p.State, p.Until = AdvanceWaiting, row.NextDeadline
	}
	return p, nil
}

// successor makes p refer to the lease of a row, if calls have taken the run over down to that lease or do so now.
func (e *Engine) successor(ctx context.Context, row *cairn.Session, p *Progress) (*Progress, error) {
	_, found, err := e.attempted(ctx, &p.Run)
	if err != nil {
		return nil, err
	}
	if found == nil || found.From == 0 || found.From > p.Run.Token || found.Token != row.Lease.Token && !found.Takes {
		p.State = AdvanceTakenOver
	}
	p.Run.Token = row.Lease.Token
	p.Run.Step, err = e.lastStep(ctx, row, p.Run)
	return p, err
}

// beginAdvance begins to drive a step of a run, with the values of ctx.
func (e *Engine) beginAdvance(ctx context.Context, a *advance) error {
	if err := e.enter(); err != nil {
		return err
	}
	e.crew.run(func() {
		defer e.driven.Done()
		next, err := e.advance(ctxjoin.Join(e.ctx, ctx), a.at)
		e.advances.end(a, next, err)
	})
	return nil
}

// advance makes an attempt at the next step of a run, unless another one is in progress, and returns the reference to what
// follows; its token is 0 if nothing does. If an earlier attempt has left the step unfinished, it only takes the run over.
func (e *Engine) advance(ctx context.Context, at host.Run) (next host.Run, err error) {
	x, err := e.exclude(ctx, at)
	if err != nil {
		return at, causeOf(ctx, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := x.keep(ctx, cancel)
	if x.state.Takes {
		next, err = e.succeed(ctx, at)
	} else {
		next, err = e.driveStep(ctx, at)
	}
	end()
	x.leave(ctx, next, err != nil)
	return next, err
}

// succeed takes a run over whose step was left unfinished.
func (e *Engine) succeed(ctx context.Context, at host.Run) (host.Run, error) {
	next, err := e.runs.Succeed(ctx, at.Position)
	switch {
	case errors.Is(err, cairn.ErrStale): // the session has just changed
		err = busy(at)
	case err == nil && next.RunID == "": // taken over too often: it has failed
		e.beginQueued(ctx, at.SessionID)
	}
	return next, causeOf(ctx, err)
}

// driveStep drives the next step of a run.
func (e *Engine) driveStep(ctx context.Context, at host.Run) (next host.Run, err error) {
	_, err = turn.Loop(stepper{ctx: ctx, e: e, one: true}, at)
	if errors.Is(err, errStepDone) {
		at.Step++
		return at, nil
	}
	return host.Run{}, causeOf(ctx, err)
}

// causeOf returns why ctx has ended if err says that it has.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// errStepDone ends the loop of a run behind a step.
var errStepDone = errors.New("step committed")

// stepper is the scheduler of a step. It carries out its effects as for a host, so that everything that they do is in
// the store, and another process can continue behind each.
type stepper struct {
	ctx context.Context // of the one step that the scheduler serves
	e   *Engine
	one bool // the loop ends behind a step
}

func (s stepper) Do(of host.Effect) error {
	in, err := json.Marshal(of.In)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "effect %s: %w", of.Name, err)
	}
	out, err := s.e.effect(s.ctx, of.Name, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, of.Out); err != nil {
		return cairn.Errorf(cairn.ErrInternal, "decode output of effect %s: %w", of.Name, err)
	}
	if end, ok := of.Out.(*turn.Committed); ok && s.one && !end.Ended {
		return errStepDone
	}
	return nil
}

func (s stepper) All(n int, branch func(host.Scheduler, int) error) error {
	return together(s, n, branch)
}

// Child drives a child's run to its end, while it holds the lease of its parent. A run that it cannot drive to its end it
// releases, for the next attempt at the parent's step.
func (s stepper) Child(of host.Call, b host.Run) error {
	return s.e.hold(s.ctx, of.Position, func(ctx context.Context) error {
		_, err := turn.Loop(stepper{ctx: ctx, e: s.e}, b)
		switch {
		case errors.Is(err, cairn.ErrFenced): // another process has taken it over, and the parent's call finds out
			return nil
		case err != nil:
			s.e.releaseUndriven(ctx, b, err)
		}
		return err
	})
}
