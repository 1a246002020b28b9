package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const (
	sqlInsertLog = `INSERT INTO logs (name, first, last, sweep_at) VALUES (?1, 1, ?2, ?3) RETURNING key`
	sqlSetLast   = `UPDATE logs SET last = ?2 WHERE key = ?1`

	// The first append since a sweep writes the index logs_sweep; those after it do not.
	sqlSetLastDue = `UPDATE logs SET last = ?2, sweep_at = ?3 WHERE key = ?1`

	sqlLog = `SELECT key, first, last, dropped_at FROM logs WHERE name = ?1`

	sqlEvents = `
		SELECT e.sequence, e.data
		FROM logs l JOIN events e ON e.log = l.key
		WHERE l.name = ?1 AND e.sequence > ?2
		ORDER BY e.sequence LIMIT ?3`

	sqlTrimEvents = `DELETE FROM events WHERE log = ?1 AND sequence < ?2`
	sqlTrimLog    = `UPDATE logs SET first = ?2 WHERE key = ?1`
	sqlDropEvents = `DELETE FROM events WHERE log = ?1`
	sqlForgetLog  = `DELETE FROM logs WHERE key = ?1`

	sqlUnswept = `
		SELECT sweep_at, name FROM logs
		WHERE dropped_at = 0 AND sweep_at <= ?1 AND (sweep_at, name) > (?2, ?3)
		ORDER BY sweep_at, name LIMIT ?4`
	sqlSwept = `
		UPDATE logs SET sweep_at = CASE last WHEN ?2 THEN ?4 ELSE ?3 END
		WHERE name = ?1 AND dropped_at = 0`

	// What stays of a log that was dropped, and those of which nothing need stay any longer.
	sqlDropLog = `
		INSERT INTO logs (name, first, last, dropped_at) VALUES (?1, 1, 0, ?2)
		ON CONFLICT (name) DO UPDATE SET first = 1, last = 0, dropped_at = excluded.dropped_at`
	sqlForgetDropped = `DELETE FROM logs WHERE dropped_at > 0 AND dropped_at <= ?1`
)

// sqlInsertEvents insert one event, two, …: ?3 and those after it have the sequences from ?2 on.
var sqlInsertEvents = func() (texts [16]string) {
	text := "INSERT INTO events (log, sequence, data) VALUES (?1, ?2, ?3)"
	for i := range texts {
		texts[i] = text
		text += fmt.Sprintf(", (?1, ?2 + %d, ?%d)", i+1, i+4)
	}
	return texts
}()

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
	return l.append(ctx, log, expect, nil, events)
}

// AppendFenced implements store.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w store.Writer, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		w.Batch = 0
	}
	return l.append(ctx, log, expect, &w, events)
}

// append adds events as one transaction and tells this process's followers. Without a writer it is not fenced.
func (l *Log) append(ctx context.Context, log string, expect int64, w *store.Writer, events []cairn.Event) (last int64, err error) {
	data := make([]any, len(events))
	for i := range events {
		ev := events[i]
		ev.Sequence = 0
		raw, err := store.EncodeEvent(&ev, l.s.opts.MaxEvent)
		if err != nil {
			return 0, err
		}
		data[i] = string(raw)
	}
	var added bool
	err = l.s.writer.do(&job{
		ctx: ctx,
		run: func(c *conn) (err error) {
			last, added, err = add(c, log, expect, w, data)
			return err
		},
		after: func() {
			if added {
				l.publish(log, last, events)
			} else {
				l.s.hub.Wake(log)
			}
		},
	})
	if err != nil {
		return 0, fault("append events", err)
	}
	return last, nil
}

// add adds events to a log, which it makes if there is none, unless it is the batch of a writer that is there already.
func add(c *conn, log string, expect int64, w *store.Writer, data []any) (last int64, added bool, err error) {
	at, err := findPlace(c, log, w)
	switch {
	case err != nil:
		return 0, false, err
	case w != nil && w.Token < at.token:
		return 0, false, store.Fenced(log, *w, at.token)
	case w != nil && w.Token == at.token && w.Batch > 0 && w.Batch <= at.batch:
		return at.ended, false, nil
	case expect >= 0 && expect != at.last:
		return 0, false, changed(log, expect, at.last)
	}
	last = at.last + int64(len(data))
	now := micros(stored(c.clock()))
	switch {
	case at.key == 0:
		c.wrote = true
		_, err = c.row(sqlInsertLog, func(cols *columns) { at.key = cols.int64() }, log, last, now)
	case len(data) == 0:
	case now < at.sweep:
		_, err = c.exec(sqlSetLastDue, at.key, last, now)
	default:
		_, err = c.exec(sqlSetLast, at.key, last)
	}
	if err == nil && w != nil {
		err = at.note(c, w, last)
	}
	if err == nil {
		err = insertEvents(c, at.key, at.last+1, data)
	}
	return last, true, err
}

// insertEvents stores events with the sequences from first on.
func insertEvents(c *conn, log, first int64, data []any) error {
	args := make([]any, 2, 2+len(sqlInsertEvents))
	for len(data) > 0 {
		n := min(len(data), len(sqlInsertEvents))
		args = append(append(args[:0], log, first), data[:n]...)
		if _, err := c.exec(sqlInsertEvents[n-1], args...); err != nil {
			return err
		}
		data, first = data[n:], first+int64(n)
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

// findLog returns a log's key and bounds; a log that does not exist has the key 0 and is empty. The error is ErrDeleted for
// one that was dropped.
func findLog(c *conn, log string) (key, first, last int64, err error) {
	first = 1
	var dropped int64
	_, err = c.row(sqlLog, func(cols *columns) {
		key, first, last, dropped = cols.int64(), cols.int64(), cols.int64(), cols.int64()
	}, log)
	if err == nil && dropped > 0 {
		err = store.Dropped(log)
	}
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
			if errors.Is(err, cairn.ErrDeleted) {
				more = false
				return nil
			}
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

// Unswept implements store.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q store.PageQuery) (store.Page[string], error) {
	var page store.Page[string]
	at, name, err := store.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = l.s.readers.read(ctx, func(c *conn) error {
		return c.query(ctx, sqlUnswept, func(cols *columns) bool {
			if len(page.Items) == q.Size() {
				page.Next = store.SweepCursor(at, name)
				return false
			}
			at, name = cols.time(), cols.text()
			page.Items = append(page.Items, name)
			return true
		}, micros(l.s.clock().Add(-age)), micros(at), name, q.Size()+1)
	})
	if err != nil {
		return store.Page[string]{}, err
	}
	return page, nil
}

// Swept implements store.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	return fault("note the sweep of an event log", l.s.writer.write(ctx, false, func(c *conn) error {
		now := l.s.clock()
		_, err := c.exec(sqlSwept, log, last, micros(now), micros(now.Add(next)))
		return err
	}))
}

// Drop implements store.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	err := l.s.writer.do(&job{
		ctx: ctx,
		run: func(c *conn) error {
			key, _, _, err := findLog(c, log)
			switch {
			case errors.Is(err, cairn.ErrDeleted):
				return nil
			case err != nil:
				return err
			}
			if _, err := c.exec(sqlDropEvents, key); err != nil {
				return err
			}
			if err := dropFences(c, key); err != nil {
				return err
			}
			now := l.s.clock()
			if _, err := c.exec(sqlForgetDropped, micros(now.Add(-store.DroppedFor))); err != nil {
				return err
			}
			_, err = c.exec(sqlDropLog, log, micros(now))
			return err
		},
		after: func() { l.s.hub.Drop(log) },
	})
	return fault("drop the event log", err)
}
