package pgstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// The statements that commit steps of several sessions, each if its own conditions hold: joined, and joinedLogged if some
// append events. They skip sessions that another writer has locked, because waiting for them could deadlock two such
// statements. A step that is not in the answer is attempted alone. Each session occurs only once. The arguments are
// columns: of the heads, the messages, the checkpoints, the changes of state, the runs that begin, the runs that end,
// and the events, in this order. By the keys of heads, runs and logs, by sessions_id, staged_key and logs_name.
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

	sqlLoggedStep = `, $48::text[], $49::bigint[], $50::boolean[], $51::text[]) WITH ORDINALITY
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
	SET ended_at = CASE WHEN e.over THEN e.updated_at END, data = e.data
	FROM (
		SELECT e.*, h.updated_at
		FROM unnest($41::bigint[], $42::text[], $43::boolean[], $44::text[]) e (session, id, over, data) JOIN head h USING (session)
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
	FROM unnest($52::bigint[], $53::boolean[], $54::bytea[]) e (session, undated, data)
		JOIN head h USING (session)
		JOIN placed p ON p.key = e.session
)`

	sqlJoinedWritten = `
SELECT h.session, h.updated_at, h.lease_until, statement_timestamp(), h.logged
FROM head h`
)

const (
	// mostJoined bounds the number of steps in one statement, and largestJoined the size of a step in bytes: a larger
	// step is sent alone.
	mostJoined    = 64
	largestJoined = 64 << 10
	// longestHeld bounds the time for which steps wait although a collector is free: the statement that they wait for
	// may hang until its deadline.
	longestHeld = 50 * time.Millisecond
)

// joiner combines steps of different sessions that are pending at the same moment into one statement. A step that finds
// a free collector is sent at once, alone, unless that would break up larger statements: see [joiner.enough]. The
// others are sent together, in the order of their arrival, when a collector is done, or is free and they have waited
// for longestHeld. A step whose events go to a log to which a statement under way appends waits for that statement, as
// it would in the server: then it is sent with all the others of its log.
type joiner struct {
	db *database

	mu      sync.Mutex
	busy    int // collectors that send a statement
	sent    int // steps in their statements
	last    int // steps in the latest statement that is done
	waiting []*joinedStep
	logs    map[string]*joinedLog // to which those that wait or are being sent append
	blocked int                   // steps that wait for another one of their log
	held    *time.Timer           // set while steps wait although a collector is free
	idle    chan struct{}         // if set, it is closed once no collector is busy
}

// joinedLog is a log to which steps append.
type joinedLog struct {
	waiting int  // steps
	sending bool // a statement under way appends to it
}

// joinedStep is a step that waits for a collector.
type joinedStep struct {
	w     *write
	log   string        // to which it appends; empty for none
	batch *joinedBatch  // nil until a statement includes the step
	done  chan struct{} // closed once the fields below are set
	err   error         // of the statement, which may have been applied
	lone  bool          // the step was not written and must be attempted alone
}

// joinedBatch is a statement in progress.
type joinedBatch struct {
	steps  []*joinedStep
	asked  int // number of callers that wait for it
	cancel context.CancelFunc
}

// joins reports whether sqlJoined can write the delta, as it can for most steps.
func (w *write) joins() bool {
	d := w.d
	if len(d.Statements) > 0 || d.New || d.Lapsed || d.Due != "" || d.NextDeadline != (plan.Time{}) || d.Row.SuspendedStep != "" || w.forms() == commitAll {
		return false
	}
	size := len(w.startData) + len(w.endData) + len(w.events)
	for _, m := range w.messages {
		size += len(m)
	}
	if d.State != nil {
		size += len(d.State.Data)
	}
	return size <= largestJoined
}

// apply writes a delta: alone if a collector is free, and otherwise with others. Without a result, its conditions did not
// hold.
func (j *joiner) apply(ctx context.Context, w *write) error {
	step := &joinedStep{w: w, done: make(chan struct{})}
	if w.appends() {
		step.log = w.d.Row.Log()
	}
	j.mu.Lock()
	open := !j.blocks(step.log)
	free := open && j.busy < j.db.opts.Collectors && j.enough(j.ready()+1, j.busy)
	if free {
		j.busy++
	}
	if free && j.last <= 1 && j.ready() == 0 {
		j.begin(step)
		j.mu.Unlock()
		defer j.next(step)
		return j.db.alone(ctx, w)
	}
	j.queue(step)
	if open && !free && j.busy < j.db.opts.Collectors {
		j.hold()
	}
	j.mu.Unlock()
	if free {
		runtime.Gosched() // callers that are about to commit get the time to
		if j.takeAlone(step) {
			defer j.next(step)
			return j.db.alone(ctx, w)
		}
		j.next()
	}
	select {
	case <-step.done:
	case <-ctx.Done():
		if err := j.leave(ctx, step); err != nil {
			return err
		}
	}
	if step.lone {
		return j.db.alone(ctx, w)
	}
	return step.err
}

// takeAlone takes a step out of those that wait, if it is the only one that can be sent.
func (j *joiner) takeAlone(step *joinedStep) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.waiting, step)
	if at < 0 || j.ready() != 1 || j.blocks(step.log) {
		return false
	}
	j.waiting = slices.Delete(j.waiting, at, at+1)
	j.leaves(step)
	j.begin(step)
	return true
}

// leave ends the wait of a step whose context is done. If the step is not being written yet, leave returns at once.
// Otherwise it returns when the server has reported the outcome, or has failed to do so in time.
func (j *joiner) leave(ctx context.Context, step *joinedStep) error {
	j.mu.Lock()
	at := slices.Index(j.waiting, step)
	if at >= 0 {
		j.waiting = slices.Delete(j.waiting, at, at+1)
		j.leaves(step)
	}
	j.mu.Unlock()
	if at >= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case <-step.done:
		return nil
	case <-timer.C:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if step.batch.asked--; step.batch.asked == 0 {
		step.batch.cancel()
	}
	return ctx.Err()
}

// enough reports whether steps are at least as many as those in an average statement of the others that are being sent.
// Otherwise a step that comes right behind a full statement would be sent alone, and the steps after it would wait for
// both.
func (j *joiner) enough(steps, others int) bool { return steps*others >= j.sent }

// next assigns the pending steps, if they are enough, to a collector that is done with a statement of other steps.
func (j *joiner) next(done ...*joinedStep) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, step := range done {
		j.end(step)
	}
	if len(done) > 0 {
		j.last = len(done)
	}
	switch {
	case j.ready() == 0:
	case j.enough(j.ready(), j.busy-1):
		j.assign()
		return
	default:
		j.hold()
	}
	if j.busy--; j.busy == 0 && j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}

// hold assigns the pending steps to a free collector after longestHeld, unless another is done before.
func (j *joiner) hold() {
	if j.held == nil {
		j.held = time.AfterFunc(longestHeld, j.assignHeld)
	}
}

func (j *joiner) assignHeld() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = nil
	if j.ready() > 0 && j.busy < j.db.opts.Collectors {
		j.busy++
		j.assign()
	}
}

// assign gives the pending steps to a collector, which counts as busy already.
func (j *joiner) assign() {
	if j.held != nil {
		j.held.Stop()
		j.held = nil
	}
	b := &joinedBatch{}
	sessions := map[int64]bool{}
	rest := j.waiting[:0]
	for _, step := range j.waiting {
		if len(b.steps) == mostJoined || sessions[step.w.key] || j.blocks(step.log) {
			rest = append(rest, step)
			continue
		}
		sessions[step.w.key], step.batch = true, b
		b.steps = append(b.steps, step)
	}
	clear(j.waiting[len(rest):])
	j.waiting, b.asked = rest, len(b.steps)
	for _, step := range b.steps {
		j.leaves(step)
		j.begin(step)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() {
		defer j.next(b.steps...)
		defer cancel()
		j.write(ctx, b)
	}()
}

// wait returns when no statement is in progress.
func (j *joiner) wait() {
	j.mu.Lock()
	if j.busy == 0 {
		j.mu.Unlock()
		return
	}
	if j.idle == nil {
		j.idle = make(chan struct{})
	}
	idle := j.idle
	j.mu.Unlock()
	<-idle
}

// write writes the steps of a batch and reports to their callers. A step whose session another writer has locked, or
// whose conditions do not hold, is attempted alone. So is every step if the server refuses the statement, since one of
// them may have a value that the server cannot store. If the answer was lost, each caller finds out whether its step
// was written.
func (j *joiner) write(ctx context.Context, b *joinedBatch) {
	var err error
	if len(b.steps) == 1 {
		err = j.db.alone(ctx, b.steps[0].w)
	} else {
		err = j.db.once(ctx, once, func(ctx context.Context, c *conn) error { return b.send(ctx, c) })
	}
	refused := err != nil && state(err) != "" && !lost(err) && !undone(err)
	for _, step := range b.steps {
		switch {
		case len(b.steps) == 1, err != nil && !refused:
			step.err = err
		default:
			step.lone = step.w.result == nil
		}
		close(step.done)
	}
}

// send sends the statement. If it fails, no step has a result.
func (b *joinedBatch) send(ctx context.Context, c *conn) error {
	columns := newJoinedColumns(len(b.steps))
	of := map[int64]*write{}
	for _, step := range b.steps {
		columns.add(step.w)
		of[step.w.key] = step.w
	}
	text := joined
	if columns.logged() {
		text = joinedLogged
	}
	var answers []*answer
	err := c.query(ctx, text, func(rows pgx.Rows) error {
		a := &answer{}
		answers = append(answers, a)
		return rows.Scan(a.columns()...)
	}, columns.values()...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		of[a.key].written(a)
	}
	return nil
}
