package effects

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// Child consults a sub-agent: it begins a session of its own, or goes on with the one that an earlier try of the effect
// began or that waited. If a run of that is to be driven it says so, and is asked again when that is done; else it takes
// the session's outcome as the call's result. If the session waits, the call does.
func (fx *Effects) Child(ctx context.Context, in turn.ChildIn) (turn.ChildOut, error) {
	l, a, err := fx.hold(in.Position)
	if err != nil {
		return turn.ChildOut{}, err
	}
	return fx.child(ctx, l, a, in)
}

func (fx *Effects) child(ctx context.Context, l *live, a *cairn.Agent, in turn.ChildIn) (turn.ChildOut, error) {
	c, err := l.calling(in.ToolIn)
	if err != nil {
		return turn.ChildOut{}, err
	}
	st := l.step
	switch {
	case c.result != nil:
		if fx.Apart { // an earlier try may have died before it told
			if c.visited != nil {
				l.emit.event(*c.visited)
			}
			l.emit.event(c.ended(st.number))
		}
		return turn.ChildOut{}, nil
	case c.waits():
		return turn.ChildOut{ToolOut: turn.ToolOut{Waits: true}}, nil
	}
	work, key := l.work(ctx)
	defer l.release(key)
	if !c.begun && in.Driven == "" && ctx.Err() == nil && work.Err() != nil { // the run was stopped before the call began
		return turn.ChildOut{}, nil
	}
	if c.scope == nil {
		c.scope = fx.newScope(l, st.number, l.opening, st.scope)
	}
	v := &visit{fx: fx, ctx: ctx, work: work, a: a, l: l, c: c, driven: in.Driven}
	var result *cairn.ToolResult
	if in.Failed != nil {
		if err := v.endDriven(); err != nil {
			return turn.ChildOut{}, err
		}
	}
	switch {
	case c.pending != nil: // it was no consultation when it was made
		if result = answered(c); result == nil {
			result = changed(c.use)
		}
	case !c.delegates(): // nor is it one any more
		if result, err = v.gone(); result == nil && err == nil {
			result = changed(c.use)
		}
	case in.Failed != nil:
		result = failure(c.use, in.Failed)
	case in.Driven != "":
		result, err = v.advance(nil)
	case c.tool.TalksToCompanion():
		result, err = v.talk()
	default:
		result, err = v.consult()
	}
	if err != nil {
		return turn.ChildOut{}, err
	}
	if result == nil {
		if c.waiting != nil {
			err = fx.waits(ctx, l, c)
		}
		return turn.ChildOut{ToolOut: c.out(), Drive: v.drive}, err
	}
	v.end(result)
	c.scope.end()
	err = fx.concluded(ctx, a, l, c, result)
	return turn.ChildOut{ToolOut: c.out()}, err
}

// visit is one call that consults another agent: it lasts as long as the effect.
type visit struct {
	fx        *Effects
	ctx, work context.Context // of the effect; work ends when the run is stopped
	a         *cairn.Agent
	l         *live
	c         *call
	driven    string      // the run that was driven for this call since it was last asked
	drive     *turn.Begun // the run that is to be driven next, if any
	run       *cairn.Run  // what the other session came to, if it did
}

// begin tells the hooks and the log that an agent is about to be consulted. A result is the hooks' veto.
func (v *visit) begin(agent string) (*cairn.ToolResult, error) {
	v.c.agent = agent
	if v.c.begun || v.l.step.told { // by an earlier try, or by the run that suspended
		v.c.begun = true
		return nil, nil
	}
	err := v.fx.veto(v.work, v.l, v.a, "BeforeSubAgent", v.c.scope, func(h *cairn.Hooks) hook {
		if h.BeforeSubAgent == nil {
			return nil
		}
		return v.c.hook(func(ctx context.Context, call *cairn.Call) error { return h.BeforeSubAgent(ctx, call, agent) })
	})
	if err != nil {
		return transcript.Failed(v.c.use, cairn.CodeHook, err.Error()), nil
	}
	v.c.begun = true
	v.l.emit.event(cairn.Event{Type: cairn.EventSubagentStart, Step: v.l.step.number, CallID: v.c.use.CallID, Tool: v.c.use.Tool,
		ChildID: v.c.child, Name: agent, Data: v.c.use.Input})
	return nil, v.l.emit.flush(v.ctx) // a companion that works by itself may say something at once
}

// end tells the log and the hooks what came of it.
func (v *visit) end(result *cairn.ToolResult) {
	if !v.c.begun {
		return
	}
	ev := cairn.Event{Type: cairn.EventSubagentEnd, Step: v.l.step.number, CallID: v.c.use.CallID, Tool: v.c.use.Tool,
		ChildID: v.c.child, Name: v.c.agent, IsError: result.IsError}
	if v.run != nil {
		ev.Status = v.run.Status
	}
	v.c.visited = &ev
	v.l.emit.event(ev)
	v.fx.afterSubAgent(v.work, v.l, v.a, v.c, result, v.c.scope)
}

func (fx *Effects) afterSubAgent(ctx context.Context, l *live, a *cairn.Agent, c *call, result *cairn.ToolResult, s *scope) {
	agent := c.agent
	if agent == "" && c.tool != nil && c.tool.Agent() != nil { // the run that suspended has begun it
		agent = c.tool.Agent().Name
	}
	fx.observe(ctx, l, a, "AfterSubAgent", s, func(h *cairn.Hooks) hook {
		if h.AfterSubAgent == nil {
			return nil
		}
		shown := *result
		return c.hook(func(ctx context.Context, call *cairn.Call) error {
			h.AfterSubAgent(ctx, call, agent, &shown)
			return nil
		})
	})
}

// consult runs a sub-agent's session and returns the call's result; nil while the session is to be driven or waits, or when
// the run was stopped.
func (v *visit) consult() (*cairn.ToolResult, error) {
	c := v.c
	c.child = childID(v.l.row, c.use.CallID)
	if err := c.check(); err != nil {
		return failure(c.use, err), nil
	}
	if veto, err := v.begin(c.tool.Agent().Name); veto != nil || err != nil {
		return veto, err
	}
	return v.advance(func() (turn.Begun, error) {
		in, err := c.tool.Task(c.use.Input)
		if err != nil {
			return turn.Begun{}, err
		}
		return v.create(c.tool.Agent(), "", v.fx.NewID("run"), in)
	})
}

// childID is the id of the session that a call which consults a sub-agent begins.
func childID(parent *cairn.Session, call string) string {
	return ids.Derive("child", parent.Secret, parent.ID, call)
}

// create begins a child's session. The error is ErrExists if an earlier try did.
func (v *visit) create(agent *cairn.Agent, name, runID string, in cairn.Input) (turn.Begun, error) {
	row := v.l.row
	unlock, err := v.fx.growing.lock(v.ctx, row.RootID)
	if err != nil {
		return turn.Begun{}, err
	}
	defer unlock()
	if v.work.Err() != nil { // stopped while others had their turn
		return turn.Begun{}, context.Cause(v.work)
	}
	if err := v.fx.room(v.ctx, row, v.c.child); err != nil {
		return turn.Begun{}, err
	}
	l, err := v.fx.create(v.ctx, BeginIn{
		SessionID: v.c.child, Child: true, Agent: agent.Name, Kind: cairn.RunExecute, RunID: runID, Messages: in.Messages, Hooks: v.l.hooks,
		LogLast: v.l.emit.position(),
		Create: &cairn.Session{ID: v.c.child, Agent: agent.Name, UserID: row.UserID, TraceParent: row.TraceParent, Name: name,
			ParentID: row.ID, RootID: row.RootID, Incarnation: row.Incarnation, Secret: ids.Derive("secret", row.Secret, v.c.child)},
	})
	return v.fx.part(v.ctx, l, err)
}

// advance takes the child's session as far as it goes and turns what it came to into the call's result; nil while it is to
// be driven or waits.
func (v *visit) advance(begin func() (turn.Begun, error)) (*cairn.ToolResult, error) {
	if v.l.step.told {
		begin = nil // the run that suspended did
	}
	if err := v.l.emit.flush(v.ctx); err != nil { // what the child says comes after what was said here
		return nil, err
	}
	run, err := v.further(begin)
	switch {
	case isStopped(err):
		return nil, nil
	case err != nil && (context.Cause(v.ctx) != nil || turn.Lost(err)):
		return nil, err
	case err != nil:
		return v.giveUp(err)
	case run == nil:
		return nil, nil
	case run.Status.Suspends():
		v.c.waiting = run.Suspended
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
	return childResult(v.c.use, v.c.agent, run), nil
}

// listen asks the store whether the run is to stop. Its child may have heard of that first.
func (v *visit) listen() error {
	stop, err := v.fx.Store.Renew(v.ctx, v.l.row.ID, v.l.row.Lease.Token, v.fx.LeaseTTL)
	if stop != nil {
		v.l.requestStop(*stop)
	}
	return err
}

// childResult is what the model is told of a sub-agent's run.
func childResult(use *cairn.ToolUse, agent string, run *cairn.Run) *cairn.ToolResult {
	switch {
	case run.Status == cairn.RunCompleted && len(run.Output) > 0:
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: run.Output}
	case run.Status == cairn.RunCompleted:
		text, _ := json.Marshal(run.Text) // a string always encodes
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: text}
	case run.Error != nil:
		return transcript.Failed(use, run.Error.Code, "agent "+agent+" failed: "+run.Error.Message)
	}
	return transcript.Failed(use, cairn.CodeNotExecuted, "agent "+agent+" was stopped before it came to an end")
}

// further begins a child's run, if begin is not nil, or goes on with its session. It returns the run that the session came
// to, or nil if there is one to be driven first.
func (v *visit) further(begin func() (turn.Begun, error)) (*cairn.Run, error) {
	fx, ctx, child := v.fx, v.ctx, v.c.child
	wait := 2 * time.Millisecond
	for {
		var b turn.Begun
		var err error
		if begin != nil {
			b, err = begin()
			begin = nil
		} else {
			var run *cairn.Run
			if b, run, err = v.goOn(); run != nil {
				return run, err
			}
		}
		switch {
		case errors.Is(err, cairn.ErrExists), errors.Is(err, cairn.ErrStale),
			errors.Is(err, cairn.ErrNotResumable): // somebody else went on with it meanwhile
			continue
		case errors.Is(err, cairn.ErrAlreadyRunning): // by somebody else, who will be done or gone some time
			fx.passStop(ctx, v.work, child, "")
			if err := sleep(ctx, wait); err != nil {
				return nil, err
			}
			wait = min(2*wait, time.Second)
			continue
		case err != nil:
			return nil, err
		case b.RunID == "": // there is one, or it was failed for good: look what it came to
			continue
		}
		v.drive = &b
		if fx.Apart {
			err = v.handOver()
		}
		return nil, err
	}
}

// driveChild drives the run of a child's session beside its parent's, which it hears to stop.
func (fx *Effects) driveChild(ctx context.Context, of turn.ToolIn, b turn.Begun) error {
	l, _, err := fx.hold(of.Position)
	if err != nil {
		return err
	}
	work, key := l.work(ctx)
	defer l.release(key)
	defer context.AfterFunc(work, func() { fx.passStop(ctx, work, b.SessionID, b.RunID) })()
	return fx.Drive(ctx, b)
}

// goOn goes on with a child's session where it stands, or returns its run if there is nothing to go on with. Whoever drove
// that run may have died before it told the log of its end, or, if that was for this call, the log may have failed.
func (v *visit) goOn() (turn.Begun, *cairn.Run, error) {
	fx, ctx, child := v.fx, v.ctx, v.c.child
	row, err := store.Load(ctx, fx.Store, child)
	if err != nil {
		return turn.Begun{}, nil, err
	}
	switch {
	case row.Running(row.AsOf):
		if b, ok := v.c.begins[row.RunID]; ok && b.Token == row.Lease.Token { // by a try of this effect whose answer was lost
			return b, nil, nil
		}
		return turn.Begun{}, nil, store.Conflict(cairn.CodeRunning, row, "session %q is already running", row.ID)
	case row.Status == cairn.SessionActive:
		b, err := fx.Recover(ctx, child, v.l.hooks)
		return b, nil, err
	case row.Status == cairn.SessionPaused && v.work.Err() == nil:
		what, err := fx.WaitsFor(ctx, row)
		if err != nil {
			return turn.Begun{}, nil, err
		}
		if what == "" {
			b, err := fx.Begin(ctx, BeginIn{SessionID: child, Child: true, Kind: cairn.RunResume, RunID: fx.NewID("run"), Hooks: v.l.hooks})
			return b, nil, err
		}
	}
	run, err := store.FindRun(ctx, fx.Store, child, row.RunID)
	if err != nil {
		return turn.Begun{}, nil, err
	}
	if _, untold := fx.untoldEnds.Load(child); untold || row.RunID != v.driven {
		switch err := fx.Reconcile(ctx, row, row.RunID); {
		case err == nil:
			fx.untoldEnds.Delete(child)
		case context.Cause(ctx) != nil || turn.Lost(err):
			return turn.Begun{}, nil, err
		default:
			fx.Logger.Warn("the end of a sub-agent's run was not written to the event log; a reader will add it", "session", child, "run", run.ID, "error", err)
		}
	}
	return turn.Begun{}, run, nil
}

// passStop hands a stop request on to a child's run.
func (fx *Effects) passStop(ctx, work context.Context, child, runID string) {
	var s *stopped
	if !errors.As(context.Cause(work), &s) {
		return
	}
	stop := s.Stop
	if stop.RunID = runID; runID == "" {
		row, err := store.Load(ctx, fx.Store, child)
		if err != nil {
			return
		}
		stop.RunID = row.RunID
	}
	if err := fx.Store.RequestStop(ctx, child, stop); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
		fx.Logger.Warn("a sub-agent was not told to stop", "session", child, "error", err)
	}
	fx.RequestStop(child, stop)
}
