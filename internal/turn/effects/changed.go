package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/delegate"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// The process that continues a call may have another version of the agent than the one the call was made with: tools
// come, go and change. What exists already counts, such as an answer or the outcome of a sub-agent. What cannot be
// resumed gets an error.

// gone returns the result of a call that consulted another agent, if its tool no longer does so; nil if the call did
// not. It reaps the agent's session, which would otherwise stay suspended.
func (v *visit) gone() (*cairn.ToolResult, error) {
	fx, c := v.fx, v.c
	child, err := v.consulted()
	if child == nil || err != nil {
		return nil, err
	}
	v.child, v.agent = child.ID, child.Agent
	v.start()
	run, err := driver.FindRun(v.ctx, fx.Store, child.ID, child.RunID)
	if err != nil {
		return nil, err
	}
	if run.Status == cairn.RunCompleted {
		v.run = run
		return delegate.Result(c.Use, child.Agent, run), nil
	}
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, longestHalt) {
		if err := fx.ReapChild(v.ctx, child, lifecycle.Leaving); err != nil {
			return nil, err
		}
		if child, err = driver.Load(v.ctx, fx.Store, child.ID); err != nil {
			return nil, err
		}
		if child.Ending == nil { // otherwise a sub-agent of it still runs
			break
		}
		if err := retry.Sleep(v.ctx, wait); err != nil {
			return nil, err
		}
	}
	if v.run, err = driver.FindRun(v.ctx, fx.Store, child.ID, child.RunID); err != nil {
		return nil, err
	}
	return transcript.Failed(c.Use, cairn.ErrUnknownTool, fmt.Sprintf("agent %s is no longer available", child.Agent)), nil
}

// consulted returns the session that the call began or waited for when it was made, or nil.
func (v *visit) consulted() (*cairn.Session, error) {
	row, err := driver.Load(v.ctx, v.fx.Store, childID(v.l.Row, v.c.Use.CallID))
	if !errors.Is(err, cairn.ErrNotFound) {
		return row, err
	}
	var args companionArgs
	if !strings.HasPrefix(v.c.Use.Tool, "companion__") || json.Unmarshal(v.c.Use.Input, &args) != nil || args.Name == "" {
		return nil, nil
	}
	row, err = v.fx.companion(v.ctx, v.l.Row, args.Name)
	// If the companion is working, it does not work for this call.
	if err != nil || row == nil || row.Status != cairn.SessionPaused {
		return nil, err
	}
	return row, nil
}

// endDriven ends the run that was to be driven for the call and could not be, if it is still under way. No other
// process would continue it.
func (v *visit) endDriven() error {
	fx := v.fx
	child, err := v.consulted()
	if child == nil || err != nil || child.Status != cairn.SessionActive || child.RunID != v.driven {
		return err
	}
	child, err = fx.Store.Commit(v.ctx, child.ID, &driver.Commit{
		Guard: driver.Guard{Token: child.Lease.Token, Version: child.Version}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
	if err == nil {
		err = fx.EndDead(v.ctx, child, lifecycle.Leaving)
	}
	if errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotRunning) {
		return nil // another process drives it after all
	}
	return err
}
