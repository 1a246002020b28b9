package pgstore

// The statements that commit steps of several sessions, each if its own conditions hold: joined, and joinedLogged if some
// append events. They skip sessions that another writer has locked, because waiting for them could deadlock two such
// statements. A step that is not in the answer is attempted alone. Each session occurs only once. The arguments are
// columns: of the heads, the messages, the checkpoints, the changes of state, the runs that begin, the runs that end,
// the usage and the events, in this order. By the keys of heads, runs and logs, by sessions_id, staged_key and logs_name.
var (
	joined       = sqlSteps + sqlPlainStep + sqlLockSteps + sqlPlainHeads + sqlJoinedHeads + sqlJoinedParts + sqlJoinedWritten
	joinedLogged = sqlSteps + sqlLoggedStep + sqlLockSteps + sqlPlaceSteps + sqlJoinedHeads + sqlJoinedParts + sqlJoinedEvents +
		sqlJoinedWritten
)

const (
	sqlSteps = `
WITH step AS MATERIALIZED (
	SELECT *
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::interval[], $10::text[], $11::boolean[], $45::bigint[], $46::interval[], $47::bigint[]`

	stepColumns = `key, version, token, next_token, root_id, run_id, status, data, lease_in, drop_stop, drop_staged, next_version,
			lease_ttl, log_sequence`

	sqlPlainStep = `)
		p (` + stepColumns + `)`

	sqlLoggedStep = `, $53::text[], $54::bigint[], $55::boolean[], $56::text[]) WITH ORDINALITY
		p (` + stepColumns + `, log, events, fence, id, number)`

	sqlLockSteps = `
), locked AS MATERIALIZED (
	SELECT p.*
	FROM step p, LATERAL (
		SELECT FROM {schema}.heads h
		WHERE h.session = p.key AND h.version = p.version AND h.lease_token = p.token
			AND (` + leaseHeld + ` OR NOT EXISTS (
				SELECT FROM {schema}.sessions r WHERE r.id = p.root_id AND r.sweep_at <= statement_timestamp()))
		FOR NO KEY UPDATE SKIP LOCKED) l
)`

	sqlPlainHeads = `, placed AS (
	SELECT p.*, NULL::bigint AS logged, NULL::bigint AS events FROM locked p
)`

	// sqlPlaceSteps locks the logs once all heads are locked, and waits for them, in the order of their names, in which
	// no other writer locks several. The events of the steps of one log follow each other. A step whose log is missing
	// is left out.
	sqlPlaceSteps = `, log AS MATERIALIZED (
	SELECT l.key, l.name, l.last
	FROM {schema}.logs l
	WHERE l.name = ANY (ARRAY(SELECT DISTINCT p.log FROM locked p)) AND l.dropped_at IS NULL
	ORDER BY l.name
	FOR NO KEY UPDATE
), placed AS MATERIALIZED (
	SELECT p.*, l.key AS log_key, l.last + (sum(p.events) OVER (PARTITION BY l.key ORDER BY p.number))::bigint AS logged
	FROM locked p LEFT JOIN log l ON l.name = p.log
	WHERE p.log IS NULL OR l.key IS NOT NULL
)`

	sqlJoinedHeads = `, head AS (
	UPDATE {schema}.heads h
	SET version = p.next_version, updated_at = ` + updatedAt + `, lease_token = p.next_token,
		run_id = p.run_id, suspended_step = '', data = p.data,
		lease_until = coalesce(statement_timestamp() + p.lease_in, h.lease_until), next_deadline = NULL,
		lease_ttl = coalesce(p.lease_ttl, h.lease_ttl),
		stop = CASE h.stop_run WHEN p.drop_stop THEN '' ELSE h.stop END,
		stop_run = CASE h.stop_run WHEN p.drop_stop THEN '' ELSE h.stop_run END,
		status = p.status, due = '', due_at = NULL, log_sequence = coalesce(p.logged, p.log_sequence)
	FROM placed p
	WHERE h.session = p.key
	RETURNING h.session, h.updated_at, h.lease_until, p.drop_staged, p.logged, p.logged - p.events AS logged_before`

	sqlJoinedParts = `
), added AS (
	INSERT INTO {schema}.messages (session, created_at, number, turn, run, data)
	SELECT h.session, h.updated_at, m.number, nullif(m.turn, 0), m.run, m.data
	FROM unnest($12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[]) m (session, number, turn, run, data)
		JOIN head h USING (session)
), checkpoint AS (
	INSERT INTO {schema}.checkpoints (session, id_key, step_key, state_position, log_sequence, created_at, number, turn,
		step, message_count, id, step_id, run)
	SELECT h.session, c.id_key, c.step_key, c.state_position, coalesce(h.logged, c.log_sequence), h.updated_at, c.number, c.turn, c.step,
		c.message_count, c.id, c.step_id, c.run
	FROM unnest($17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[],
			$24::bigint[], $25::bigint[], $26::text[], $27::text[], $28::text[])
			c (session, id_key, step_key, number, turn, step, message_count, state_position, log_sequence, id, step_id, run)
		JOIN head h USING (session)
), metered AS (
	INSERT INTO {schema}.usage_rows (at, root_id, user_id, data)
	SELECT h.updated_at, u.root_id, u.user_id, u.data
	FROM unnest($49::bigint[], $50::text[], $51::text[], $52::text[]) u (session, root_id, user_id, data)
		JOIN head h USING (session)
), changed AS (
	INSERT INTO {schema}.state (session, position, keyframe, data)
	SELECT h.session, c.position, c.keyframe, c.data
	FROM unnest($29::bigint[], $30::bigint[], $31::boolean[], $32::text[]) c (session, position, keyframe, data)
		JOIN head h USING (session)
), started AS (
	INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint,
		before_position, data)
	SELECT h.session, r.turn, r.id, h.updated_at, coalesce(h.logged_before, r.start_sequence), r.first_message, r.before_checkpoint, r.before_position,
		r.data
	FROM unnest($33::bigint[], $34::bigint[], $35::text[], $36::bigint[], $37::bigint[], $38::text[], $39::bigint[],
			$40::text[]) r (session, turn, id, start_sequence, first_message, before_checkpoint, before_position, data)
		JOIN head h USING (session)
), ended AS (
	UPDATE {schema}.runs r
	SET ended_at = CASE WHEN e.over THEN e.updated_at END, data = e.data, text_at = e.text_at
	FROM (
		SELECT e.*, h.updated_at
		FROM unnest($41::bigint[], $42::text[], $43::boolean[], $44::text[], $48::bigint[]) e (session, id, over, data, text_at) JOIN head h USING (session)
		OFFSET 0) e -- else the plan may read all runs of the session
	WHERE r.session = e.session AND r.id = e.id
), dropped AS (
	DELETE FROM {schema}.staged WHERE session = ANY (ARRAY(SELECT h.session FROM head h WHERE h.drop_staged))
)`

	// sqlJoinedEvents also makes the tokens of new holders those of the log, see sqlAdvance.
	sqlJoinedEvents = `, advanced AS (
	UPDATE {schema}.logs l
	SET last = n.last, sweep_at = least(l.sweep_at, statement_timestamp()),
		fences = CASE WHEN n.holders IS NULL THEN l.fences ELSE l.fences || n.fences END,
		batches = CASE WHEN n.holders IS NULL THEN l.batches ELSE l.batches - n.holders END
	FROM (
		SELECT p.log_key, max(p.logged) AS last, array_agg(p.id) FILTER (WHERE p.fence) AS holders,
			jsonb_object_agg(p.id, p.next_token) FILTER (WHERE p.fence) AS fences
		FROM placed p
		WHERE p.log_key IS NOT NULL
		GROUP BY p.log_key) n
	WHERE l.key = n.log_key
), appended AS (
	INSERT INTO {schema}.events (log, last, dated_at, data)
	SELECT p.log_key, p.logged, CASE WHEN e.undated THEN h.updated_at END, e.data
	FROM unnest($57::bigint[], $58::boolean[], $59::bytea[]) e (session, undated, data)
		JOIN head h USING (session)
		JOIN placed p ON p.key = e.session
)`

	sqlJoinedWritten = `
SELECT h.session, h.updated_at, h.lease_until, statement_timestamp(), h.logged
FROM head h`
)
