package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/compose"
	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

// By runs_id and checkpoints_step.
const sqlHappened = `
	SELECT EXISTS (SELECT FROM {schema}.runs WHERE session = $1 AND id = $2)
		OR EXISTS (SELECT FROM {schema}.checkpoints WHERE session = $1 AND step_id = $3 AND step_id <> '')`

// write is one commit with everything encoded.
type write struct {
	id    string
	c     *store.Commit
	shape shape
	// locks says that the commit has to be worked out under the lock of the session's row.
	locks bool

	initial   string
	messages  []string
	state     string
	usage     []int64
	custom    *string
	startData string
	endData   string
	turnData  string
	calls     callColumns
	cache     cacheColumns
	context   contextChange
	more      int // turns in the queue

	known   *knownSession  // for the statement of a shape withKnown
	next    *cairn.Session // the row after the commit, but for its times, for the statement of a shape withSums
	created *cairn.Session // the row, if the commit creates it, but for its times
	result  *cairn.Session
}

// Commit implements store.Store. It is one statement and one round trip, unless it is refused, rewinds or changes the
// session's queue of turns.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := prepare(id, c)
	if err != nil {
		return nil, err
	}
	if err := s.try(ctx, "commit", w.repeat(), func(ctx context.Context, cn *conn) error { return w.run(ctx, cn) }); err != nil {
		return nil, err
	}
	return w.result, nil
}

// CommitTx does what Commit does as part of a transaction of the caller's, so that rows of the caller's are written if and
// only if the step is. The session's row stays locked until the transaction ends: end it soon. Nothing is tried again. A
// conflict leaves the transaction usable, any other error may not.
func (s *Store) CommitTx(ctx context.Context, tx pgx.Tx, id string, c *store.Commit) (*cairn.Session, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	w, err := prepare(id, c)
	if err != nil {
		return nil, err
	}
	if err := w.runLocked(ctx, &conn{s: s, q: tx}); err != nil {
		return nil, fault("commit", err)
	}
	return w.result, nil
}

// key returns what tells that the commit has happened before: its run and its step. Both are empty if nothing does.
func (w *write) key() (run, step string) {
	if w.c.StartRun != nil {
		run = w.c.StartRun.ID
	}
	if w.c.Checkpoint != nil {
		step = w.c.Checkpoint.StepID
	}
	return run, step
}

func (w *write) repeat() repeat {
	if run, step := w.key(); run != "" || step != "" {
		return again
	}
	return once
}

// prepare encodes what a commit writes and works out the shape of its statement.
func prepare(id string, c *store.Commit) (*write, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &write{id: id, c: c}
	if c.Create != nil {
		if err := cairn.CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{w.prepareRuns, w.prepareContent, w.prepareWait, w.prepareCreate} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	w.guard()
	w.set(withStep, c.Step > 0)
	w.set(withRecovered, c.Recovered)
	w.set(withCheckpoint, c.Checkpoint != nil)
	w.set(withStatus, c.Status != "")
	w.set(withLog, c.LogSequence > 0)
	w.set(withDrop, c.DropStaged)
	w.set(withTake, c.Lease.Action == store.LeaseTake)
	w.set(withRenew, c.Lease.Action == store.LeaseRenew)
	w.set(withRelease, c.Lease.Action == store.LeaseRelease)
	w.locks = w.locks || c.Rewind != "" || c.RewindRun != "" || c.Enqueue != nil || c.Dequeue != ""
	return w, nil
}

func (w *write) set(bit shape, on bool) {
	if on {
		w.shape |= bit
	}
}

func (w *write) guard() {
	g := &w.c.Guard
	w.set(withVersion, g.Version != 0)
	w.set(withToken, g.Token != 0)
	w.set(withIdle, g.Idle)
	w.set(withLapsed, g.Lapsed)
	w.set(withAgent, g.Agent != "")
	if w.c.Create == nil {
		w.locks = w.locks || g.New // which cannot hold
		return
	}
	w.set(withCreate, true)
	w.set(onlyCreate, g.New)
	// What only a session that is there can do is rare together with a creation.
	refers := slices.ContainsFunc(w.c.Calls, func(c store.CallWrite) bool { return c.Seen != 0 })
	w.locks = w.locks || w.c.EndRun != nil || w.c.Context != nil || refers
}

func (w *write) prepareRuns() (err error) {
	if run := w.c.StartRun; run != nil {
		w.set(withStartRun, true)
		if w.startData, err = encode("run", run); err != nil {
			return err
		}
	}
	if run := w.c.EndRun; run != nil {
		w.set(withEndRun, true)
		if w.endData, err = encode("run", run); err != nil {
			return err
		}
	}
	u := &w.c.Usage
	w.usage = usageList(u)
	w.set(withUsage, slices.ContainsFunc(w.usage, func(n int64) bool { return n != 0 }))
	w.set(withCustom, len(u.Custom) > 0)
	w.custom, err = usageCustom(u)
	return err
}

func (w *write) prepareContent() (err error) {
	c := w.c
	if len(c.Messages) > 0 {
		w.set(withMessages, true)
		w.messages = make([]string, len(c.Messages))
		for i := range c.Messages {
			if w.messages[i], err = compose.MessageText(&c.Messages[i]); err != nil {
				return err
			}
		}
	}
	if c.State == nil {
		return nil
	}
	w.set(withState, true)
	w.set(withKeyframe, c.State.Keyframe != nil)
	w.state, err = encodeChange(c.State)
	return err
}

func (w *write) prepareWait() (err error) {
	c := w.c
	w.set(withSuspend, c.Suspend != nil)
	if len(c.Calls) > 0 {
		w.set(withCalls, true)
		if err = w.calls.fill(c.Calls); err != nil {
			return err
		}
	}
	if c.Enqueue != nil {
		if w.turnData, err = encode("queued turn", c.Enqueue.Messages); err != nil {
			return err
		}
	}
	w.set(withContext, c.Context != nil)
	if err = w.context.fill(c.Context); err != nil {
		return err
	}
	if err = w.cache.fill(c.Cache, c.CacheDrop); err != nil {
		return err
	}
	w.set(withCache, len(w.cache.keys) > 0)
	w.set(withCacheDrop, len(c.CacheDrop) > 0)
	return nil
}

// prepareCreate works out the row of a session that the commit creates.
func (w *write) prepareCreate() (err error) {
	if w.c.Create == nil {
		return nil
	}
	w.initial = initialState(w.c.InitialState)
	row := w.c.NewRow(w.id, time.Time{})
	row.State.KeyframeBytes = int64(len(w.initial))
	row.Lease.Token = 0 // the server adds the time of the creation
	w.created, _ = w.c.Advance(row, time.Time{}, len(w.state), 0)
	return nil
}

// initialState returns an initial state as it is stored.
func initialState(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}

// run does the commit in one statement if that can be, and else in a transaction.
func (w *write) run(ctx context.Context, c *conn) error {
	if w.locks {
		return c.transact(ctx, func(c *conn) error { return w.runLocked(ctx, c) })
	}
	if err := w.attemptKnown(ctx, c); err != nil && !contradicted(err) || w.result != nil {
		return err
	}
	seen, err := w.attempt(ctx, c, w.shape)
	switch {
	case contradicted(err):
	case err != nil, w.result != nil:
		return err
	case seen == nil && w.c.Create == nil:
		return c.gone(ctx, w.id)
	case seen != nil && w.c.Guard.Check(seen.session, seen.session.AsOf) != nil:
		done, err := w.check(ctx, c, seen)
		if err != nil || !done {
			return err
		}
		if seen, err = c.find(ctx, w.id); err != nil { // the row was seen before the commit was waited for
			return err
		}
		w.result = seen.session
		return nil
	}
	return c.transact(ctx, func(c *conn) error { return w.runLocked(ctx, c) })
}

// attemptKnown sends the statement that does not look up the session's owner, if that is known. If the statement does not
// apply, something is not as it was, and attempt finds out what.
func (w *write) attemptKnown(ctx context.Context, c *conn) error {
	w.known = c.s.known.get(w.id)
	if w.known == nil || w.shape.has(onlyCreate|withContext) || w.shape.has(withAgent) && w.c.Guard.Agent != w.known.row.Agent {
		return nil
	}
	s := w.shape&^(withCreate|withAgent) | withKnown
	if w.c.Guard.Version != 0 && w.c.Guard.Version == w.known.row.Version {
		return w.attemptKnownRow(ctx, c, s|withKnownRow)
	}
	r := &record{owner: w.known.owner, session: copyOf(w.known.row)}
	r.session.Usage, r.session.RunUsage = cairn.Usage{}, cairn.Usage{}
	applied := false
	err := w.send(ctx, c, s, func(rows pgx.Rows) error {
		applied = true
		return rows.Scan(r.columns()...)
	})
	if err == nil && applied {
		err = r.finish()
	}
	if err != nil || !applied {
		return err
	}
	w.result = r.session
	c.s.known.put(r.owner, r.session)
	return nil
}

// attemptKnownRow is attemptKnown for a commit to the very version that is known: the row after it follows from the row
// before, but for the time and a lease that was renewed meanwhile.
func (w *write) attemptKnownRow(ctx context.Context, c *conn, s shape) error {
	row, _ := w.c.Advance(w.known.row, time.Time{}, len(w.state), 0)
	if s.has(withUsage) {
		w.next, s = row, s&^withUsage|withSums
	}
	if store.DueKindOf(row) == "" {
		s |= withNotDue
	}
	if w.c.EndRun != nil && w.c.EndRun.ID == w.known.row.RunID {
		s |= withKnownRun
	}
	var now time.Time
	var until *time.Time
	err := w.send(ctx, c, s, func(rows pgx.Rows) error { return rows.Scan(&now, &until) })
	if err != nil || now.IsZero() {
		return err
	}
	row.UpdatedAt, row.AsOf = now.UTC(), now.UTC()
	if w.c.Suspend != nil {
		row.NextDeadline = w.c.Suspend.Deadline(row.UpdatedAt)
	}
	row.Lease.Until, row.NextDeadline = instant(until), kept(row.NextDeadline)
	w.result = copyOf(row)
	c.s.known.keep(w.known.owner, row)
	return nil
}

// send sends the statement of a shape.
func (w *write) send(ctx context.Context, c *conn, s shape, each func(pgx.Rows) error) error {
	text := c.s.commits.of(s)
	args := make([]any, len(text.names))
	for i, name := range text.names {
		args[i] = w.argument(name)
	}
	return c.query(ctx, text.text, each, args...)
}

// attempt sends the statement of a shape. If it does not apply it returns the row that the guard was held against, or nil
// if there is none.
func (w *write) attempt(ctx context.Context, c *conn, s shape) (seen *record, err error) {
	var r *record
	var applied bool
	err = w.send(ctx, c, s, func(rows pgx.Rows) error {
		r = &record{}
		return r.read(rows, &applied)
	})
	switch {
	case err != nil: // also if the row came, for the server commits after that
		return nil, err
	case applied:
		w.result = r.session
		if !c.inTransaction() { // what is not committed yet is not known
			c.s.known.put(r.owner, r.session)
		}
		return nil, nil
	}
	return r, nil
}

// check returns the conflict of the guard with a session's record. done says that the commit had been applied before.
func (w *write) check(ctx context.Context, c *conn, r *record) (done bool, err error) {
	conflict := w.c.Guard.Check(r.session, r.session.AsOf)
	if errors.Is(conflict, cairn.ErrFenced) && !w.c.Took(r.session) {
		return false, conflict
	}
	if run, step := w.key(); run != "" || step != "" {
		if _, err := c.row(ctx, sqlHappened, []any{&done}, r.key, run, step); err != nil {
			return false, err
		}
	}
	if !done {
		return false, conflict
	}
	w.result = r.session
	return true, nil
}
