package sqlitestore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlLog = `SELECT key, first, last, dropped_at FROM logs WHERE name = ?1`

	// The batches from the one that has the first event after ?2, each with the sequence of the log's first event.
	sqlEvents = `
		SELECT l.first, (e.place & 0x7fffffff), e.data
		FROM logs l JOIN events e ON e.place >= coalesce(
				(SELECT max(b.place) FROM events b
				WHERE b.place >= l.key << 31 AND b.place <= (l.key << 31) + min(?2 + 1, 0x7fffffff)),
				l.key << 31)
			AND e.place < (l.key + 1) << 31
		WHERE l.name = ?1
		ORDER BY e.place`

	// The batches before the one that has the sequence ?2; all of them if ?2 is after the last sequence, ?3.
	sqlTrimEvents = `
		DELETE FROM events
		WHERE place >= ?1 << 31 AND place < CASE WHEN ?2 > ?3 THEN (?1 << 31) + ?2
			ELSE (SELECT max(place) FROM events WHERE ` + upToNumber + `) END`
	sqlTrimLog    = `UPDATE logs SET first = ?2 WHERE key = ?1`
	sqlDropEvents = `DELETE FROM events WHERE ` + ofOwner
	sqlForgetLog  = `DELETE FROM logs WHERE key = ?1`

	sqlUnswept = `
		SELECT sweep_at, name FROM logs
		WHERE dropped_at = 0 AND sweep_at <= ?1 AND (sweep_at, name) > (?2, ?3)
		ORDER BY sweep_at, name LIMIT ?4`
	sqlSwept = `
		UPDATE logs SET sweep_at = CASE last WHEN ?2 THEN ?4 ELSE ?3 END
		WHERE name = ?1 AND dropped_at = 0`

	// The remnant of a log that was dropped, and the removal of remnants that are no longer needed.
	sqlDropLog = `
		INSERT INTO logs (name, first, last, dropped_at) VALUES (?1, 1, 0, ?2)
		ON CONFLICT (name) DO UPDATE SET first = 1, last = 0, dropped_at = excluded.dropped_at`
	sqlForgetDropped = `DELETE FROM logs WHERE dropped_at > 0 AND dropped_at <= ?1`
)

// trimBatch is how many events are removed at once, so that trimming a long log does not keep writers waiting.
const trimBatch = 1000

// Log is the event log of a Store. It is safe for concurrent use.
type Log struct {
	s     *Store
	tails tails
}

// Self implements driver.Log.
func (l *Log) Self() driver.Log { return l }

// MaxEvent implements driver.Log.
func (l *Log) MaxEvent() int { return l.s.opts.MaxEvent }

// Append implements driver.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		return backend.CheckLast(ctx, l, log, expect)
	}
	return l.append(ctx, log, expect, nil, events)
}

// AppendFenced implements driver.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		w.Batch = 0
	}
	return l.append(ctx, log, expect, &w, events)
}

// append adds events in one transaction and publishes them to this process's followers. Without a writer the append is
// not fenced.
func (l *Log) append(ctx context.Context, log string, expect int64, w *driver.Writer, events []cairn.Event) (int64, error) {
	for i := range events {
		if err := driver.CheckEvent(&events[i], l.s.opts.MaxEvent); err != nil {
			return 0, err
		}
	}
	a := &appending{log: log, expect: expect, writer: w, events: events}
	if err := a.encode(l.tails.get(log)); err != nil {
		return 0, err
	}
	err := l.s.writer.do(&job{ctx: ctx, run: a.run, after: func() { l.publish(a) }})
	if err != nil {
		return 0, fault("append events", err)
	}
	return a.last, nil
}

// Read implements driver.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) (list []cairn.Event, err error) {
	if limit <= 0 {
		limit = 1000
	}
	after = max(after, 0)
	err = l.s.readers.view(ctx, func(c *conn) error {
		list = nil
		var trimmed bool
		err := c.query(ctx, sqlEvents, func(cols *columns) bool {
			trimmed = cols.int64() > after+1
			return !trimmed && readBatch(cols, &list, after, limit)
		}, log, after)
		if err != nil || len(list) > 0 {
			return err
		}
		// No events were found, which is right only at the end of the log.
		_, first, last, err := findLog(c, log)
		switch {
		case err != nil || after >= last:
			return err
		case after+1 < first:
			return driver.Trimmed(log, after, first)
		}
		return cairn.Errorf(cairn.ErrCorrupt, "log %q has no event after %d, want events up to %d", log, after, last)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// readBatch appends the events of a batch that follow a sequence. more is false once the list has limit events.
func readBatch(c *columns, list *[]cairn.Event, after int64, limit int) (more bool) {
	first, data := c.int64(), c.bytes()
	if c.err != nil {
		return false
	}
	last := after
	if n := len(*list); n > 0 {
		last = (*list)[n-1].Sequence
	}
	if first > last+1 {
		c.corrupt("stored events: %d is followed by %d", last, first)
		return false
	}
	*list, c.err = backend.DecodeEvents(*list, data, first, last, limit)
	return c.err == nil && len(*list) < limit
}

// findLog returns a log's key and bounds; a log that does not exist has the key 0 and is empty. The error is ErrDeleted
// for one that was dropped.
func findLog(c *conn, log string) (key, first, last int64, err error) {
	first = 1
	var dropped int64
	_, err = c.row(sqlLog, func(cols *columns) {
		key, first, last, dropped = cols.int64(), cols.int64(), cols.int64(), cols.int64()
	}, log)
	if err == nil && dropped > 0 {
		err = driver.Dropped(log)
	}
	return key, first, last, err
}

// Follow implements driver.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		l.s.poller.join()
		defer l.s.poller.leave()
		l.s.hub.Follow(ctx, log, after, l.Read)(yield)
	}
}

// Bounds implements driver.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	err = l.s.readers.read(ctx, func(c *conn) (err error) {
		_, first, last, err = findLog(c, log)
		return err
	})
	return first, last, err
}

// Trim implements driver.Log.
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
			if _, err := c.exec(sqlTrimEvents, key, bound, last); err != nil {
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

// Unswept implements driver.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[string], error) {
	var page driver.Page[string]
	at, name, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = l.s.readers.read(ctx, func(c *conn) error {
		return c.query(ctx, sqlUnswept, func(cols *columns) bool {
			if len(page.Items) == q.Size() {
				page.Next = driver.SweepCursor(at, name)
				return false
			}
			at, name = cols.time(), cols.text()
			page.Items = append(page.Items, name)
			return true
		}, micros(l.s.clock().Add(-age)), micros(at), name, q.Size()+1)
	})
	if err != nil {
		return driver.Page[string]{}, err
	}
	return page, nil
}

// Swept implements driver.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	return fault("note the sweep of an event log", l.s.writer.write(ctx, false, func(c *conn) error {
		now := l.s.clock()
		_, err := c.exec(sqlSwept, log, last, micros(now), micros(now.Add(next)))
		return err
	}))
}

// Drop implements driver.Log.
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
			if _, err := c.exec(sqlForgetDropped, micros(now.Add(-driver.DroppedFor))); err != nil {
				return err
			}
			_, err = c.exec(sqlDropLog, log, micros(now))
			return err
		},
		after: func() {
			l.tails.put(log, nil)
			l.s.hub.Drop(log)
		},
	})
	return fault("drop the event log", err)
}
