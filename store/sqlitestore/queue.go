package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const (
	sqlQueue = `SELECT id, data FROM queue WHERE session = ?1 ORDER BY number`

	sqlQueued = `SELECT EXISTS (SELECT 1 FROM queue WHERE session = ?1 AND id = ?2)`

	sqlEnqueue = `
		INSERT INTO queue (session, number, id, data)
		VALUES (?1, 1 + coalesce((SELECT max(number) FROM queue WHERE session = ?1), 0), ?2, ?3)`

	sqlDequeue = `DELETE FROM queue WHERE session = ?1 AND id = ?2`
)

// checkQueue returns whether the commit's turn is new to the queue and how many more turns the queue has after the commit,
// or the conflict of a turn to remove that is not there.
func (w *write) checkQueue(c *conn, before *record) (enqueue bool, more int, err error) {
	queued := func(id string) (yes bool) {
		if err == nil {
			_, err = c.row(sqlQueued, func(cols *columns) { yes = cols.int64() != 0 }, before.key, id)
		}
		return yes
	}
	if turn := w.c.Enqueue; turn != nil && !queued(turn.ID) {
		enqueue, more = true, 1
	}
	if id := w.c.Dequeue; id != "" {
		if !queued(id) && !(enqueue && id == w.c.Enqueue.ID) && err == nil {
			err = store.Conflict(cairn.CodeStale, before.session, "session %q has no queued turn %q", w.id, id)
		}
		more--
	}
	return enqueue, more, err
}

// readQueue returns the turns that are to follow.
func readQueue(ctx context.Context, c *conn, key int64) (list []store.QueuedTurn, err error) {
	err = c.query(ctx, sqlQueue, func(cols *columns) bool {
		list = append(list, readTurn(cols))
		return true
	}, key)
	return list, err
}

func readTurn(cols *columns) store.QueuedTurn {
	turn := store.QueuedTurn{ID: cols.text()}
	cols.json("queued turn", &turn.Messages)
	return turn
}
