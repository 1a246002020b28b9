package pgstore

import (
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// By the key of queue.
const sqlQueue = `
	SELECT q.id, q.data
	FROM {schema}.sessions s JOIN {schema}.queue q ON q.session = s.key
	WHERE s.id = $1
	ORDER BY q.number`

func readTurn(rows pgx.Rows) (turn driver.QueuedTurn, err error) {
	err = readJSON(rows, "queued turn", &turn, &turn.ID)
	return turn, err
}
