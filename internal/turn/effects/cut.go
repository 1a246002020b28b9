package effects

import (
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// maxCut is how many replies in a row may be cut before they have a complete call. The model reads why each time.
const maxCut = 3

// cutShort returns the error of a call whose arguments were cut; nil if they are complete.
func cutShort(l *session.Live, a *cairn.Agent, c *step.Call) error {
	if c.Cut == "" {
		return nil
	}
	return cairn.Errorf(cairn.ErrOutputLimit, "not executed: the arguments were truncated by %s; "+
		"write less in one call, for example in several smaller calls", cutBy(l, a, c.Cut))
}

// cutBy names what has cut the reply of the step under way.
func cutBy(l *session.Live, a *cairn.Agent, reason cairn.FinishReason) string {
	n := int64(a.Settings.MaxOutputTokens)
	if n == 0 && !l.Step.Carried { // a limit of the provider, which the reply has filled
		n = l.Step.Reply.Usage.OutputTokens
	}
	switch {
	case reason == cairn.FinishReasonWindow:
		return "the end of the model's context window"
	case n > 0:
		return fmt.Sprintf("the output limit of %d tokens", n)
	}
	return "the output limit"
}

// tooOftenCut returns the error that ends a run whose last replies were all cut before they got anywhere; nil if there
// were fewer than maxCut.
func tooOftenCut(l *session.Live, a *cairn.Agent, st *step.Step) *cairn.Error {
	m := st.Message()
	if m == nil || !idle(a, m) {
		return nil
	}
	n := 1 + transcript.RepliesWhile(l.Transcript(), l.Run.ID, func(m *cairn.Message) bool { return idle(a, m) })
	if n < maxCut {
		return nil
	}
	remedy := "raise Settings.MaxOutputTokens, or ask for less at a time"
	if m.Cut == cairn.FinishReasonWindow {
		remedy = "use a model with a larger window, or Agent.Compaction"
	}
	return cairn.Errorf(cairn.ErrOutputLimit, "agent %q: %d replies in a row were truncated by %s before a tool call was complete; %s", a.Name, n, cutBy(l, a, m.Cut), remedy)
}

// idle reports whether a reply was cut before it had a complete call, and does not end the turn.
func idle(a *cairn.Agent, m *cairn.Message) bool {
	if m.Cut == "" {
		return false
	}
	uses := m.ToolUses()
	for _, use := range uses {
		if !step.IsCut(m, use) {
			return false
		}
	}
	return len(uses) > 0 || a.Output != nil
}
