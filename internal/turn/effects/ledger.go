package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// answeredEffect returns the result that a person's answer gives an effectful call, and the call's final row. There is
// neither if there is no answer that ends the call.
func (fx *Effects) answeredEffect(l *session.Live, c *step.Call) (*cairn.ToolResult, *cairn.PendingCall) {
	row := c.Effect
	switch {
	case row == nil || c.Sent != nil && c.Wait == nil:
		return nil, nil
	case row.Status == cairn.CallDropped:
		return unknownResult(c.Use), nil
	case row.Status != cairn.CallAnswered:
		return nil, nil
	}
	result, state := inbox.Settled(row)
	if result == nil {
		return nil, nil
	}
	final := inbox.Conclude(*row, state, "the outcome remains unknown", l.Now(fx.Now()))
	return result, &final
}

// unknownResult returns the result of an effectful call whose outcome is unknown.
func unknownResult(use *cairn.ToolUse) *cairn.ToolResult {
	return transcript.Failed(use, cairn.ErrEffectUnknown, inbox.EffectText)
}

// leftUnknown returns the final row of an effectful call that ends without an outcome; nil if it has none to write.
func (fx *Effects) leftUnknown(l *session.Live, c *step.Call, why string) *cairn.PendingCall {
	row := c.Ledger()
	if row == nil || row.Status == cairn.CallDropped || row.Status == cairn.CallSettled {
		return nil
	}
	final := inbox.Conclude(*row, "", why, l.Now(fx.Now()))
	return &final
}

// effectWrite returns the step's write to the ledger's row of a call.
func effectWrite(c *step.Call, waits bool) (w driver.CallWrite, ok bool) {
	switch {
	case c.Result != nil && c.Result.Effect != nil:
		w.Call = *c.Result.Effect
	case waits && c.Result == nil && c.Wait != nil && c.Effect != nil && c.Effect == c.Wait.Pending:
		w.Call = *c.Effect
	default:
		return w, false
	}
	w.Seen = w.Call.Version
	return w, true
}

// effectID returns the id of a call's row in the ledger.
func effectID(l *session.Live, stepID, callID string) string {
	return ids.Derive("effect", l.Row.Secret, l.Row.ID, stepID, callID)
}
