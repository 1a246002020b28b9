package sqlitestore

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlInsertLog = `INSERT INTO logs (name, first, last, sweep_at) VALUES (?1, 1, ?2, ?3)`
	sqlSetLast   = `UPDATE logs SET last = ?2 WHERE key = ?1`

	// The first append since a sweep writes the index logs_sweep; those after it do not.
	sqlSetLastDue = `UPDATE logs SET last = ?2, sweep_at = ?3 WHERE key = ?1`
)

// appending adds events to a log: those of an append, or of a commit within its transaction.
type appending struct {
	log    string
	expect int64
	writer *driver.Writer
	events []cairn.Event

	// grown is the log's last batch with the events added, if that batch is known and small. Otherwise, or if it turns
	// out not to be the last batch, the events are stored as batches of their own.
	grown   *tailBatch
	batches []*backend.Events

	// The outcome.
	last  int64
	added bool
	tail  *tailBatch // the log's last batch
}

// encode encodes the events, for an append before other writers have to wait.
func (a *appending) encode(t *tailBatch) (err error) {
	if t != nil {
		a.grown, err = t.grow(a.events)
	}
	if a.grown == nil && err == nil {
		a.batches, err = encodeBatches(a.events)
	}
	return err
}

// run adds the events of an append. It adds nothing if the log already has the writer's batch.
func (a *appending) run(c *conn) error {
	a.added, a.tail = false, nil
	at, err := findPlace(c, a.log, a.writer)
	switch w := a.writer; {
	case err != nil:
		return err
	case w != nil && w.Token < at.token:
		return driver.Fenced(a.log, *w, at.token)
	case w != nil && w.Token == at.token && w.Batch > 0 && w.Batch <= at.batch:
		a.last = at.ended
		return nil
	case a.expect >= 0 && a.expect != at.last:
		return driver.LogChanged(a.log, a.expect, at.last)
	}
	if err := a.fits(&at); err != nil {
		return err
	}
	return a.add(c, &at)
}

// fits reports whether the log has numbers for the events.
func (a *appending) fits(at *place) error {
	_, err := placeOf(at.key, at.last+int64(len(a.events)))
	return err
}

// add adds the events to the log at its end, and creates the log if necessary.
func (a *appending) add(c *conn, at *place) (err error) {
	a.last, a.added = at.last+int64(len(a.events)), true
	now := micros(stored(c.clock()))
	switch {
	case at.key == 0:
		at.key, err = c.insert(sqlInsertLog, a.log, a.last, now)
	case len(a.events) == 0:
	case now < at.sweep:
		_, err = c.exec(sqlSetLastDue, at.key, a.last, now)
	default:
		_, err = c.exec(sqlSetLast, at.key, a.last)
	}
	if err == nil && a.writer != nil {
		err = at.note(c, a.writer, a.last)
	}
	if err == nil && len(a.events) > 0 {
		err = a.write(c, at)
	}
	return err
}

// write stores the events, in the log's last batch or in batches of their own.
func (a *appending) write(c *conn, at *place) error {
	if a.grown != nil && a.grown.endsAt(at.key, a.last) {
		place, err := placeOf(at.key, a.grown.first)
		if err != nil {
			return err
		}
		if n, err := c.exec(sqlGrowBatch, place, a.grown.batch.Bytes()); n > 0 || err != nil {
			a.tail = a.grown
			return err
		}
	}
	if a.batches == nil {
		var err error
		if a.batches, err = encodeBatches(a.events); err != nil {
			return err
		}
	}
	first, err := insertBatches(c, at.key, at.last+1, a.batches)
	a.tail = &tailBatch{at.key, first, a.batches[len(a.batches)-1]}
	return err
}

// publish hands this process's followers what an append or a commit has added, once that is committed.
func (l *Log) publish(a *appending) {
	if !a.added {
		l.s.hub.Wake(a.log)
		return
	}
	if len(a.events) > 0 {
		l.tails.put(a.log, a.tail)
	}
	l.s.hub.Append(a.log, a.last, a.events)
}
