package sqlitestore

import "github.com/cairn-agents/cairn/store/driver"

const (
	sqlPlace = `
		SELECT l.key, l.last, l.sweep_at, coalesce(f.token, 0), coalesce(b.number, 0), coalesce(b.last, 0), l.dropped_at
		FROM logs l
			LEFT JOIN fences f ON f.log = l.key AND f.session = ?2
			LEFT JOIN batches b ON b.log = l.key AND b.session = ?2 AND b.writer = ?3
		WHERE l.name = ?1`

	sqlRaiseFence = `
		INSERT INTO fences (log, session, token) VALUES (?1, ?2, ?3)
		ON CONFLICT (log, session) DO UPDATE SET token = excluded.token`

	sqlForgetBatches = `DELETE FROM batches WHERE log = ?1 AND session = ?2`

	sqlNoteBatch = `
		INSERT INTO batches (log, session, writer, number, last) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (log, session, writer) DO UPDATE SET number = excluded.number, last = excluded.last`
)

var sqlDropFences = []string{
	`DELETE FROM fences WHERE log = ?1`,
	`DELETE FROM batches WHERE log = ?1`,
}

// place is the position that a writer appends at.
type place struct {
	key, last    int64 // of the log; 0 if there is none
	sweep        int64 // when it becomes due for a sweep
	token        int64 // the highest that the log has seen from the writer's session
	batch, ended int64 // number and last sequence of the writer's last batch under that token
}

// findPlace looks up a log and what it has seen of a writer; nil means that the append is not fenced.
func findPlace(c *conn, log string, w *driver.Writer) (at place, err error) {
	if w == nil {
		w = &driver.Writer{}
	}
	var dropped int64
	_, err = c.row(sqlPlace, func(cols *columns) {
		at = place{cols.int64(), cols.int64(), cols.int64(), cols.int64(), cols.int64(), cols.int64()}
		dropped = cols.int64()
	}, log, w.Session, w.ID)
	if err == nil && dropped > 0 {
		err = driver.Dropped(log)
	}
	return at, err
}

// note records the writer's token and batch, for an append that ended at the sequence last, if they are new.
func (at *place) note(c *conn, w *driver.Writer, last int64) error {
	if w.Token > at.token {
		if _, err := c.exec(sqlRaiseFence, at.key, w.Session, w.Token); err != nil {
			return err
		}
		if _, err := c.exec(sqlForgetBatches, at.key, w.Session); err != nil {
			return err
		}
	}
	if w.Batch == 0 {
		return nil
	}
	_, err := c.exec(sqlNoteBatch, at.key, w.Session, w.ID, w.Batch, last)
	return err
}

// dropFences deletes what a log has seen of its writers.
func dropFences(c *conn, log int64) error {
	for _, text := range sqlDropFences {
		if _, err := c.exec(text, log); err != nil {
			return err
		}
	}
	return nil
}
