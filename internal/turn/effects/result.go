package effects

import (
	"context"
	"errors"
	"fmt"

	"bytes"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// toolOut returns a call's output for the loop.
func toolOut(c *step.Call) turn.ToolOut { return turn.ToolOut{Finished: c.Done(), Waits: c.Waits()} }

// answered returns the result that a call got from outside, or nil, and the final row of its effect, if it has one.
func (fx *Effects) answered(l *session.Live, c *step.Call) (*cairn.ToolResult, *cairn.PendingCall) {
	if result, effect := fx.answeredEffect(l, c); result != nil {
		return result, effect
	}
	for _, row := range c.Rows() {
		if row.Status != cairn.CallDropped { // the next turn dropped it
			continue
		}
		if row.Kind.Asked() { // its tool asked the question
			return transcript.Stopped(c.Use), nil
		}
		return transcript.NotExecuted(c.Use, "not executed: "+inbox.WhyDropped(row)), nil
	}
	if c.Row == nil || c.Row.Answer == nil {
		return nil, nil
	}
	return inbox.Result(c.Row), nil
}

// concluded adds the result of a call to the step, and publishes the result that stands.
func (fx *Effects) concluded(ctx context.Context, a *cairn.Agent, l *session.Live, f *step.Result) error {
	return fx.record(ctx, a, l, f, define.Durability(a).Stages())
}

// record is concluded for a result that the next lease holder uses if it lasts.
func (fx *Effects) record(ctx context.Context, a *cairn.Agent, l *session.Live, f *step.Result, lasts bool) error {
	f.Result.Private = f.Result.Private && !a.ShowToolErrors
	c := l.Step.Call(f.Result.CallID)
	f.Result.Edited, f.Result.Workspace, f.Result.Artifacts = c.Edited(), f.Writes.Workspace, f.Writes.Artifacts
	if f.Effect == nil {
		_, f.Effect = fx.answeredEffect(l, c)
	}
	if f.Effect == nil {
		f.Effect = fx.leftUnknown(l, c, "the call ended without an outcome")
	}
	err := fx.put(ctx, l, f, lasts)
	if unkeepable(err) { // what the store rejects once it rejects each time
		short := failure(c.Use, err)
		short.Edited = f.Result.Edited
		err = fx.put(ctx, l, &step.Result{Result: short, Began: f.Began, Consulted: f.Consulted, Effect: f.Effect}, lasts)
	}
	if err != nil || c.Result == nil {
		return err
	}
	journal.Call(l.Emit.Event, l.Step, c, journal.Begun)
	return nil
}

// failure turns an error into the result that the model gets.
func failure(use *cairn.ToolUse, err error) *cairn.ToolResult {
	code := cairn.ErrTool
	var e *cairn.Error
	known := errors.As(err, &e)
	if known {
		code = e.Code
	}
	r := transcript.Failed(use, code, err.Error())
	r.Private = !known || code == cairn.ErrToolPanic
	return r
}

// vetoed turns the error of a hook that vetoes a call into the call's result.
func vetoed(use *cairn.ToolUse, err error) *cairn.ToolResult {
	r := failure(use, err)
	r.Private = r.Private || r.Code == cairn.ErrHook // a panic
	r.Code = cairn.ErrHook
	return r
}

// changed returns the result of a call whose tool can no longer do what the call was made or approved for.
func changed(use *cairn.ToolUse) *cairn.ToolResult {
	return transcript.Failed(use, cairn.ErrUnknownTool, fmt.Sprintf("the tool %q has changed since it was called; call it again", use.Tool))
}

// outdated returns the result of a call that can no longer continue: it was approved for a tool, or asked by one, that
// ran here and now runs elsewhere. It returns nil if the call can continue.
func outdated(c *step.Call) *cairn.ToolResult {
	if len(c.Rows()) == 0 || c.Open() != nil || c.Tool == nil {
		return nil
	}
	ran := len(c.Asked) > 0 || c.Row == nil || c.Row.Kind == cairn.CallApproval
	if c.Delegates() || ran && c.Tool.Wait.Kind == cairn.CallClientTool {
		return changed(c.Use)
	}
	return nil
}

// notStored returns why a call's arguments were not stored; nil if they were.
func notStored(input json.RawMessage) error {
	var text string
	if !bytes.HasPrefix(input, []byte(`"`+unkept)) || json.Unmarshal(input, &text) != nil {
		return nil
	}
	return cairn.Errorf(cairn.ErrArguments, "%s", text)
}

// checkInput returns what is wrong with the arguments that a call's tool would run with.
func checkInput(l *session.Live, a *cairn.Agent, c *step.Call) error {
	if err := cutShort(l, a, c); err != nil {
		return err
	}
	if err := notStored(c.Use.Input); err != nil {
		return err
	}
	err := c.Tool.Check(c.Input())
	// The model may have found the tool long ago, so show it the schema again.
	if schema := c.Tool.Input.JSON(); err != nil && c.Use.Deferred && len(schema) <= maxShown {
		e := *cairn.AsError(err)
		e.Message += "; the schema is " + string(schema)
		return &e
	}
	return err
}

// maxShown is the largest schema of a deferred tool, in bytes, that an error about its arguments shows.
const maxShown = 4 << 10
