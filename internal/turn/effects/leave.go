package effects

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// leaveTime bounds how long a process that is shutting down takes to store what an effect has just come to.
const leaveTime = 5 * time.Second

// ofModels returns the part of a bill that models were paid for, as that of discarded calls.
func ofModels(l *session.Live, sum step.Bill) step.Bill {
	models := sum.Models()
	if total := l.Row.Usage.Add(models.Usage); total.Validate() != nil {
		return step.Bill{}
	}
	return discarded(models)
}

// Leave stages what models were paid for work of a run that is lost with this process, so that the next lease holder
// counts it with the step that repeats the work. It writes nothing if there is none, or if a host drives the run, whose
// effects have staged it. If the step was committed after all, the fact is ignored: it names the step.
func (fx *Effects) Leave(ctx context.Context, at turn.Position) error {
	l, _, err := fx.hold(at)
	if err != nil || l.Shared() {
		return nil // nothing is here
	}
	return fx.stageSpent(ctx, l, step.ID(l.Run.ID, l.Row.Step+1), l.Unrecorded())
}

// stageSpent stages what models were paid, according to a usage, for work of this attempt that a step repeats.
func (fx *Effects) stageSpent(ctx context.Context, l *session.Live, stepID string, sum step.Bill) error {
	lost := ofModels(l, sum)
	if !session.Paid(lost.Usage) {
		return nil
	}
	by := l.Emit.Attempt()
	piece, err := step.Encode(stepID, 0, by, &step.Spent{By: by, Usage: lost})
	if err != nil {
		return err
	}
	return fx.Store.Stage(ctx, l.Row.ID, l.Row.Lease.Token, piece)
}

// leaveCall records the usage of a model call that was cut because its effect was. A process that drives the run by
// itself stages it when it releases the run. An effect of a host's stages it at once, for the next attempt.
func (fx *Effects) leaveCall(ctx context.Context, l *session.Live, used step.Bill) {
	if !l.Shared() {
		l.Loses(used)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := fx.stageSpent(ctx, l, l.Step.ID, used); err != nil {
		fx.Logger.Warn("usage of a repeated model call not stored", "session", l.Row.ID, "run", l.Run.ID, "error", err)
	}
}
