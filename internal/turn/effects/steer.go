package effects

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store"
)

// joined are queued messages that join the run under way, with the turns that they would have begun.
type joined struct {
	turns    []string
	messages []cairn.Message
}

// joining returns what joins the run with the step's commit, which takes it out of the queue: nothing if the run ends with
// the step. A row in memory may not know of the queue; then the commit is stale, and it is asked again.
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

// steers reports whether messages are queued that are to join the run. Another process may have put them there, of which a
// run that defers its commits would miss.
func (fx *Effects) steers(ctx context.Context, l *session.Live) bool {
	if l.Row.ParentID != "" {
		return false
	}
	queue, err := store.Queue(ctx, fx.Store, l.Row.ID)
	return err == nil && slices.ContainsFunc(queue, func(t store.QueuedTurn) bool { return t.Steer })
}
