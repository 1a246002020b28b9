package pgstore

import (
	"fmt"
	"strings"
	"sync"
)

// shape says what the statement of a commit has to do. Each shape has a statement of its own, put together from the parts
// below, so that the server does nothing for what a commit does not change; a program uses some twenty of them.
type shape uint64

const (
	withVersion shape = 1 << iota // guards
	withToken
	withIdle
	withLapsed
	withAgent

	withCreate // the session is made if it is not there
	onlyCreate // and if it is, nothing happens
	withStartRun
	withEndRun
	withMessages
	withState
	withKeyframe
	withStep
	withRecovered
	withCheckpoint
	withStatus
	withLog
	withUsage
	withCustom // usage that tools recorded
	withTake   // the lease
	withRenew
	withRelease
	withDrop // of what is staged
	withSuspend
	withCalls
	withEnqueue
	withDequeue
	withQueued // the count changes
	withCache
	withCacheDrop
	withContext
	withKnown    // the session's owner is known
	withKnownRow // and so is the row at the version that the guard names
	withSums     // so the usage after the commit is known as well
	withNotDue   // and that nothing is due then
	withKnownRun // and that there is the run that ends
)

// allGuards are the parts of a shape that make a commit conditional.
const allGuards = withVersion | withToken | withIdle | withLapsed | withAgent

func (s shape) has(any shape) bool { return s&any != 0 }

// part is a piece of a statement that belongs to some shapes: those with any of when, all of only and none of not.
type part struct {
	when, only, not shape
	text            string
}

func (s shape) join(b *strings.Builder, list []part) {
	for _, p := range list {
		if s.has(p.when) && s&p.only == p.only && !s.has(p.not) {
			b.WriteString(p.text)
		}
	}
}

// sqlUpdateHead changes the head of a session that is there, by sessions_id and the key of heads. It is the commit's guard:
// where it changes no row, the parts that follow have nothing to add. Its conditions look at the head alone or at what
// only grows; when it had to wait for another writer, the server checks them again on the row that writer left, but knows
// all other rows as they were before. So the user context, which is elsewhere, must be the one that belongs to the head.
const sqlUpdateHead = `
	UPDATE {schema}.heads h
	SET version = h.version + 1,
		updated_at = greatest(h.updated_at, statement_timestamp())`

// headChanges are the columns that a commit changes. What is in an index stands last.
var headChanges = []part{
	{when: withStartRun, text: `,
		turn = h.turn + 1, run_id = @start_run`},
	{when: withStartRun | withStep, text: `,
		step = @step, recoveries = @recovered`},
	{when: withRecovered, not: withStartRun | withStep, text: `,
		recoveries = h.recoveries + 1`},
	{when: withMessages, text: `,
		message_count = h.message_count + @message_count`},
	{when: withState, text: `,
		state_position = h.state_position + 1`},
	{when: withKeyframe, text: `,
		keyframe_bytes = @state_bytes, change_bytes = 0`},
	{when: withState, not: withKeyframe, text: `,
		change_bytes = h.change_bytes + @state_bytes`},
	{when: withLog, text: `,
		log_sequence = greatest(h.log_sequence, @log_sequence)`},
	{when: withUsage, text: `,
		usage = ` + usageSum("h.usage")},
	{when: withUsage, not: withStartRun, text: `,
		run_usage = ` + usageSum("h.run_usage")},
	{when: withSums, text: `,
		usage = @next_usage::bigint[]`},
	{when: withSums, not: withStartRun, text: `,
		run_usage = @next_run_usage::bigint[]`},
	{when: withStartRun, text: `,
		run_usage = @usage::bigint[], run_usage_custom = @usage_custom::jsonb`},
	{when: withCustom, text: `,
		usage_custom = ` + customSum("h.usage_custom")},
	{when: withCustom, not: withStartRun, text: `,
		run_usage_custom = ` + customSum("h.run_usage_custom")},
	{when: withTake, text: `,
		lease_owner = @owner, lease_token = h.lease_token + 1`},
	{when: withTake | withRenew, text: `,
		lease_until = statement_timestamp() + @ttl::interval`},
	{when: withRelease, text: `,
		lease_owner = '', lease_until = statement_timestamp()`},
	{when: withStartRun | withCheckpoint, text: `,
		checkpoint_before = h.checkpoint_id`},
	{when: withCheckpoint, text: `,
		checkpoint_id = @checkpoint, checkpoints = h.checkpoints + 1`},
	{when: withSuspend, text: `,
		suspended_step = @suspended_step, open_calls = @open_calls, next_deadline = ` + sqlSuspendedUntil},
	{when: withQueued, text: `,
		queued = h.queued + @more`},
	{when: withContext, text: `,
		context = h.context + 1`},
	{when: withStatus, text: `,
		status = @status`},
	{when: withStatus | withSuspend | withQueued, only: withNotDue, text: `,
		due = '', due_at = NULL`},
	{when: withStatus | withSuspend | withQueued, not: withNotDue, text: `,
		due = ` + sqlDueKind + `,
		due_at = CASE ` + sqlDueKind + `
			WHEN '' THEN NULL
			WHEN 'deadline' THEN ` + sqlNewDeadline + `
			WHEN h.due THEN h.due_at
			ELSE greatest(h.updated_at, statement_timestamp())
		END`},
	{when: withEndRun, text: `,
		stop = CASE h.stop_run WHEN @end_run THEN '' ELSE h.stop END,
		stop_run = CASE h.stop_run WHEN @end_run THEN '' ELSE h.stop_run END`},
}

// usageSum adds the counts of a commit to a column.
func usageSum(column string) string {
	var b strings.Builder
	b.WriteString("ARRAY[")
	for i := range usageCounts {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%[1]s[%[2]d] + (@usage::bigint[])[%[2]d]", column, i+1)
	}
	return b.String() + "]"
}

// customSum adds what tools recorded to a column.
func customSum(column string) string {
	return `(
			SELECT jsonb_object_agg(sums.key, sums.value)
			FROM (
				SELECT u.key, to_jsonb(sum(u.value::double precision)) AS value
				FROM (SELECT * FROM jsonb_each(` + column + `) UNION ALL SELECT * FROM jsonb_each(@usage_custom::jsonb)) u
				GROUP BY u.key) sums)`
}

// The kind of a session that is due, or will be, as store.DueKindOf says, after the change. @status and what @suspends says is
// there come from the commit, or else stay.
const (
	sqlSuspendedUntil = `least(@next_deadline::timestamptz,
			greatest(h.updated_at, statement_timestamp()) + @deadline_in::interval)`

	sqlNewDeadline = `CASE WHEN @suspends::boolean THEN ` + sqlSuspendedUntil + ` ELSE h.next_deadline END`

	sqlDueKind = `CASE
			WHEN coalesce(@status::text, h.status) = 'active' THEN ''
			WHEN coalesce(@status::text, h.status) <> 'paused' THEN
				CASE WHEN h.queued + @more::bigint > 0 THEN 'queued' ELSE '' END
			WHEN coalesce(@suspended_step::text, h.suspended_step) <> '' AND coalesce(@open_calls::bigint, h.open_calls) = 0 THEN 'ready'
			WHEN ` + sqlNewDeadline + ` IS NOT NULL THEN 'deadline'
			ELSE ''
		END`
)

const (
	sqlHeadOf = `
	FROM {schema}.sessions s
	WHERE s.id = @id AND h.session = s.key AND h.context = s.context`

	sqlHeadOfKnown = `
	WHERE h.session = @key AND h.context = @context`
)

// headGuards are the conditions of a commit.
var headGuards = []part{
	{when: withVersion, text: `
		AND h.version = @version`},
	{when: withToken, text: `
		AND h.lease_token = @token`},
	{when: withIdle, text: `
		AND h.status <> 'active'`},
	{when: withLapsed, text: `
		AND h.status = 'active' AND h.lease_until <= statement_timestamp()`},
	{when: withAgent, text: `
		AND s.agent = @agent`},
	// By runs_id.
	{when: withEndRun, not: withKnownRun, text: `
		AND EXISTS (SELECT FROM {schema}.runs r WHERE r.session = h.session AND r.id = @end_run)`},
	// By the key of calls. A call that changes while the head is waited for makes sqlPutCalls fail.
	{when: withCalls, text: `
		AND NOT EXISTS (
			SELECT FROM unnest(@call_id::text[], @call_seen::bigint[]) w (id, seen)
				LEFT JOIN {schema}.calls c ON c.root_id = {root} AND c.id = w.id
			WHERE coalesce(c.version, 0) <> w.seen OR c.session <> h.session)`},
}

// What has expired is committed to no more, but for what somebody holds. Whether it has is looked at when a root's time has
// come; by sessions_id.
const sqlHeldOrStands = `
		AND (h.lease_until > statement_timestamp()
			OR NOT EXISTS (SELECT FROM {schema}.sessions r WHERE r.id = {root} AND r.sweep_at <= statement_timestamp()))`

// sqlMake adds a session's row, with what store.SweepAt says of one that nobody holds; sqlMakeHead its head and sqlMakeState the state it begins with.
const (
	sqlMake = `
	INSERT INTO {schema}.sessions (id, agent, user_id, tags, metadata, expires_at, ttl, sweep_at, trace_parent, parent_id,
		root_id, name, secret, context, created_at, incarnation)
	SELECT @id, @new_agent, @user_id, @tags::text[], @metadata::jsonb, @expires_at::timestamptz, @idle_ttl::interval,
		CASE @root_id::text WHEN @id::text THEN least(@expires_at::timestamptz, statement_timestamp() + @idle_ttl::interval) END,
		@trace_parent, @parent_id, @root_id, @name, @secret, 0, statement_timestamp(), @incarnation
	WHERE NOT EXISTS (SELECT FROM {schema}.sessions WHERE id = @id)
	ON CONFLICT (id) DO NOTHING
	RETURNING *`

	sqlMakeHead = `
	INSERT INTO {schema}.heads (session, version, message_count, turn, step, recoveries, checkpoints, log_sequence, lease_token,
		state_position, keyframe_bytes, change_bytes, open_calls, queued, context, updated_at, lease_until, next_deadline,
		due_at, usage, run_usage, usage_custom, run_usage_custom, status, run_id, checkpoint_id, checkpoint_before,
		lease_owner, suspended_step, due, agent)
	SELECT m.key, 1, @message_count::bigint, @new_turn::bigint, @step::bigint, @recovered::bigint, @new_checkpoints::bigint,
		@new_log_sequence::bigint, (extract(epoch FROM m.created_at) * 1000000)::bigint + @new_token::bigint, @new_position::bigint, @new_keyframe::bigint, @new_changes::bigint,
		@new_open_calls::bigint, @new_queued::bigint, 0, m.created_at, m.created_at + @new_ttl::interval,
		least(@next_deadline::timestamptz, m.created_at + @deadline_in::interval), CASE @new_due::text WHEN '' THEN NULL
		WHEN 'deadline' THEN least(@next_deadline::timestamptz, m.created_at + @deadline_in::interval) ELSE m.created_at END, @usage::bigint[], @usage::bigint[], @usage_custom::jsonb, @usage_custom::jsonb,
		@new_status, @new_run, @new_checkpoint, '', @new_owner, @new_suspended_step, @new_due::text,
		coalesce((SELECT agent FROM {schema}.sessions WHERE id = @root_id), @new_agent)
	FROM made m
	RETURNING *`

	sqlMakeState = `
	INSERT INTO {schema}.state (session, position, keyframe, data)
	SELECT key, 0, TRUE, @initial FROM made`
)

// commitParts are what a commit adds beside the head, h. {owner} is the relation that has the session's other columns, s.
var commitParts = []part{
	{when: withContext, text: `, context AS (
	UPDATE {schema}.sessions s
	SET user_id = coalesce(@user_id::text, s.user_id), tags = coalesce(@tags::text[], s.tags),
		metadata = (s.metadata || @metadata::jsonb) - @metadata_drop::text[],
		expires_at = CASE WHEN @expires::boolean THEN @expires_at::timestamptz ELSE s.expires_at END,
		sweep_at = CASE s.root_id WHEN s.id THEN
			least(CASE WHEN @expires::boolean THEN @expires_at::timestamptz ELSE s.expires_at END, h.updated_at + s.ttl) END,
		context = s.context + 1
	FROM head h
	WHERE s.key = h.session
	RETURNING s.*)`},

	{when: withStartRun, text: `, started AS (
	INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint,
		before_position, data)
	SELECT h.session, h.turn, @start_run, h.updated_at, @start_sequence::bigint, h.message_count - @message_count::bigint,
		h.checkpoint_before, h.state_position - @state_changes::bigint, @start_data
	FROM head h)`},

	// By runs_id.
	{when: withEndRun, text: `, ended AS (
	UPDATE {schema}.runs r
	SET ended_at = CASE WHEN @end_over::boolean THEN h.updated_at END, data = @end_data
	FROM head h
	WHERE r.session = h.session AND r.id = @end_run)`},

	{when: withMessages, text: `, added AS (
	INSERT INTO {schema}.messages (session, number, created_at, data)
	SELECT h.session, h.message_count - @message_count::bigint + m.number - 1, h.updated_at, m.data
	FROM head h, unnest(@message_data::text[]) WITH ORDINALITY m (data, number))`},

	{when: withState, text: `, changed AS (
	INSERT INTO {schema}.state (session, position, keyframe, data)
	SELECT h.session, h.state_position, @keyframe::boolean, @state_data
	FROM head h)`},

	{when: withCheckpoint, text: `, checkpoint AS (
	INSERT INTO {schema}.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at,
		id, step_id, run_id, parent_id)
	SELECT h.session, h.checkpoints, h.turn, @checkpoint_step::bigint, h.message_count, h.state_position,
		@checkpoint_log::bigint, h.updated_at, @checkpoint, @checkpoint_step_id, @checkpoint_run, h.checkpoint_before
	FROM head h)`},

	// By staged_key.
	{when: withDrop, not: withKnown, text: `, dropped AS (
	DELETE FROM {schema}.staged t USING head h WHERE t.session = h.session)`},
	{when: withDrop, only: withKnown, text: `, dropped AS (
	DELETE FROM {schema}.staged WHERE session = @key AND EXISTS (SELECT FROM head))`},

	{when: withCalls, text: sqlPutCalls},

	{when: withEnqueue, text: `, enqueued AS (
	INSERT INTO {schema}.queue (session, id, data)
	SELECT h.session, @turn_id, @turn_data
	FROM head h)`},

	// By queue_id.
	{when: withDequeue, text: `, dequeued AS (
	DELETE FROM {schema}.queue q USING head h WHERE q.session = h.session AND q.id = @dequeue)`},

	{when: withCache, text: `, cached AS (
	INSERT INTO {schema}.cache (session, key, data)
	SELECT h.session, e.key, e.data
	FROM head h, unnest(@cache_key::text[], @cache_data::text[]) e (key, data)
	ON CONFLICT (session, key) DO UPDATE SET data = excluded.data)`},

	// By the key of cache.
	{when: withCacheDrop, text: `, uncached AS (
	DELETE FROM {schema}.cache e USING head h WHERE e.session = h.session AND e.key = ANY (@cache_drop::text[]))`},
}

// sqlCommitted returns the row after the commit, or else the row that the commit's guard was held against, if there is one.
const sqlCommitted = `
SELECT` + sessionColumns + `, TRUE
FROM head h JOIN {owner} s ON s.key = h.session
UNION ALL
SELECT` + sessionColumns + `, FALSE
FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
WHERE s.id = @id AND NOT EXISTS (SELECT FROM head)`

// sqlCommittedKnown returns what the commit changes of the row of a session whose owner is known.
const sqlCommittedKnown = `
SELECT` + headColumns + `
FROM head h`

// sqlReturnFew are the columns of the head that commitParts and sqlCommittedRow need.
const sqlReturnFew = `
	RETURNING h.session, h.turn, h.message_count, h.state_position, h.checkpoints, h.checkpoint_before, h.updated_at, h.lease_until`

// sqlCommittedRow returns what does not follow from the commit and the row before.
const sqlCommittedRow = `
SELECT h.updated_at, h.lease_until
FROM head h`

// sqlKnownOwner stands for the session's other columns where they are known.
const sqlKnownOwner = `(SELECT @key::bigint AS key, @root::text AS root_id, @user::text AS user_id, @known_agent::text AS agent)`

// text returns the statement of a shape.
func (s shape) text() string {
	var b strings.Builder
	update := func() {
		b.WriteString(sqlUpdateHead)
		s.join(&b, headChanges)
		if s.has(withKnown) {
			b.WriteString(sqlHeadOfKnown)
		} else {
			b.WriteString(sqlHeadOf)
		}
		s.join(&b, headGuards)
		b.WriteString(sqlHeldOrStands)
		if s.has(withKnownRow) {
			b.WriteString(sqlReturnFew)
		} else {
			b.WriteString("\n\tRETURNING h.*")
		}
	}
	owner := schemaMark + ".sessions"
	switch {
	case s.has(onlyCreate):
		b.WriteString("WITH made AS (" + sqlMake + "), head AS (" + sqlMakeHead + "), initial AS (" + sqlMakeState + ")")
		owner = "made"
	case s.has(withCreate):
		b.WriteString("WITH made AS (" + sqlMake + "), created AS (" + sqlMakeHead + "), initial AS (" + sqlMakeState + "), updated AS (")
		update()
		b.WriteString("), head AS (SELECT * FROM updated UNION ALL SELECT * FROM created)")
		b.WriteString(", owner AS (SELECT * FROM made UNION ALL SELECT * FROM " + owner + " WHERE id = @id)")
		owner = "owner"
	default:
		b.WriteString("WITH head AS (")
		update()
		b.WriteString(")")
	}
	if s.has(withContext) {
		owner = "context"
	}
	root, committed := "s.root_id", sqlCommitted
	if s.has(withKnown) {
		root, owner, committed = "@root::text", sqlKnownOwner, sqlCommittedKnown
	}
	if s.has(withKnownRow) {
		committed = sqlCommittedRow
	}
	s.join(&b, commitParts)
	b.WriteString(committed)
	return strings.NewReplacer("{owner}", owner, "{root}", root).Replace(b.String())
}

// commitText is the statement of a shape and the names of its arguments.
type commitText struct {
	text  string
	names []string
}

// commitTexts are the statements made so far.
type commitTexts struct{ made sync.Map }

func (t *commitTexts) of(s shape) *commitText {
	if made, ok := t.made.Load(s); ok {
		return made.(*commitText)
	}
	text := &commitText{}
	text.text, text.names = number(s.text())
	made, _ := t.made.LoadOrStore(s, text)
	return made.(*commitText)
}
