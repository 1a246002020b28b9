package sqlitestore

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const (
	// Gives out ?2 sequences if the log's last one is ?3, or whatever it is if ?3 is negative.
	sqlAdvanceLog = `
		UPDATE logs SET last = last + ?2
		WHERE name = ?1 AND (?3 < 0 OR last = ?3)
		RETURNING key, last`

	sqlInsertLog = `INSERT INTO logs (name, first, last) VALUES (?1, 1, ?2) RETURNING key, last`

	sqlLog = `SELECT key, first, last FROM logs WHERE name = ?1`

	sqlInsertEvent = `INSERT INTO events (log, sequence, data) VALUES (?1, ?2, ?3)`

	sqlEvents = `
		SELECT e.sequence, e.data
		FROM logs l JOIN events e ON e.log = l.key
		WHERE l.name = ?1 AND e.sequence > ?2
		ORDER BY e.sequence LIMIT ?3`

	sqlFence = `
		SELECT f.token
		FROM logs l JOIN fences f ON f.log = l.key
		WHERE l.name = ?1 AND f.session = ?2`

	sqlRaiseFence = `
		INSERT INTO fences (log, session, token) VALUES (?1, ?2, ?3)
		ON CONFLICT (log, session) DO UPDATE SET token = excluded.token`

	sqlDropFences = `DELETE FROM fences WHERE log = ?1`

	sqlTrimEvents = `DELETE FROM events WHERE log = ?1 AND sequence < ?2`
	sqlTrimLog    = `UPDATE logs SET first = ?2 WHERE key = ?1`
	sqlDropEvents = `DELETE FROM events WHERE log = ?1`
	sqlDropLog    = `DELETE FROM logs WHERE key = ?1`
)

// trimBatch is how many events are removed at once, so that trimming a long log does not keep writers waiting.
const trimBatch = 1000

// Log is the event log of a Store. It is safe for concurrent use.
type Log struct{ s *Store }

// MaxEvent implements store.Log.
func (l *Log) MaxEvent() int { return l.s.opts.MaxEvent }

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		return l.checkLast(ctx, log, expect)
	}
	return l.append(ctx, log, events, func(c *conn, data []string) (int64, error) {
		key, last, err := advance(c, log, expect, len(data))
		if err != nil {
			return 0, err
		}
		return last, insertEvents(c, key, last, data)
	})
}

// AppendFenced implements store.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, session string, token int64, events ...cairn.Event) (last int64, err error) {
	return l.append(ctx, log, events, func(c *conn, data []string) (int64, error) {
		seen := int64(0)
		if _, err := c.row(sqlFence, func(cols *columns) { seen = cols.int64() }, log, session); err != nil {
			return 0, err
		}
		if token < seen {
			return 0, store.Fenced(log, session, token, seen)
		}
		key, last, err := advance(c, log, expect, len(data))
		if err != nil {
			return 0, err
		}
		if token > seen {
			if _, err := c.exec(sqlRaiseFence, key, session, token); err != nil {
				return 0, err
			}
		}
		return last, insertEvents(c, key, last, data)
	})
}

// append runs an append as one transaction and tells this process's followers.
func (l *Log) append(ctx context.Context, log string, events []cairn.Event, do func(*conn, []string) (int64, error)) (last int64, err error) {
	data := make([]string, len(events))
	for i := range events {
		ev := events[i]
		ev.Sequence = 0
		raw, err := store.EncodeEvent(&ev, l.s.opts.MaxEvent)
		if err != nil {
			return 0, err
		}
		data[i] = string(raw)
	}
	err = l.s.writer.do(&job{
		ctx: ctx,
		run: func(c *conn) (err error) {
			last, err = do(c, data)
			return err
		},
		after: func() { l.publish(log, last, events) },
	})
	if err != nil {
		return 0, fault("append events", err)
	}
	return last, nil
}

// advance gives out n sequences of a log, which it makes if there is none, and returns the last of them.
func advance(c *conn, log string, expect int64, n int) (key, last int64, err error) {
	read := func(cols *columns) { key, last = cols.int64(), cols.int64() }
	found, err := c.row(sqlAdvanceLog, read, log, n, expect)
	if err != nil {
		return 0, 0, err
	}
	if !found {
		there, _, now, err := findLog(c, log)
		if err != nil {
			return 0, 0, err
		}
		if there != 0 || expect > 0 {
			return 0, 0, changed(log, expect, now)
		}
		if _, err := c.row(sqlInsertLog, read, log, n); err != nil {
			return 0, 0, err
		}
	}
	c.wrote = true
	return key, last, nil
}

func insertEvents(c *conn, key, last int64, data []string) error {
	first := last - int64(len(data)) + 1
	for i, text := range data {
		if _, err := c.exec(sqlInsertEvent, key, first+int64(i), text); err != nil {
			return err
		}
	}
	return nil
}

func changed(log string, expect, last int64) error {
	return cairn.Errorf(cairn.CodeStale, "log %q has changed: expected sequence %d, now %d", log, expect, last)
}

// checkLast answers an append of no events.
func (l *Log) checkLast(ctx context.Context, log string, expect int64) (int64, error) {
	_, last, err := l.Bounds(ctx, log)
	if err == nil && expect != store.AnySequence && expect != last {
		return 0, changed(log, expect, last)
	}
	return last, err
}

// publish gives events that were just committed to this process's followers.
func (l *Log) publish(log string, last int64, events []cairn.Event) {
	if len(events) == 0 || !l.s.hub.Following() {
		return
	}
	list := make([]cairn.Event, len(events))
	for i := range events {
		list[i] = events[i]
		list[i].Sequence = last - int64(len(events)) + 1 + int64(i)
	}
	l.s.hub.Publish(log, list)
}

// Read implements store.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) (list []cairn.Event, err error) {
	if limit <= 0 {
		limit = 1000
	}
	after = max(after, 0)
	err = l.s.readers.view(ctx, func(c *conn) error {
		err := c.query(ctx, sqlEvents, func(cols *columns) bool {
			list = append(list, readEvent(cols))
			return true
		}, log, after, limit)
		if err != nil || (len(list) > 0 && list[0].Sequence == after+1) {
			return err
		}
		// There is a gap, or nothing: that is as it should be only at the end of the log.
		_, first, last, err := findLog(c, log)
		if err == nil && after < last && after+1 < first {
			err = store.Trimmed(log, after, first)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func readEvent(c *columns) cairn.Event {
	var ev cairn.Event
	sequence := c.int64()
	c.json("event", &ev)
	ev.Sequence = sequence
	return ev
}

// findLog returns a log's key and bounds; a log that does not exist has the key 0 and is empty.
func findLog(c *conn, log string) (key, first, last int64, err error) {
	first = 1
	_, err = c.row(sqlLog, func(cols *columns) { key, first, last = cols.int64(), cols.int64(), cols.int64() }, log)
	return key, first, last, err
}

// Follow implements store.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		l.s.poller.join()
		defer l.s.poller.leave()
		l.s.hub.Follow(ctx, log, after, l.Read)(yield)
	}
}

// Bounds implements store.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	err = l.s.readers.read(ctx, func(c *conn) (err error) {
		_, first, last, err = findLog(c, log)
		return err
	})
	return first, last, err
}

// Trim implements store.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	for more := true; more; {
		err := l.s.writer.write(ctx, false, func(c *conn) error {
			key, first, last, err := findLog(c, log)
			if err != nil {
				return err
			}
			end := min(before, last+1)
			bound := min(end, first+trimBatch)
			more = bound < end
			if bound <= first {
				return nil
			}
			if _, err := c.exec(sqlTrimEvents, key, bound); err != nil {
				return err
			}
			_, err = c.exec(sqlTrimLog, key, bound)
			return err
		})
		if err != nil {
			return fault("trim the event log", err)
		}
	}
	return nil
}

// Drop implements store.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	err := l.s.writer.do(&job{
		ctx: ctx,
		run: func(c *conn) error {
			key, _, _, err := findLog(c, log)
			if err != nil || key == 0 {
				return err
			}
			if _, err := c.exec(sqlDropEvents, key); err != nil {
				return err
			}
			if _, err := c.exec(sqlDropFences, key); err != nil {
				return err
			}
			_, err = c.exec(sqlDropLog, key)
			return err
		},
		after: func() { l.s.hub.Drop(log) },
	})
	return fault("drop the event log", err)
}
