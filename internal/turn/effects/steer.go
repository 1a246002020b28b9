package effects

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store"
)

// joined are queued messages that join the run under way, and the queued turns that they would have begun.
type joined struct {
	turns    []string
	messages []cairn.Message
}

// joining returns the messages that join the run with the step's commit, which removes them from the queue; none if the
// run ends with the step. If the row in memory misses queued turns, the commit is stale, and joining is called again.
func (fx *Effects) joining(ctx context.Context, l *session.Live, out *session.Outcome) (j joined, err error) {
	if out.End != nil || l.Row.Queued == 0 {
		return j, nil
	}
	var queue []store.QueuedTurn
	err = fx.persist(ctx, func() (err error) { queue, err = store.Queue(ctx, fx.Store, l.Row.ID); return err })
	for _, t := range queue {
		if !t.Steer {
			continue
		}
		j.turns = append(j.turns, t.ID)
		for _, m := range t.Messages {
			m.RunID = l.Run.ID
			j.messages = append(j.messages, m)
		}
	}
	return j, err
}

// steers reports whether queued messages are to join the run. It reads the queue, because a run that defers its commits
// would not notice what another process queued.
func (fx *Effects) steers(ctx context.Context, l *session.Live) bool {
	if l.Row.ParentID != "" {
		return false
	}
	queue, err := store.Queue(ctx, fx.Store, l.Row.ID)
	return err == nil && slices.ContainsFunc(queue, func(t store.QueuedTurn) bool { return t.Steer })
}
