package pgstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

const (
	// By the key of queue.
	sqlQueue = `
		SELECT q.id, q.data
		FROM {schema}.sessions s JOIN {schema}.queue q ON q.session = s.key
		WHERE s.id = $1
		ORDER BY q.number`

	// By queue_id.
	sqlQueued = `
		SELECT EXISTS (SELECT FROM {schema}.queue WHERE session = $1 AND id = $2),
			EXISTS (SELECT FROM {schema}.queue WHERE session = $1 AND id = $3)`
)

// checkQueue returns whether the commit's turn is new to the queue and whether a turn leaves it, or the conflict of a turn
// to remove that is not there.
func (w *write) checkQueue(ctx context.Context, c *conn, r *record) (enqueue, dequeue bool, err error) {
	var enqueued string
	if w.c.Enqueue != nil {
		enqueued = w.c.Enqueue.ID
	}
	dequeued := w.c.Dequeue
	if w.c.Enqueue == nil && dequeued == "" {
		return false, false, nil
	}
	var there, leaves bool
	if _, err := c.row(ctx, sqlQueued, []any{&there, &leaves}, r.key, enqueued, dequeued); err != nil {
		return false, false, err
	}
	enqueue = w.c.Enqueue != nil && !there
	if dequeued == "" || leaves {
		return enqueue, leaves, nil
	}
	if enqueue && dequeued == enqueued {
		return false, false, nil // it comes and goes
	}
	return false, false, notQueued(r.session, dequeued)
}

// queueShape returns what the statement of the commit does to the queue, and counts it.
func (w *write) queueShape(enqueue, dequeue bool) (s shape) {
	w.more = 0
	if enqueue {
		s |= withEnqueue
		w.more++
	}
	if dequeue {
		s |= withDequeue
		w.more--
	}
	if w.more != 0 {
		s |= withQueued
	}
	return s
}

func notQueued(row *cairn.Session, turn string) error {
	return store.Conflict(cairn.CodeStale, row, "session %q has no queued turn %q", row.ID, turn)
}

func readTurn(rows pgx.Rows) (turn store.QueuedTurn, err error) {
	err = readJSON(rows, "queued turn", &turn.Messages, &turn.ID)
	return turn, err
}
