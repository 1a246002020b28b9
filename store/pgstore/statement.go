package pgstore

// A commit is one statement. It updates the session's head, whose conditions decide, and its other parts write the rows
// of other tables if the head was written. A part costs the server some time even if it has nothing to write, so there
// are four such statements, from the minimum of a step to everything, and two more that create a session; each has a
// form with events and one without. A server plans each once per connection. Arguments are named; see argument.go.
var (
	// Messages, a checkpoint and usage.
	commitStep = newCommit("", sqlAddMessages+sqlAddCheckpoint+sqlAddUsage+sqlDropStaged)
	// The same with a change of state.
	commitState = newCommit("", sqlAddMessages+sqlAddCheckpoint+sqlAddUsage+sqlDropStaged+sqlAddState)
	// The same with the beginning or the end of a run.
	commitRun = newCommit("", sqlAddMessages+sqlAddCheckpoint+sqlAddUsage+sqlDropStaged+sqlAddState+sqlAddRun+sqlEndRun)
	// Everything that a commit can write.
	commitAll = newCommit(sqlCallsAsSeen, sqlAddMessages+sqlAddCheckpoint+sqlAddUsage+sqlDropStaged+sqlAddState+sqlAddRun+sqlEndRun+sqlPutCalls+
		sqlChangeQueue+sqlChangeCache+sqlPutContext)

	// A session with a run and messages.
	createRun = newCreation(sqlAddMessages + sqlAddRun)
	// A session with everything that a commit can write to one.
	createAll = newCreation(sqlAddMessages + sqlAddCheckpoint + sqlAddUsage + sqlAddState + sqlAddRun + sqlPutCalls + sqlChangeQueue + sqlChangeCache)
)

// forms are the forms of a statement: one for a commit without events, and one that appends its events.
type forms struct{ plain, logged *statement }

// newCommit returns the forms of a statement with further conditions, and with parts that write if the head was written.
func newCommit(conditions, parts string) *forms {
	return &forms{
		plain:  newStatement(sqlHead + sqlSetHead + sqlKeepPlace + sqlHeadSeen + conditions + sqlHeadAnswers + parts + sqlWritten),
		logged: newStatement(sqlLockHead + sqlHeadSeen + conditions + sqlAppendEvents + sqlSetHead + sqlPlaceHead + sqlAddEvents + parts + sqlLogged),
	}
}

// newCreation is newCommit for a session to be created.
func newCreation(parts string) *forms {
	return &forms{
		plain:  newStatement(sqlMake + sqlMade + sqlMakeHead + parts + sqlWritten),
		logged: newStatement(sqlMake + sqlUnlessDropped + sqlMade + sqlMakeLog + sqlMakeLoggedHead + sqlAddEvents + parts + sqlWritten),
	}
}

// updatedAt is the time of a commit. A statement that had to wait for another writer may have begun before that one
// did. A time that is further ahead is from before the server's clock was set back.
const updatedAt = `CASE WHEN h.updated_at > statement_timestamp() + '1 minute'::interval THEN statement_timestamp()
			ELSE greatest(h.updated_at, statement_timestamp()) END`

// leaseHeld is cairn.Lease.Held at the server's time.
const leaseHeld = `coalesce(h.lease_until > statement_timestamp() AND (h.lease_ttl = '0' OR h.lease_until <= statement_timestamp() + 2 * h.lease_ttl), FALSE)`

// sqlHead replaces the head that was seen with the next one, by the key of heads.
const sqlHead = `
WITH head AS (
	UPDATE {schema}.heads h`

const sqlSetHead = `
	SET version = @next_version::bigint, updated_at = ` + updatedAt + `, lease_token = @next_token::bigint,
		run_id = @run_id::text, suspended_step = @suspended_step::text, data = @head_data::text,
		lease_until = CASE WHEN @lease_kept::boolean THEN h.lease_until ELSE statement_timestamp() + @lease_in::interval END,
		lease_ttl = coalesce(@lease_ttl::interval, h.lease_ttl),
		next_deadline = @deadline::timestamptz,
		stop = CASE h.stop_run WHEN @drop_stop::text THEN '' ELSE h.stop END,
		stop_run = CASE h.stop_run WHEN @drop_stop::text THEN '' ELSE h.stop_run END,
		status = @status::text, due = @due::text,
		due_at = CASE WHEN @due_kept::boolean THEN h.due_at
			ELSE least(@due_at::timestamptz, statement_timestamp() + @due_in::interval) END,
		log_sequence = `

// sqlKeepPlace ends sqlSetHead for a commit without events.
const sqlKeepPlace = `@log_sequence::bigint`

// sqlHeadSeen are the conditions. They read only the head, or values that only grow: if the statement had to wait for
// another writer, the server checks them again on the row that the writer left, but sees all other rows as they were
// before. An expired session accepts no commits unless its lease is held. Expiry is checked once the root's sweep time
// has come, by sessions_id.
const sqlHeadSeen = `
	WHERE h.session = @key::bigint AND h.version = @version::bigint AND h.lease_token = @token::bigint
		AND (NOT @lapsed::boolean OR NOT (` + leaseHeld + `))
		AND (` + leaseHeld + ` OR NOT EXISTS (
			SELECT FROM {schema}.sessions r WHERE r.id = @root_id::text AND r.sweep_at <= statement_timestamp()))`

// sqlCallsAsSeen adds a condition: the calls are at the versions that were seen, by the key of calls. A call that
// changes while the statement waits for the head makes sqlPutCalls fail.
const sqlCallsAsSeen = `
		AND NOT EXISTS (
			SELECT FROM unnest(@call_id::text[], @call_seen::bigint[]) w (id, seen)
				LEFT JOIN {schema}.calls c ON c.root_id = @root_id::text AND c.id = w.id
			WHERE coalesce(c.version, 0) <> w.seen OR c.session <> h.session)`

// sqlHeadAnswers ends the change of a head. Without events there is no log in which it has a place.
const sqlHeadAnswers = `
	RETURNING h.session, h.updated_at, h.lease_until, NULL::bigint AS logged, NULL::bigint AS placed)`

// sqlWritten returns no row if a condition did not hold.
const sqlWritten = `
SELECT h.session, h.updated_at, h.lease_until, statement_timestamp(), h.logged
FROM head h`

// sqlMake, sqlMade and sqlMakeHead create a session with its head and initial state, unless a session with its id
// exists. Fencing tokens of a session begin with the microseconds of its creation.
const sqlMake = `
WITH made AS (
	INSERT INTO {schema}.sessions (id, agent, user_id, tags, metadata, expires_at, ttl, sweep_at, trace_parent, parent_id,
		root_id, incarnation, kind, name, secret, created_at, title, opening, opening_at, words, thread_id,
		archived_at)
	SELECT @id::text, @agent::text, @user_id::text, @tags::text[], @metadata::jsonb, @expires_at::timestamptz, @ttl::interval,
		least(@sweep_at::timestamptz, statement_timestamp() + @sweep_in::interval), @trace_parent::text, @parent_id::text,
		@root_id::text, @incarnation::text, @kind::text, @name::text, @secret::text, statement_timestamp(),
		@title::text, @opening::text, @opening_at::bigint, array_to_tsvector(@words::text[]), @thread_id::text,
		least(@archived_at::timestamptz, statement_timestamp() + @archived_in::interval)`

const sqlMade = `
	ON CONFLICT (id) DO NOTHING
	RETURNING key, created_at, (extract(epoch FROM created_at) * 1000000)::bigint + @next_token::bigint AS token)`

const sqlMakeHead = sqlNewHead + `1, @log_sequence::bigint
	FROM made m
	RETURNING session, updated_at, lease_until, NULL::bigint AS logged, NULL::bigint AS placed` + sqlInitialState

const sqlNewHead = `, head AS (
	INSERT INTO {schema}.heads (session, lease_token, updated_at, lease_until, lease_ttl, next_deadline, due_at, agent, status,
		run_id, suspended_step, due, data, version, log_sequence)
	SELECT m.key, m.token, m.created_at,
		m.created_at + @lease_in::interval, coalesce(@lease_ttl::interval, '0'), @deadline::timestamptz,
		least(@due_at::timestamptz, m.created_at + @due_in::interval),
		coalesce((SELECT agent FROM {schema}.sessions WHERE id = @root_id::text), @agent::text),
		@status::text, @run_id::text, @suspended_step::text, @due::text, @head_data::text, `

const sqlInitialState = `
), initial AS (
	INSERT INTO {schema}.state (session, position, keyframe, data)
	SELECT m.key, 0, TRUE, @initial::text FROM made m)`

const sqlAddMessages = `, added AS (
	INSERT INTO {schema}.messages (session, created_at, number, turn, run, data)
	SELECT h.session, h.updated_at, @first_message::bigint + m.number - 1, @message_turn::bigint, m.run, m.data
	FROM head h, unnest(@messages::text[], @message_runs::text[]) WITH ORDINALITY m (data, run, number))`

const sqlAddState = `, changed AS (
	INSERT INTO {schema}.state (session, position, keyframe, data)
	SELECT h.session, @state_position::bigint, @keyframe::boolean, @state::text
	FROM head h
	WHERE @state::text IS NOT NULL)`

const sqlAddCheckpoint = `, checkpoint AS (
	INSERT INTO {schema}.checkpoints (session, id_key, step_key, state_position, log_sequence, created_at, number, turn,
		step, message_count, id, step_id, run)
	SELECT h.session, @checkpoint_key::bigint, @checkpoint_step_key::bigint, @checkpoint_state::bigint,
		coalesce(h.placed, @checkpoint_log::bigint), h.updated_at, @checkpoint_number::bigint, @checkpoint_turn::bigint, @checkpoint_step::bigint,
		@checkpoint_messages::bigint, @checkpoint::text, @checkpoint_step_id::text, @checkpoint_run::text
	FROM head h
	WHERE @checkpoint::text IS NOT NULL)`

const sqlAddRun = `, started AS (
	INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint,
		before_position, data)
	SELECT h.session, @start_turn::bigint, @start_run::text, h.updated_at, coalesce(h.placed - @events::bigint, @start_sequence::bigint),
		@start_message::bigint, @start_checkpoint::text, @start_state::bigint, @start_data::text
	FROM head h
	WHERE @start_run::text IS NOT NULL)`

// By runs_id.
const sqlEndRun = `, ended AS (
	UPDATE {schema}.runs r
	SET ended_at = CASE WHEN @end_over::boolean THEN h.updated_at END, data = @end_data::text, text_at = @end_text_at::bigint
	FROM head h
	WHERE r.session = @key::bigint AND r.id = @end_run::text)`

// By staged_key.
const sqlDropStaged = `, dropped AS (
	DELETE FROM {schema}.staged
	WHERE session = @key::bigint AND @drop_staged::boolean AND EXISTS (SELECT FROM head))`

// sqlChangeQueue removes by queue_id.
const sqlChangeQueue = `, enqueued AS (
	INSERT INTO {schema}.queue (session, id, data)
	SELECT h.session, @enqueue::text, @enqueue_data::text
	FROM head h
	WHERE @enqueue::text IS NOT NULL
), dequeued AS (
	DELETE FROM {schema}.queue q USING head h
	WHERE q.session = h.session AND q.id = ANY (@dequeue::text[]))`

// sqlChangeCache puts and removes by the key of cache.
const sqlChangeCache = `, cached AS (
	INSERT INTO {schema}.cache (session, key, data)
	SELECT h.session, e.key, e.data
	FROM head h, unnest(@cache_key::text[], @cache_data::text[]) e (key, data)
	ON CONFLICT (session, key) DO UPDATE SET data = excluded.data
), uncached AS (
	DELETE FROM {schema}.cache e USING head h
	WHERE e.session = h.session AND e.key = ANY (@cache_drop::text[]))`

// By the key of sessions.
const sqlPutContext = `, context AS (
	UPDATE {schema}.sessions s
	SET user_id = @user_id::text, tags = @tags::text[], metadata = @metadata::jsonb, expires_at = @expires_at::timestamptz,
		sweep_at = least(@sweep_at::timestamptz, statement_timestamp() + @sweep_in::interval), title = @title::text,
		opening = @opening::text, opening_at = @opening_at::bigint, words = array_to_tsvector(@words::text[]),
		archived_at = least(@archived_at::timestamptz, statement_timestamp() + @archived_in::interval)
	FROM head h
	WHERE s.key = h.session AND @context::boolean)`

// sqlPutCalls writes the rows of calls. A row that is not at the version its writer saw gets a null version, so that
// the table refuses the whole commit. The assignments of the calls are updated to match the rows.
const sqlPutCalls = `, put AS (
	INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, deadline, claimed_until, claimed_by,
		step_id, user_id, agent, tool, kind, status, reviewers, data)
	SELECT @root_id::text, w.id, h.session, w.seen + 1, h.updated_at, h.updated_at,
		w.deadline, w.claimed_until, w.claimed_by, w.step_id, @user_id::text,
		@agent::text, w.tool, w.kind, w.status, w.reviewers, w.data
	FROM head h,
		unnest(@call_id::text[], @call_seen::bigint[], @call_deadline::timestamptz[],
			@call_claimed_until::timestamptz[], @call_claimed_by::text[], @call_step::text[], @call_tool::text[],
			@call_kind::text[], @call_status::text[], @call_reviewers::jsonb[], @call_data::text[])
			w (id, seen, deadline, claimed_until, claimed_by, step_id, tool, kind, status, reviewers, data)
	ON CONFLICT (root_id, id) DO UPDATE
	SET version = CASE WHEN calls.version = excluded.version - 1 AND calls.session = excluded.session THEN excluded.version END,
		updated_at = excluded.updated_at, deadline = excluded.deadline, claimed_until = excluded.claimed_until,
		claimed_by = excluded.claimed_by, step_id = excluded.step_id, user_id = excluded.user_id, agent = excluded.agent,
		tool = excluded.tool, kind = excluded.kind, status = excluded.status, reviewers = excluded.reviewers, data = excluded.data
	RETURNING root_id, id, created_at, status, reviewers
), wanted AS (
	SELECT DISTINCT r.reviewer, p.created_at, p.root_id, p.id
	FROM put p, jsonb_array_elements_text(p.reviewers) r (reviewer)
	WHERE p.status = 'open'
), unassigned AS (
	DELETE FROM {schema}.assignments a USING put p
	WHERE a.root_id = p.root_id AND a.id = p.id
		AND NOT EXISTS (SELECT FROM wanted w WHERE (w.reviewer, w.root_id, w.id) = (a.reviewer, a.root_id, a.id))
), assigned AS (
	INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id)
	SELECT * FROM wanted
	ON CONFLICT DO NOTHING)`

// sqlAddUsage adds the usage row of a commit.
const sqlAddUsage = `, metered AS (
	INSERT INTO {schema}.usage_rows (at, root_id, user_id, data)
	SELECT h.updated_at, @root_id::text, @user_id::text, @usage::text
	FROM head h
	WHERE @usage::text IS NOT NULL)`
