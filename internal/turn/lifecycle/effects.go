package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// LeftEffects adds to a commit that ends the run of a dead process the rows of the effects that its step in progress
// has sent, from the staged pieces of that step. It returns the events about them.
func LeftEffects(c *driver.Commit, staged []driver.Staged, row *cairn.Session, why string) ([]cairn.Event, error) {
	facts, err := step.Decode(staged, step.ID(row.RunID, row.Step+1), row.Lease.Token)
	if err != nil {
		return nil, err
	}
	return CloseEffects(c, step.EffectsIn(facts), row, why), nil
}

// CloseEffects adds to a commit that ends a run without its step in progress the rows that the step's calls have in the
// ledger of effects. It returns the events about them. Those without an outcome remain unknown, because of why. The
// transcript lacks these calls: hidden messages describe them, so that the model of the next turn does not repeat them.
func CloseEffects(c *driver.Commit, rows []cairn.PendingCall, row *cairn.Session, why string) (events []cairn.Event) {
	for _, call := range rows {
		final := inbox.Conclude(call, call.Effect.State, why, row.AsOf)
		w := driver.CallWrite{Call: final, Seen: call.Version}
		// The commit may close the row of an earlier attempt already.
		if i := slices.IndexFunc(c.Calls, func(o driver.CallWrite) bool { return o.Call.ID == call.ID }); i >= 0 {
			w.Seen = c.Calls[i].Seen
			c.Calls[i] = w
		} else {
			c.Calls = append(c.Calls, w)
			if m := leftEffect(&final, row); m != nil {
				c.Messages = append(c.Messages, *m)
			}
		}
		events = append(events, journal.EffectEnded(row.Step+1, &final))
	}
	return events
}

// leftEffect returns the message about a call that the transcript lacks; nil for one that did not take effect.
func leftEffect(call *cairn.PendingCall, row *cairn.Session) *cairn.Message {
	outcome := inbox.EffectText
	switch call.Effect.State {
	case cairn.EffectConfirmed:
		outcome = "the call took effect"
	case cairn.EffectFailed:
		return nil
	}
	input := string(call.Input)
	if len(input) > maxLeftInput {
		input = strings.ToValidUTF8(input[:maxLeftInput], "") + "…"
	}
	m := cairn.Context(fmt.Sprintf("The previous run ended during a call of %s with the input %s: %s.", call.Tool, input, outcome))
	m.ID, m.RunID = ids.Derive("left", row.Secret, call.ID), row.RunID
	return &m
}

// maxLeftInput is how many bytes of a call's input a message about the call repeats.
const maxLeftInput = 2000

// closedEffect returns the result of an effectful call whose wait ends because of why, and its row.
func closedEffect(row *cairn.PendingCall, use *cairn.ToolUse, why string, now time.Time) (*cairn.ToolResult, cairn.PendingCall) {
	if row.Status == cairn.CallAnswered {
		if result, state := inbox.Settled(row); result != nil {
			return result, inbox.Conclude(*row, state, why, now)
		}
	}
	return transcript.Failed(use, cairn.ErrEffectUnknown, inbox.EffectText), inbox.Conclude(*row, "", why, now)
}
