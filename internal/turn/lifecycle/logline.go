package lifecycle

import (
	"context"
	"log/slog"

	"github.com/cairn-agents/cairn"
)

// The messages of log lines that operators search for. They do not change. docs/GUIDE.md lists them with their levels.
const (
	LineCallSuspended = "call.suspended"
	LineCallSubmitted = "call.submitted"
	LineCallDenied    = "call.denied"
	LineCallTimeout   = "call.timeout"
	LineRunResumed    = "run.resumed"
	LineRunFailed     = "run.failed"
	LineRunAborted    = "run.aborted"
	LineStartFailed   = "subagent.start_failed"
)

// LogCall writes a line about a pending call.
func LogCall(log *slog.Logger, level slog.Level, line string, c *cairn.PendingCall, more ...any) {
	if !log.Enabled(context.Background(), level) {
		return
	}
	attrs := []any{"session", c.SessionID, "root", c.RootID, "run", c.RunID, "agent", c.Agent, "call", c.ID, "tool", c.Tool, "kind", c.Kind}
	log.Log(context.Background(), level, line, append(attrs, more...)...)
}

// LogEnd writes the lines about a run that has ended: the calls that it waits for, or why it failed, in the words of the
// provider or program that is at fault. The failure of a sub-agent is a warning, since its parent continues.
func (r *Runs) LogEnd(row *cairn.Session, run *cairn.Run, opened []cairn.PendingCall) {
	for i := range opened {
		LogCall(r.Logger, slog.LevelInfo, LineCallSuspended, &opened[i], "deadline", opened[i].Deadline)
	}
	if run.Status != cairn.RunFailed {
		return
	}
	line, level := LineRunFailed, slog.LevelError
	switch {
	case run.Reason == cairn.ReasonAborted:
		line, level = LineRunAborted, slog.LevelInfo
	case row.ParentID != "":
		level = slog.LevelWarn
	}
	attrs := []any{"session", row.ID, "root", row.RootID, "run", run.ID, "agent", row.Agent}
	if e := run.Error; e != nil {
		attrs = append(attrs, "code", e.Code, "error", e)
		if len(e.Details) > 0 {
			attrs = append(attrs, "details", e.Details)
		}
	}
	r.Logger.Log(context.Background(), level, line, attrs...)
}
