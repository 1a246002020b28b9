package pgstore

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// advanceLog allocates $2 sequences if the log's last one is $3, or in any case if $3 is negative, by logs_name.
	// The row's lock orders the writers of a log, so that no reader ever sees a gap.
	advanceLog = `
		WITH log AS (
			UPDATE {schema}.logs l
			SET last = l.last + $2::bigint, sweep_at = least(l.sweep_at, statement_timestamp())`

	advanceIf = `
			WHERE l.name = $1 AND l.dropped_at IS NULL AND ($3::bigint < 0 OR l.last = $3::bigint)`

	// addEvents adds the events. If $5 is set the transaction does not wait for the disk; its writes become durable no
	// later than those of any later commit. Other stores are notified after the transaction: one that notifies commits
	// under a lock of the whole server.
	addEvents = `
			RETURNING l.key, l.last
		), added AS (
			INSERT INTO {schema}.events (log, last, data) SELECT log.key, log.last, $4::bytea FROM log WHERE $2::bigint > 0
		)
		SELECT log.last, CASE WHEN $5::boolean THEN set_config('synchronous_commit', 'off', TRUE) END FROM log`

	sqlAppend = advanceLog + advanceIf + addEvents

	// sqlAppendFenced is sqlAppend on the condition that the log has seen no fencing token of the session $6 higher
	// than $7, and under this token no batch of the writer $8 with the number $9 or a higher one. A batch with the
	// number 0 is not recorded.
	sqlAppendFenced = advanceLog + `,
				fences = CASE
					WHEN (l.fences ->> $6::text)::bigint = $7::bigint THEN l.fences
					ELSE l.fences || jsonb_build_object($6::text, $7::bigint)
				END,
				batches = CASE
					WHEN $9::bigint = 0 AND (l.fences ->> $6::text)::bigint = $7::bigint THEN l.batches
					WHEN $9::bigint = 0 THEN l.batches - $6::text
					ELSE l.batches || jsonb_build_object($6::text,
						CASE WHEN (l.fences ->> $6::text)::bigint = $7::bigint THEN coalesce(l.batches -> $6::text, '{}') ELSE '{}' END
						|| jsonb_build_object($8::text, jsonb_build_array($9::bigint, l.last + $2::bigint)))
				END` + advanceIf + `
				AND CASE sign($7::bigint - coalesce((l.fences ->> $6::text)::bigint, 0))
					WHEN -1 THEN FALSE
					WHEN 0 THEN $9::bigint = 0 OR coalesce((l.batches -> $6::text -> $8::text ->> 0)::bigint, 0) < $9::bigint
					ELSE TRUE
				END` + addEvents

	sqlInsertLog = `
		INSERT INTO {schema}.logs (name, first, last)
		SELECT $1, 1, 0
		WHERE NOT EXISTS (SELECT FROM {schema}.logs WHERE name = $1)
		ON CONFLICT (name) DO NOTHING`

	sqlBounds = `SELECT first, last, dropped_at IS NOT NULL FROM {schema}.logs WHERE name = $1`

	// sqlLog reads the last sequence of a log, the highest token it has seen of the session $2, and the number of the
	// last batch of the writer $3 with the sequence at which it ended.
	sqlLog = `
		SELECT l.last, coalesce((l.fences ->> $2::text)::bigint, 0),
			coalesce((l.batches -> $2::text -> $3::text ->> 0)::bigint, 0),
			coalesce((l.batches -> $2::text -> $3::text ->> 1)::bigint, 0),
			l.dropped_at IS NOT NULL
		FROM {schema}.logs l
		WHERE l.name = $1`

	// sqlEvents reads the rows that contain the $3 events after $2, by logs_name and the key of events.
	sqlEvents = `
		SELECT greatest(l.first - 1, $2::bigint), e.last, e.dated_at, e.data
		FROM {schema}.logs l, LATERAL (
			SELECT e.last, e.dated_at, e.data
			FROM {schema}.events e
			WHERE e.log = l.key AND e.last > $2::bigint AND e.last <= coalesce((
				SELECT b.last
				FROM {schema}.events b
				WHERE b.log = l.key AND b.last >= $2::bigint + $3::bigint
				ORDER BY b.last
				LIMIT 1), l.last)
			ORDER BY e.last
			LIMIT $3) e
		WHERE l.name = $1
		ORDER BY e.last`

	// sqlTrim removes at most $3 events. A row is deleted with its last event.
	sqlTrim = `
		WITH log AS (
			UPDATE {schema}.logs l
			SET first = least($2::bigint, l.last + 1, l.first + $3::bigint)
			WHERE l.name = $1 AND l.first < least($2::bigint, l.last + 1)
			RETURNING l.key, l.first, l.first < least($2::bigint, l.last + 1) AS more
		), trimmed AS (
			DELETE FROM {schema}.events e USING log WHERE e.log = log.key AND e.last < log.first
		)
		SELECT more FROM log`

	// By logs_sweep.
	selectUnswept = `SELECT l.sweep_at, l.name FROM {schema}.logs l`

	sqlSwept = `
		UPDATE {schema}.logs
		SET sweep_at = statement_timestamp() + CASE WHEN last = $2 THEN $3::interval ELSE '0' END
		WHERE name = $1 AND dropped_at IS NULL`

	// sqlDropLog reduces a log to a row that marks it as dropped. It deletes such rows once they are older than $2, by
	// logs_dropped.
	sqlDropLog = `
		WITH log AS (
			INSERT INTO {schema}.logs AS l (name, first, last, dropped_at) VALUES ($1, 1, 0, statement_timestamp())
			ON CONFLICT (name) DO UPDATE SET first = 1, last = 0, fences = '{}', batches = '{}',
				dropped_at = coalesce(l.dropped_at, excluded.dropped_at)
			RETURNING key
		), forgotten AS (
			DELETE FROM {schema}.logs WHERE dropped_at <= statement_timestamp() - $2::interval AND name <> $1
		)
		DELETE FROM {schema}.events e USING log WHERE e.log = log.key`
)

// trimBatch is how many events are removed at once, so that trimming a long log does not keep writers waiting.
const trimBatch = 1000

// Log is the event log of a Store. It is safe for concurrent use.
type Log struct {
	db       *database
	listener *listener
	notifier *notifier
}

// Self implements driver.Log.
func (l *Log) Self() driver.Log { return l }

// MaxEvent implements driver.Log.
func (l *Log) MaxEvent() int { return l.db.opts.MaxEvent }

// Append implements driver.Log. If the answer is lost with the connection the error is ErrUnavailable and the events may
// have been appended.
func (l *Log) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		return backend.CheckLast(ctx, l, log, expect)
	}
	return l.append(ctx, log, expect, nil, events)
}

// AppendFenced implements driver.Fencer. A numbered batch is sent again if its answer is lost with the connection; for
// an unnumbered one the error is ErrUnavailable.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		w.Batch = 0
	}
	return l.append(ctx, log, expect, &w, events)
}

// append adds events, publishes them to this process's followers and notifies other processes. Without a writer the
// append is not fenced.
func (l *Log) append(ctx context.Context, log string, expect int64, w *driver.Writer, events []cairn.Event) (last int64, err error) {
	for i := range events {
		if err := driver.CheckEvent(&events[i], l.db.opts.MaxEvent); err != nil {
			return 0, err
		}
	}
	data, err := backend.EncodeEvents(events)
	if err != nil {
		return 0, err
	}
	text, how := sqlAppend, once
	args := []any{log, int64(len(events)), expect, data, l.db.opts.LazyEvents}
	if w != nil {
		text, args = sqlAppendFenced, append(args, w.Session, w.Token, w.ID, w.Batch)
		if len(events) == 0 || w.Batch > 0 {
			how = again
		}
	}
	var added bool
	err = l.db.try(ctx, "append events", how, func(ctx context.Context, c *conn) error {
		for {
			if added, err = c.row(ctx, text, []any{&last, new(*string)}, args...); added || err != nil {
				return err
			}
			var there bool
			if last, there, err = c.refuseAppend(ctx, log, expect, w); there || err != nil {
				return err
			}
		}
	})
	l.announce(log, last, events, added, err)
	return last, err
}

// announce publishes events that a write has added to a log, up to the sequence last, to this process's followers, and
// notifies other processes. If the write has not added them, or has failed, it or an earlier attempt may have added
// them all the same, and the answer was lost: then followers look for them.
func (l *Log) announce(log string, last int64, events []cairn.Event, added bool, err error) {
	if err == nil && added {
		if l.listener.hub.Append(log, last, events) {
			l.listener.wrote(log, last)
		}
	} else {
		l.listener.hub.Wake(log)
	}
	if err == nil && len(events) > 0 {
		l.notifier.wrote(log, last, int64(len(events)))
	}
}

// refuseAppend returns why an append did not apply. If the log already has the batch it returns true and the sequence
// at which the writer's last batch ended. It returns false and no error if the append may be retried, because the log
// was created or has changed.
func (c *conn) refuseAppend(ctx context.Context, log string, expect int64, w *driver.Writer) (ended int64, there bool, err error) {
	if expect <= 0 {
		if made, err := c.exec(ctx, sqlInsertLog, log); made > 0 || err != nil {
			return 0, false, err
		}
	}
	fenced := w != nil
	if !fenced {
		w = &driver.Writer{}
	}
	var last, token, batch int64
	var dropped bool
	found, err := c.row(ctx, sqlLog, []any{&last, &token, &batch, &ended, &dropped}, log, w.Session, w.ID)
	switch {
	case err != nil:
		return 0, false, err
	case dropped:
		return 0, false, driver.Dropped(log)
	case fenced && w.Token < token:
		return 0, false, driver.Fenced(log, *w, token)
	case fenced && w.Token == token && w.Batch > 0 && w.Batch <= batch:
		return ended, true, nil
	case expect >= 0 && expect != last, !found && expect > 0:
		return 0, false, driver.LogChanged(log, expect, last)
	}
	return 0, false, nil
}

// Read implements driver.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) (list []cairn.Event, err error) {
	if limit <= 0 {
		limit = 1000
	}
	after = max(after, 0)
	err = l.db.try(ctx, "read events", reads, func(ctx context.Context, c *conn) error {
		list = nil
		err = c.query(ctx, sqlEvents, func(rows pgx.Rows) (err error) {
			list, err = readEvents(list, rows, limit)
			return err
		}, log, after, limit)
		if err != nil || len(list) > 0 && list[0].Sequence == after+1 {
			return err
		}
		// A gap is an error, and no events are right only at the end of the log.
		first, last, err := c.bounds(ctx, log)
		if err == nil && after < last && after+1 < first {
			err = driver.Trimmed(log, after, first)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// readEvents appends the events of a row of sqlEvents to a list, until the list has limit events.
func readEvents(list []cairn.Event, rows pgx.Rows, limit int) ([]cairn.Event, error) {
	var from, last int64
	var dated *time.Time
	var data []byte
	if err := rows.Scan(&from, &last, &dated, &data); err != nil {
		return list, err
	}
	n, err := backend.CountEvents(data)
	if err != nil {
		return list, err
	}
	before := len(list)
	list, err = backend.DecodeEvents(list, data, last-int64(n)+1, from, limit)
	if dated != nil {
		for i := before; i < len(list); i++ {
			if list[i].Time.IsZero() {
				list[i].Time = dated.UTC()
			}
		}
	}
	return list, err
}

// bounds returns the bounds of a log; a log that does not exist is empty.
func (c *conn) bounds(ctx context.Context, log string) (first, last int64, err error) {
	first = 1
	var dropped bool
	_, err = c.row(ctx, sqlBounds, []any{&first, &last, &dropped}, log)
	if err == nil && dropped {
		err = driver.Dropped(log)
	}
	return first, last, err
}

// Follow implements driver.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		l.listener.join()
		defer l.listener.leave()
		l.listener.hub.Follow(ctx, log, after, l.Read)(yield)
	}
}

// Bounds implements driver.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	err = l.db.try(ctx, "read an event log's bounds", reads, func(ctx context.Context, c *conn) (err error) {
		first, last, err = c.bounds(ctx, log)
		return err
	})
	return first, last, err
}

// Trim implements driver.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	for more := true; more; {
		err := l.db.try(ctx, "trim the event log", again, func(ctx context.Context, c *conn) error {
			more = false
			_, err := c.row(ctx, sqlTrim, []any{&more}, log, before, trimBatch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unswept is a log as unsweptStatement lists it.
type unswept struct {
	at   time.Time
	name string
}

// Unswept implements driver.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[string], error) {
	text, args, err := unsweptStatement(age, q)
	if err != nil {
		return driver.Page[string]{}, err
	}
	logs, err := readPage(ctx, l.db, "list the event logs to sweep", text, args, q.Size(), func(rows pgx.Rows) (u unswept, err error) {
		err = rows.Scan(&u.at, &u.name)
		return u, err
	}, func(u *unswept) string { return driver.SweepCursor(u.at, u.name) }, nil)
	page := driver.Page[string]{Next: logs.Next}
	for _, u := range logs.Items {
		page.Items = append(page.Items, u.name)
	}
	return page, err
}

// unsweptStatement returns the statement for one page.
func unsweptStatement(age time.Duration, q driver.PageQuery) (text string, args []any, err error) {
	at, name, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return "", nil, err
	}
	f := &filter{}
	f.add("l.dropped_at IS NULL AND l.sweep_at <= statement_timestamp() - ?::interval", age)
	if name != "" {
		f.add("(l.sweep_at, l.name) > (?::timestamptz, ?)", at, name)
	}
	return f.page(selectUnswept, "l.sweep_at, l.name", q.Size()), f.args, nil
}

// Swept implements driver.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	return l.db.try(ctx, "note the sweep of an event log", again, func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, sqlSwept, log, last, next)
		return err
	})
}

// Drop implements driver.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	err := l.db.try(ctx, "drop the event log", again, func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, sqlDropLog, log, driver.DroppedFor)
		return err
	})
	l.listener.hub.Drop(log)
	return err
}
