package effects

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// joined are queued messages that join the run under way, the entries of the queue that hold them, and the turns among
// those, which will not begin.
type joined struct {
	entries, turns []string
	messages       []cairn.Message
}

// joining returns the messages that join the run with the step's commit, which removes them from the queue: added
// context and, unless the run ends with the step, messages that steer it. If the row in memory misses entries of the
// queue, the commit is stale, and joining is called again.
func (fx *Effects) joining(ctx context.Context, l *session.Live, out *session.Outcome) (j joined, err error) {
	if l.Row.Queued == 0 {
		return j, nil
	}
	var queue []driver.QueuedTurn
	err = fx.persist(ctx, func() (err error) { queue, err = driver.Queue(ctx, fx.Store, l.Row.ID); return err })
	for _, t := range queue {
		switch {
		case t.Context:
		case t.Steer && out.End == nil:
			j.turns = append(j.turns, t.ID)
		default:
			continue
		}
		j.entries = append(j.entries, t.ID)
		for _, m := range t.Messages {
			m.RunID = l.Run.ID
			m.EndsTurn = out.End != nil && out.End.Status == cairn.RunCompleted
			j.messages = append(j.messages, m)
		}
	}
	return j, err
}

// joins reports whether queued messages are to join the run. It reads the queue, because a run that defers its commits
// would not notice what another process queued.
func (fx *Effects) joins(ctx context.Context, l *session.Live) bool {
	queue, err := driver.Queue(ctx, fx.Store, l.Row.ID)
	return err == nil && slices.ContainsFunc(queue, func(t driver.QueuedTurn) bool { return t.Steer || t.Context })
}
