package effects

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/delegate"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// child consults a sub-agent. It begins a session for it, or resumes the one that an earlier attempt at the effect
// began or that was suspended. If a run of that session must be driven, child returns it, and the loop asks again once
// the run was driven. Otherwise the session's outcome becomes the call's result. If the session is suspended, the call
// waits.
func (fx *Effects) child(ctx context.Context, l *session.Live, a *cairn.Agent, in turn.ChildIn, _ *cairn.Error) (out turn.ChildOut, err error) {
	c, err := l.Calling(in.ToolIn)
	if err != nil {
		return turn.ChildOut{}, err
	}
	switch {
	case c.Result != nil:
		if l.Emit.Again() {
			journal.Call(l.Emit.Event, l.Step, c, journal.NotBegun)
		}
		return turn.ChildOut{}, nil
	case c.Waits():
		return turn.ChildOut{ToolOut: turn.ToolOut{Waits: true}}, nil
	}
	work, key := l.Work(ctx)
	defer l.Release(key)
	v := &visit{fx: fx, ctx: ctx, work: work, a: a, l: l, c: c, s: fx.Scope(l, l.Step.Number, l.Step.Below(nil)...), driven: in.Driven, until: in.Until}
	began := c.Started()
	if began == nil && in.Driven == "" && ctx.Err() == nil && work.Err() != nil { // the run was stopped before the call began
		if began, err = v.unstaged(); began == nil || err != nil {
			return turn.ChildOut{}, err
		}
	}
	defer func() { out.Launch = v.launch }()
	if began != nil {
		v.child, v.agent = began.ChildID, began.Agent
		v.s.Resume(began.Writes)
	}
	if in.Failed != nil {
		if err := v.endDriven(); err != nil {
			return turn.ChildOut{}, err
		}
	}
	var result *cairn.ToolResult
	if began == nil && in.Driven == "" && len(c.Rows()) == 0 && c.Delegates() {
		result, err = v.open()
	}
	if result == nil && err == nil {
		result, err = v.take(in)
	}
	if err != nil {
		return turn.ChildOut{}, err
	}
	if result == nil {
		if v.waiting != nil {
			child := c.Child(v.child, v.agent)
			child.Deadline = v.deadline
			err = fx.put(ctx, l, &step.Wait{CallID: c.Use.CallID, Waiting: v.waiting, Child: child, Writes: v.s.Writes()}, false)
		}
		return turn.ChildOut{ToolOut: toolOut(c), Drive: v.drive}, err
	}
	f := v.end(result)
	f.Writes = v.s.End()
	err = fx.concluded(ctx, a, l, f)
	return turn.ChildOut{ToolOut: toolOut(c)}, err
}

// unstaged returns the start of a run that an attempt at the call began before it died, and did not stage; nil if there
// is none. That run must end before this one.
func (v *visit) unstaged() (*step.Started, error) {
	with, ok := v.l.Emit.Consulted(v.c.Use.CallID)
	if !ok {
		return nil, nil
	}
	v.child = with.SessionID
	var err error
	if v.child == childID(v.l.Row, v.c.Use.CallID) {
		_, err = driver.Load(v.ctx, v.fx.Store, v.child)
	} else {
		_, err = driver.FindRun(v.ctx, v.fx.Store, v.child, v.runID())
	}
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	v.l.Step.Add(&step.Started{CallID: v.c.Use.CallID, Agent: with.Agent, ChildID: with.SessionID, Announced: true})
	return v.c.Started(), nil
}

// take advances the call and returns its result; nil while the other session is to be driven or is suspended, or if the
// run was stopped.
func (v *visit) take(in turn.ChildIn) (result *cairn.ToolResult, err error) {
	switch {
	case len(v.c.Rows()) > 0: // it was no consultation when it was made
		if result, _ = v.fx.answered(v.l, v.c); result == nil {
			result = changed(v.c.Use)
		}
		return result, nil
	case !v.c.Delegates(): // it is no consultation any more
		if result, err = v.gone(); result == nil && err == nil {
			result = changed(v.c.Use)
		}
		return result, err
	case in.Failed != nil:
		return failure(v.c.Use, in.Failed), nil
	case in.Driven != "" && !v.finished(in.Driven):
		return v.advance(nil)
	case v.c.Tool.Companion:
		return v.talk()
	}
	return v.consult()
}

// visit is one attempt at a call that consults another agent. It lasts as long as the effect.
type visit struct {
	fx        *Effects
	ctx, work context.Context // of the effect; work is cancelled when the run is stopped
	a         *cairn.Agent
	l         *session.Live
	c         *step.Call
	s         *user.Scope
	child     string // the id of the other agent's session
	agent     string
	until     time.Time         // when the call's own run is stopped; zero for never
	deadline  time.Time         // of the call, once the other session is known; zero if it has none
	driven    string            // the id of the run that was driven for this call since the effect last asked for it
	drive     *turn.Begun       // the run to be driven next, if any
	launch    *turn.Begun       // a run that was begun and is to be driven independently of the call, if any
	waiting   *cairn.Suspension // what the other session is suspended for, if it is
	run       *cairn.Run        // the run that the other session came to, if any
	hit       bool              // the result is from the tool's cache
}

// open publishes the call's start and calls the hooks, unless the suspended run did so. It returns a result if the call
// must not begin.
func (v *visit) open() (*cairn.ToolResult, error) {
	if !v.l.Step.Carried {
		v.l.Emit.Event(journal.CallBegan(v.l.Step, v.c))
		if err := v.l.Emit.Lost(); err != nil {
			return nil, err
		}
	}
	if err := checkInput(v.l, v.a, v.c); err != nil {
		return failure(v.c.Use, err), nil
	}
	if v.l.Step.Carried {
		return nil, nil
	}
	err := v.s.Veto(v.work, "BeforeTool", func(h *cairn.Hooks) user.Hook {
		if h.BeforeTool == nil {
			return nil
		}
		return user.CallHook(v.c, h.BeforeTool)
	})
	if err != nil {
		return vetoed(v.c.Use, err), nil
	}
	result := v.l.Remembered(v.c, v.l.Now(v.fx.Now()))
	v.hit = result != nil
	return result, nil
}

// begin calls the hooks before a consultation, and publishes its start. It returns a result if a hook vetoes it.
func (v *visit) begin(agent string) (*cairn.ToolResult, error) {
	v.agent = agent
	if v.c.Announced() { // an earlier attempt did so
		return nil, nil
	}
	if v.l.Step.Carried { // the suspended run did so
		v.start()
		return nil, nil
	}
	err := v.s.Veto(v.work, "BeforeSubAgent", func(h *cairn.Hooks) user.Hook {
		if h.BeforeSubAgent == nil {
			return nil
		}
		return user.CallHook(v.c, func(ctx context.Context, call *cairn.Call) error { return h.BeforeSubAgent(ctx, call, agent) })
	})
	if err != nil {
		return vetoed(v.c.Use, err), nil
	}
	v.start()
	v.l.Emit.Event(journal.Consults(v.l.Step, v.c, v.agent, v.child))
	return nil, v.l.Emit.Flush(v.ctx) // a companion in the background may publish at once
}

// start records that the call has begun to consult the other agent.
func (v *visit) start() {
	v.l.Step.Add(&step.Started{CallID: v.c.Use.CallID, Agent: v.agent, ChildID: v.child, Announced: true, Writes: v.s.Writes()})
}

// end makes the call's result a fact, and calls the hooks if another agent was consulted.
func (v *visit) end(result *cairn.ToolResult) *step.Result {
	f := &step.Result{Result: result, Began: !v.l.Step.Carried, Hit: v.hit}
	if !v.c.Announced() {
		return f
	}
	f.Consulted = v.fx.consulted(v.ctx, v.l, v.c)
	if v.run != nil {
		f.Consulted.Status, f.Made = v.run.Status, v.l.Now(v.fx.Now())
	}
	v.s.AfterSubAgent(v.work, v.c, f.Result, f.Consulted.Agent)
	return f
}

// consulted returns the agent that a call has consulted.
func (fx *Effects) consulted(ctx context.Context, l *session.Live, c *step.Call) *step.Consulted {
	if s := c.Started(); s != nil {
		return &step.Consulted{Agent: s.Agent, ChildID: s.ChildID}
	}
	if c.Tool != nil && c.Tool.Agent != nil { // the suspended run has begun it
		return &step.Consulted{Agent: c.Tool.Agent.Name, ChildID: childID(l.Row, c.Use.CallID)}
	}
	var waits *cairn.Suspension
	err := fx.persist(ctx, func() (err error) { waits, err = fx.Suspension(ctx, l.Row); return err })
	if err != nil { // the log will lack the end of the consultation
		fx.Logger.Warn("cannot find the child session of a call", "session", l.Row.ID, "call", c.Use.CallID, "error", err)
	}
	if waits != nil {
		for _, child := range waits.Children {
			if child.CallID == c.Use.CallID {
				return &step.Consulted{Agent: child.Agent, ChildID: child.SessionID}
			}
		}
	}
	return &step.Consulted{}
}

// consult drives a sub-agent's session and returns the call's result; nil while the session is to be driven or is
// suspended, or if the run was stopped.
func (v *visit) consult() (*cairn.ToolResult, error) {
	c := v.c
	v.child = childID(v.l.Row, c.Use.CallID)
	if veto, err := v.begin(c.Tool.Agent.Name); veto != nil || err != nil {
		return veto, err
	}
	return v.advance(func() (turn.Begun, error) {
		in, err := c.Tool.Task(c.Use.Input)
		if err != nil {
			return turn.Begun{}, err
		}
		return v.create(c.Tool.Agent, cairn.ChildSubAgent, "", v.fx.NewID("run"), in, false)
	})
}

// create begins a child's session. It returns ErrExists if an earlier attempt did.
func (v *visit) create(agent *cairn.Agent, kind cairn.ChildKind, name, runID string, in cairn.Input, background bool) (turn.Begun, error) {
	row := v.l.Row
	unlock, err := v.fx.growing.lock(v.ctx, row.RootID)
	if err != nil {
		return turn.Begun{}, err
	}
	defer unlock()
	// The run was stopped while other calls had their turn. If an earlier attempt began the child, its run must still
	// be driven to its end.
	if v.work.Err() != nil {
		row, err := driver.Load(v.ctx, v.fx.Store, v.child)
		switch {
		case err == nil:
			return turn.Begun{}, driver.Conflict(cairn.ErrExists, row, "session %q already exists", v.child)
		case errors.Is(err, cairn.ErrNotFound):
			err = context.Cause(v.work)
		}
		return turn.Begun{}, err
	}
	if err := v.fx.room(v.ctx, row, v.child); err != nil {
		return turn.Begun{}, err
	}
	return v.fx.Create(v.ctx, lifecycle.Turn{
		NewRun: lifecycle.NewRun{SessionID: v.child, Child: true, Known: agent, RunID: runID, Messages: in.Messages, Hooks: v.l.CallHooks(),
			LogLast: v.l.Emit.Position(), Background: background},
		Agent: agent.Name,
		Create: &cairn.Session{ID: v.child, Agent: agent.Name, UserID: row.UserID, TraceParent: row.TraceParent, Depth: row.Depth + 1, Kind: kind, Name: name,
			ParentID: row.ID, RootID: row.RootID, Incarnation: row.Incarnation, Secret: ids.Derive("secret", row.Secret, v.child)},
	})
}

// advance takes the child's session as far as possible, and turns its outcome into the call's result; nil while the
// session is to be driven or is suspended.
func (v *visit) advance(begin func() (turn.Begun, error)) (*cairn.ToolResult, error) {
	if v.l.Step.Carried {
		begin = nil // the suspended run began it
	}
	if err := v.l.Emit.Flush(v.ctx); err != nil { // the child's events follow those of this session
		return nil, err
	}
	out, err := delegate.Advance(v.ctx, &localChild{v, begin}, begin != nil)
	run := out.Run
	switch {
	case err != nil:
		return nil, err
	case out.Failed != nil:
		v.fx.Logger.Warn(lifecycle.LineStartFailed, "session", v.l.Row.ID, "root", v.l.Row.RootID, "run", v.l.Run.ID, "agent", v.l.Row.Agent,
			"call", v.c.Use.CallID, "subagent", v.agent, "code", cairn.AsError(out.Failed).Code, "error", out.Failed)
		return failure(v.c.Use, out.Failed), nil
	case run == nil:
		v.drive = out.Drive
		return nil, v.limitDriven()
	case run.Status == cairn.RunSuspended:
		v.waiting = run.Suspended
		return nil, nil
	}
	if run.Reason == cairn.ReasonInterrupted || run.Reason == cairn.ReasonAborted {
		if err := v.listen(); err != nil {
			return nil, err
		}
	}
	if v.work.Err() != nil && run.Status != cairn.RunCompleted {
		return nil, nil
	}
	v.run = run
	if !v.deadline.IsZero() && run.Reason == cairn.ReasonInterrupted && run.StopReason == lifecycle.TimedOut.Reason {
		return transcript.Failed(v.c.Use, cairn.ErrTimeout, "agent "+v.agent+" timed out"), nil
	}
	return delegate.Result(v.c.Use, v.agent, run), nil
}

// sees sets the call's deadline, which counts from the beginning of the sub-agent's session.
func (v *visit) sees(child *cairn.Session) {
	if v.c.Tool != nil && v.c.Tool.Agent != nil && v.c.Tool.Timeout > 0 {
		v.deadline = child.CreatedAt.Add(v.c.Tool.Timeout)
	}
}

// late reports whether the call's deadline has passed, given a row of the sub-agent's session that was just read.
func (v *visit) late(child *cairn.Session) bool {
	return !v.deadline.IsZero() && !child.AsOf.Before(v.deadline)
}

// limitDriven sets the time at which the run to be driven is stopped: the deadline of the call, or of a call further
// up that waits for this one.
func (v *visit) limitDriven() error {
	if v.drive == nil {
		return nil
	}
	if v.deadline.IsZero() && v.c.Tool.Agent != nil && v.c.Tool.Timeout > 0 { // the session has just begun
		child, err := driver.Load(v.ctx, v.fx.Store, v.child)
		if err != nil {
			return err
		}
		v.sees(child)
	}
	v.drive.Until = session.Earlier(v.until, v.deadline)
	return nil
}

// listen asks the store whether the run is to stop. Its child may have received the stop first.
func (v *visit) listen() error {
	stop, err := v.fx.Store.Renew(v.ctx, v.l.Row.ID, v.l.Row.Lease.Token, v.fx.LeaseTTL)
	if stop != nil {
		v.l.RequestStop(*stop)
	}
	return err
}

// PassStops passes stop requests for a call's run on to the child's run that the call asked for, and stops that run at
// the call's deadline. It does so while this process drives that run, until end is called.
func (fx *Effects) PassStops(ctx context.Context, of turn.ToolIn, b turn.Begun) (end func(), err error) {
	l, _, err := fx.hold(of.Position)
	if err != nil {
		return nil, err
	}
	work, key := l.Work(ctx)
	stop := context.AfterFunc(work, func() { fx.passStop(ctx, work, b.SessionID, b.RunID) })
	timer := func() bool { return false }
	if !b.Until.IsZero() && !b.Until.Equal(of.Until) { // at of.Until this run is stopped, which passes the stop on
		timer = time.AfterFunc(b.Until.Sub(l.Now(fx.Now())), func() { fx.timeOut(ctx, b.SessionID, b.RunID) }).Stop
	}
	return func() { timer(); stop(); l.Release(key) }, nil
}

// timeOut asks a child's run to stop because the call that consulted it has reached its deadline.
func (fx *Effects) timeOut(ctx context.Context, child, runID string) {
	stop := lifecycle.TimedOut
	stop.RunID = runID
	fx.askToStop(ctx, child, stop)
}

// passStop passes a stop request on to a child's run.
func (fx *Effects) passStop(ctx, work context.Context, child, runID string) {
	var s *session.Stopped
	if !errors.As(context.Cause(work), &s) {
		return
	}
	stop := s.Stop
	if stop.RunID = runID; runID == "" {
		row, err := driver.Load(ctx, fx.Store, child)
		if err != nil {
			return
		}
		stop.RunID = row.RunID
	}
	fx.askToStop(ctx, child, stop)
}

// askToStop asks a child's run to stop.
func (fx *Effects) askToStop(ctx context.Context, child string, stop cairn.Stop) {
	err := fx.Store.RequestStop(ctx, child, stop)
	if err != nil && !errors.Is(err, cairn.ErrNotRunning) {
		fx.Logger.Warn("cannot stop a sub-agent", "session", child, "error", err)
	}
	if err == nil || !fx.Remote() { // a remote effect's commit sees only what the store has
		fx.RequestStop(child, stop)
	}
}
