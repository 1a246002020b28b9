package pgstore

import "context"

// A commit with events locks the head and then the row of the tree's log, in the same statement, so that it knows the
// position of its events before it writes either. All writers lock heads before logs. A commit that joins others locks
// several logs, in the order of their names, see joinedLogged.

// sqlLockHead locks the head before sqlAppendEvents locks the log.
const sqlLockHead = `
WITH locked AS MATERIALIZED (
	SELECT h.session
	FROM {schema}.heads h`

// sqlAppendEvents allocates the events' sequences, by logs_name. The row's lock orders the writers of a log, so that no
// reader ever sees a gap.
const sqlAppendEvents = `
	FOR NO KEY UPDATE OF h
), log AS (` + sqlAdvance + `
	FROM locked
	WHERE l.name = @log::text AND l.dropped_at IS NULL
	RETURNING l.key, l.last
), head AS (
	UPDATE {schema}.heads h`

// sqlAdvance also makes the token of the session's new holder that of the log, and forgets what was written under the
// token before.
const sqlAdvance = `
	UPDATE {schema}.logs l
	SET last = l.last + @events::bigint, sweep_at = least(l.sweep_at, statement_timestamp()),
		fences = CASE WHEN @fence::boolean THEN l.fences || jsonb_build_object(@id::text, @next_token::bigint) ELSE l.fences END,
		batches = CASE WHEN @fence::boolean THEN l.batches - @id::text ELSE l.batches END`

// sqlPlaceHead ends sqlSetHead for a commit with events. placed is where they end on the log, if the commit's rows get
// their places from that.
const sqlPlaceHead = `CASE WHEN @beside::boolean THEN @log_sequence::bigint ELSE log.last END
	FROM log
	WHERE h.session = @key::bigint
	RETURNING h.session, h.updated_at, h.lease_until, log.last AS logged, CASE WHEN NOT @beside::boolean THEN log.last END AS placed)`

const sqlAddEvents = `, appended AS (
	INSERT INTO {schema}.events (log, last, dated_at, data)
	SELECT log.key, log.last, CASE WHEN @undated::boolean THEN h.updated_at END, @event_data::bytea
	FROM log, head h)`

// sqlLogged returns a session of 0 if the conditions held, but there is no such log.
const sqlLogged = `
SELECT coalesce(h.session, 0), coalesce(h.updated_at, statement_timestamp()), h.lease_until, statement_timestamp(), h.logged
FROM locked LEFT JOIN head h ON TRUE`

// sqlUnlessDropped creates no session whose log was dropped.
const sqlUnlessDropped = `
	WHERE NOT EXISTS (SELECT FROM {schema}.logs l WHERE l.name = @log::text AND l.dropped_at IS NOT NULL)`

// sqlMakeLog makes the log with its first events, or appends them.
const sqlMakeLog = `, log AS (
	INSERT INTO {schema}.logs AS l (name, first, last, fences)
	SELECT @log::text, 1, @events::bigint, CASE WHEN @fence::boolean THEN jsonb_build_object(@id::text, m.token) ELSE '{}' END
	FROM made m
	ON CONFLICT (name) DO UPDATE
	SET last = l.last + excluded.last, sweep_at = least(l.sweep_at, statement_timestamp()), fences = l.fences || excluded.fences,
		batches = CASE WHEN @fence::boolean THEN l.batches - @id::text ELSE l.batches END
	WHERE l.dropped_at IS NULL
	RETURNING l.key, l.last)`

// sqlMakeLoggedHead is sqlMakeHead for a commit with events. If the log was dropped at the same moment, the table
// refuses the head, and so the whole commit.
const sqlMakeLoggedHead = sqlNewHead + `CASE WHEN log.key IS NOT NULL THEN 1 END, log.last
	FROM made m LEFT JOIN log ON TRUE
	RETURNING session, updated_at, lease_until, log_sequence AS logged, log_sequence AS placed` + sqlInitialState

// appendLast appends the events of a commit that was written already, in the same transaction. By logs_name and the keys
// of heads, checkpoints and runs.
var appendLast = newStatement(`
WITH log AS (` + sqlAdvance + `
	WHERE l.name = @log::text AND l.dropped_at IS NULL
	RETURNING l.key, l.last
), head AS (
	UPDATE {schema}.heads h SET log_sequence = log.last FROM log WHERE h.session = @written::bigint AND NOT @beside::boolean
), checkpoint AS (
	UPDATE {schema}.checkpoints c SET log_sequence = log.last
	FROM log
	WHERE c.session = @written::bigint AND c.number = @checkpoint_number::bigint AND NOT @beside::boolean
), started AS (
	UPDATE {schema}.runs r SET start_sequence = log.last - @events::bigint
	FROM log
	WHERE r.session = @written::bigint AND r.turn = @start_turn::bigint
), appended AS (
	INSERT INTO {schema}.events (log, last, dated_at, data)
	SELECT log.key, log.last, CASE WHEN @undated::boolean THEN @written_at::timestamptz END, @event_data::bytea
	FROM log)
SELECT log.last FROM log`)

// appends reports whether the write appends events. Those of a commit with statements of tools are appended last, so
// that a slow statement does not hold up the other writers of the log.
func (w *write) appends() bool { return len(w.d.Events) > 0 && len(w.d.Statements) == 0 }

// appendLast appends the events of a delta that c has written with statements of tools.
func (w *write) appendLast(ctx context.Context, c *conn) error {
	for {
		var last int64
		found, err := c.row(ctx, appendLast.text, []any{&last}, appendLast.values(w)...)
		if err != nil {
			return err
		}
		if found {
			w.place(last)
			return nil
		}
		made, err := c.makeLog(ctx, w.d.Row.Log())
		if err == nil && !made {
			err = c.checkLog(ctx, w.d.Row.Log())
		}
		if err != nil {
			return err
		}
	}
}

// place sets the sequence of the last of the delta's events.
func (w *write) place(last int64) {
	w.last = last
	w.d.Logged(last - int64(len(w.d.Events)))
	w.result.LogSequence = w.d.Row.LogSequence
}

// makeLog makes a log that a commit did not find. It reports false if there is one now, or it was dropped.
func (c *conn) makeLog(ctx context.Context, log string) (made bool, err error) {
	n, err := c.exec(ctx, sqlInsertLog, log)
	return n > 0, err
}

// checkLog returns ErrDeleted for a log that was dropped.
func (c *conn) checkLog(ctx context.Context, log string) error {
	_, _, err := c.bounds(ctx, log)
	return err
}
