// Package loop is the agent loop for hosts. A host drives a run with [Drive], and carries out the run's effects with
// the [host.Engine] that engine.Engine.ForHost returns.
package loop

import (
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Drive drives a run from its last committed step until the run ends or is suspended, and returns the run's status. It
// only orders effects, so it may be replayed. If another process has taken the run over, which an effect reports with
// ErrFenced, it returns an empty status and no error: there is nothing left to do. Any other error is the scheduler's;
// earlier commits stay.
func Drive(s host.Scheduler, b host.Run) (cairn.RunStatus, error) {
	end, err := turn.Loop(s, b)
	if errors.Is(err, cairn.ErrFenced) {
		return "", nil
	}
	return end.Status, err
}

// Instead returns the effect that a host carries out in place of one that has used up its attempts. It records why as
// the outcome of the model call, or of the call of a tool or a sub-agent. Other effects have no substitute: a host that
// cannot carry them out releases the run, see [host.Engine.ReleaseRun].
func Instead(e host.Effect, why *cairn.Error) (instead host.Effect, ok bool) {
	return turn.Instead(e, why)
}
