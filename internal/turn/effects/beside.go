package effects

import (
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// premature returns the result of a call that may not end the turn yet, since another call of its reply ended in an
// error, which the model has not read; nil if there is none. The calls that may end a turn run last, so the results of
// the others are known.
func premature(l *session.Live, c *step.Call) *cairn.ToolResult {
	failed := failedBeside(l, c)
	if failed == nil {
		return nil
	}
	return transcript.NotExecuted(c.Use, fmt.Sprintf("not executed: the call of %s in the same reply ended in an error; read its result, then call %s again",
		failed.Tool, c.Use.Tool))
}

// reopened returns the fact that a call which ended the turn does not end it, because another call of its reply has
// become an error since.
func reopened(l *session.Live, c *step.Call) *step.Result {
	f := *c.Result
	f.Completion, f.Failed = nil, nil
	if c.Use.Tool == cairn.FinishTool {
		f.Result = premature(l, c)
	}
	return &f
}

// failedBeside returns the first result of another call of c's reply that is an error, or nil. In a continued step the
// transcript has those of the runs before.
func failedBeside(l *session.Live, c *step.Call) *cairn.ToolResult {
	if l.Step.Carried {
		for _, r := range transcript.Answered(l.Messages) {
			if r.IsError {
				return r
			}
		}
	}
	for _, other := range l.Step.Order() {
		if other != c && other.Result != nil && !other.Result.Closed && other.Result.Result.IsError {
			return other.Result.Result
		}
	}
	return nil
}
