package inbox

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// effectSchema is the JSON Schema of a [cairn.EffectAnswer].
var effectSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"outcome":{"type":"string","enum":["happened","did_not_happen","try_again"]},"result":{}},` +
	`"required":["outcome"],"additionalProperties":false}`)

// Send returns the row of an effectful call whose tool is about to be called.
func Send(c cairn.PendingCall, key string, now time.Time) cairn.PendingCall {
	e := &cairn.Effect{State: cairn.EffectSent, Key: key, Attempts: 1, SentAt: now}
	if c.Effect != nil {
		e.Attempts += c.Effect.Attempts
	}
	unclaim(&c)
	c.Status, c.Effect, c.Answer, c.Prompt, c.Schema, c.Deadline = cairn.CallSent, e, nil, "", nil, time.Time{}
	return c
}

// Unknown records in the trail that the latest attempt at an effect ended without an outcome, unless that was recorded.
func Unknown(c cairn.PendingCall, why string, now time.Time) cairn.PendingCall {
	if c.Effect.State == cairn.EffectUnknown {
		return c
	}
	setEffect(&c, cairn.EffectUnknown)
	note(&c, cairn.Decision{Kind: cairn.DecisionUnknown, At: now, Notes: why})
	return c
}

// Probed records what the tool found out about an effect whose outcome was unknown.
func Probed(c cairn.PendingCall, outcome cairn.EffectOutcome, now time.Time) cairn.PendingCall {
	note(&c, cairn.Decision{Kind: cairn.DecisionProbed, At: now, Value: outcomeJSON(outcome)})
	return c
}

// AskEffect opens the row of an effect whose outcome is unknown.
func AskEffect(c cairn.PendingCall, prompt string) cairn.PendingCall {
	c.Status, c.Prompt, c.Schema = cairn.CallOpen, prompt, effectSchema
	return c
}

// Conclude closes the row of an effect in its final state. A row whose outcome remains unknown is dropped, because of
// why, and [SettleEffect] may settle it.
func Conclude(c cairn.PendingCall, state cairn.EffectState, why string, now time.Time) cairn.PendingCall {
	if state == cairn.EffectConfirmed || state == cairn.EffectFailed {
		unclaim(&c)
		setEffect(&c, state)
		c.Status = cairn.CallSettled
		return c
	}
	c = Unknown(c, why, now)
	if c.Status == cairn.CallDropped {
		return c
	}
	return Drop(c, why, now)
}

// SettleEffect records the outcome of an effect that was unknown when its run ended. It returns ErrInvalid for a row that
// is no such effect. An effect that is settled the same way already is returned unchanged.
func SettleEffect(c cairn.PendingCall, happened bool, by, notes string, now time.Time) (cairn.PendingCall, error) {
	state, outcome := cairn.EffectFailed, cairn.EffectDidNotHappen
	if happened {
		state, outcome = cairn.EffectConfirmed, cairn.EffectHappened
	}
	switch {
	case c.Kind != cairn.CallEffect || c.Effect == nil:
		return c, cairn.Invalid("call_id", "call %q is not an effect", c.ID)
	case c.Effect.State == state:
		return c, nil
	case c.Effect.State != cairn.EffectUnknown:
		return c, cairn.Invalid("call_id", "effect %q is not unknown, it is %s", c.ID, c.Effect.State)
	case c.Status != cairn.CallDropped:
		return c, cairn.Invalid("call_id", "a run waits for effect %q; answer the pending call", c.ID)
	}
	setEffect(&c, state)
	c.Status = cairn.CallSettled
	note(&c, cairn.Decision{Kind: cairn.DecisionSettled, Reviewer: by, At: now, Notes: notes, Value: outcomeJSON(outcome)})
	return c, nil
}

// setEffect changes the state of an effect without modifying what copies of the row share.
func setEffect(c *cairn.PendingCall, state cairn.EffectState) {
	e := *c.Effect
	e.State = state
	c.Effect = &e
}

func outcomeJSON(outcome cairn.EffectOutcome) json.RawMessage {
	raw, _ := json.Marshal(cairn.EffectAnswer{Outcome: outcome}) // always encodes
	return raw
}

// EffectText is the result of a call of which nobody knows whether it took effect.
const EffectText = "the outcome is unknown: the call may or may not have taken effect; do not repeat it without checking"

// Settled returns the result that an answer gives an effectful call, and the state of its effect. There is no result if
// the tool is to be called again. The call must have an answer.
func Settled(c *cairn.PendingCall) (*cairn.ToolResult, cairn.EffectState) {
	result := func(output json.RawMessage, code cairn.Code) *cairn.ToolResult {
		return &cairn.ToolResult{CallID: ToolCall(c), Tool: c.Tool, Output: output, IsError: code != "", Code: code}
	}
	text := func(s string) json.RawMessage {
		raw, _ := json.Marshal(s) // a string always encodes
		return raw
	}
	var a cairn.EffectAnswer
	switch {
	case c.Answer.Kind == cairn.DecisionTimeout:
		return result(text(inTime+"; "+EffectText), cairn.ErrEffectUnknown), cairn.EffectUnknown
	case c.Answer.Kind != cairn.DecisionResult || json.Unmarshal(c.Answer.Value, &a) != nil:
		return result(text(EffectText+because(c.Answer.Text)), cairn.ErrEffectUnknown), cairn.EffectUnknown
	}
	switch a.Outcome {
	case cairn.EffectTryAgain:
		return nil, cairn.EffectUnknown
	case cairn.EffectDidNotHappen:
		if a.Result == nil {
			a.Result = text("the call did not take effect, as a person found out")
		}
		return result(a.Result, cairn.ErrTool), cairn.EffectFailed
	case cairn.EffectHappened:
		if a.Result == nil {
			a.Result = text("the call took effect, as a person found out")
		}
		return result(a.Result, ""), cairn.EffectConfirmed
	}
	return result(text(EffectText), cairn.ErrEffectUnknown), cairn.EffectUnknown
}

// Choices returns how often a person or the tool's Confirm decided that an effect whose outcome was unknown may be sent
// again.
func Choices(c *cairn.PendingCall) (n int) {
	for i := range c.Trail {
		var a cairn.EffectAnswer
		d := &c.Trail[i]
		if !slices.Contains([]cairn.DecisionKind{cairn.DecisionProbed, cairn.DecisionResult}, d.Kind) || json.Unmarshal(d.Value, &a) != nil {
			continue
		}
		if a.Outcome == cairn.EffectTryAgain || d.Kind == cairn.DecisionProbed && a.Outcome == cairn.EffectDidNotHappen {
			n++
		}
	}
	return n
}
