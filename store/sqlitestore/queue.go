package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlQueue = `SELECT id, data FROM queue WHERE ` + ofOwner + ` ORDER BY place`

	sqlQueued = `SELECT id FROM queue WHERE session = ?1`

	sqlEnqueue = `
		INSERT INTO queue (place, session, id, data)
		VALUES (1 + coalesce((SELECT max(place) FROM queue WHERE ` + ofOwner + `), ?1 << 31), ?1, ?2, ?3)`

	sqlDequeue = `DELETE FROM queue WHERE session = ?1 AND id = ?2`
)

// readQueue returns the queued turns.
func readQueue(ctx context.Context, c *conn, key int64) (list []driver.QueuedTurn, err error) {
	err = c.query(ctx, sqlQueue, func(cols *columns) bool {
		list = append(list, readTurn(cols))
		return true
	}, key)
	return list, err
}

func readTurn(cols *columns) driver.QueuedTurn {
	turn := driver.QueuedTurn{ID: cols.text()}
	cols.json("queued turn", &turn)
	return turn
}
