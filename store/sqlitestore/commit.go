package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/compose"
	"github.com/cairn-agents/cairn/store"
)

const (
	sqlInsertMessage = `INSERT INTO messages (session, number, data) VALUES (?1, ?2, ?3)`

	sqlHappened = `
		SELECT EXISTS (SELECT 1 FROM runs WHERE session = ?1 AND id = ?2)
			OR EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1 AND step_id = ?3 AND step_id <> '')`
)

// write is one commit with everything encoded that does not depend on the session's row.
type write struct {
	s        *Store
	id       string
	c        *store.Commit
	initial  string
	messages []string // empty where the time of the commit is still to be filled in
	change   *change
	turn     string // the messages of Enqueue
	cache    []string

	result *cairn.Session
}

// plan is what a commit comes to on the row it finds.
type plan struct {
	before  *record
	after   record
	origin  *origin // where the session goes back to first, or nil
	effect  store.Effect
	calls   []callRow
	enqueue bool
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := s.prepare(id, c)
	if err != nil {
		return nil, err
	}
	err = s.writer.write(ctx, true, w.run)
	if constraint(err) {
		return w.repeated(ctx, err)
	}
	if err != nil {
		return nil, fault("commit", err)
	}
	return w.result, nil
}

func (s *Store) prepare(id string, c *store.Commit) (*write, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &write{s: s, id: id, c: c}
	if c.Create != nil {
		if err := cairn.CheckSessionID(id); err != nil {
			return nil, err
		}
		w.initial = initialState(c.InitialState)
	}
	if c.State != nil {
		var err error
		if w.change, err = encodeChange(c.State); err != nil {
			return nil, err
		}
	}
	w.messages = make([]string, len(c.Messages))
	for i := range c.Messages {
		if c.Messages[i].CreatedAt.IsZero() {
			continue
		}
		var err error
		if w.messages[i], err = compose.MessageText(&c.Messages[i]); err != nil {
			return nil, err
		}
	}
	if c.Enqueue != nil {
		var err error
		if w.turn, err = encode("queued turn", c.Enqueue.Messages); err != nil {
			return nil, err
		}
	}
	w.cache = make([]string, len(c.Cache))
	for i := range c.Cache {
		var err error
		if w.cache[i], err = encode("cached result", &c.Cache[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// run does the commit within a transaction. All that can be refused is refused before the first write.
func (w *write) run(c *conn) error {
	now := w.s.clock()
	before, err := find(c, w.id)
	switch {
	case errors.Is(err, cairn.ErrNotFound) && w.c.Create != nil && !store.IsGone(err):
		before = &record{session: w.c.NewRow(w.id, now)}
		before.session.State.KeyframeBytes = int64(len(w.initial))
	case err != nil:
		return err
	default:
		if done, err := w.check(c, before, now); done || err != nil {
			return err
		}
	}
	p, err := w.plan(c, before, now)
	if err != nil {
		return err
	}
	if err := w.apply(c, &p); err != nil {
		return err
	}
	w.result = p.after.session
	return nil
}

// check returns the conflict of the guard with a session's record. done says that the commit had been applied before. If
// the guard holds, that is looked up only for a commit that plan may refuse: any other one shows it by its keys, see
// repeated.
func (w *write) check(c *conn, before *record, now time.Time) (done bool, err error) {
	conflict := w.c.Guard.Check(before.session, now)
	refusable := w.c.Rewind != "" || w.c.RewindRun != "" || w.c.Dequeue != "" || len(w.c.Calls) > 0
	if conflict == nil && !refusable || errors.Is(conflict, cairn.ErrFenced) && !w.c.Took(before.session) {
		return false, conflict
	}
	done, err = w.happened(c, before.key)
	switch {
	case err != nil:
		return false, err
	case !done:
		return false, conflict
	}
	w.result = before.session
	return true, nil
}

// plan works out what a commit comes to, and refuses what does not fit what is there.
func (w *write) plan(c *conn, before *record, now time.Time) (p plan, err error) {
	p.before = before
	if p.calls, err = w.checkCalls(c, before); err != nil {
		return p, err
	}
	if p.origin, err = before.origin(c, w.c); err != nil {
		return p, err
	}
	var more int
	if p.enqueue, more, err = w.checkQueue(c, before); err != nil {
		return p, err
	}
	at := before
	if p.origin != nil {
		at = before.backAt(p.origin)
	}
	p.after = record{key: at.key, checkpoints: at.checkpoints, stop: at.stop}
	p.after.session, p.effect = w.c.Advance(at.session, now, w.change.size(), at.checkpoints)
	p.after.session.Queued += more
	p.after.normalize(before)
	return p, encodeCalls(p.calls, p.effect.Calls)
}

// apply writes the rows of a commit.
func (w *write) apply(c *conn, p *plan) error {
	after, fx := &p.after, &p.effect
	// The run is looked for as it is written, so this comes first.
	if fx.EndRun != nil {
		if err := after.endRun(c, fx.EndRun); err != nil {
			return err
		}
	}
	if p.origin != nil {
		if err := after.cut(c, p.origin); err != nil {
			return err
		}
	}
	if fx.Checkpoint != nil {
		after.checkpoints = fx.Checkpoint.Number
	}
	if after.key == 0 {
		if err := after.insert(c); err != nil {
			return err
		}
		if err := insertState(c, after.key, 0, &change{keyframe: true, data: w.initial}); err != nil {
			return err
		}
	} else if err := after.update(c, p.before, w.c.Context != nil); err != nil {
		return err
	}
	if fx.StartRun != nil {
		if err := insertRun(c, after.key, fx.StartRun); err != nil {
			return err
		}
	}
	if err := w.insertMessages(c, after, fx.FirstMessage); err != nil {
		return err
	}
	if w.change != nil {
		if err := insertState(c, after.key, after.session.State.Position, w.change); err != nil {
			return err
		}
	}
	if fx.Checkpoint != nil {
		if err := insertCheckpoint(c, after.key, fx.Checkpoint); err != nil {
			return err
		}
	}
	if w.c.DropStaged {
		if _, err := c.exec(sqlDropStaged, after.key); err != nil {
			return err
		}
	}
	return w.applyWait(c, p)
}

// applyWait writes what a commit changes in the rows that waiting needs: calls, queue and cache.
func (w *write) applyWait(c *conn, p *plan) error {
	key := p.after.key
	for i := range p.calls {
		if err := p.calls[i].write(c, key); err != nil {
			return err
		}
	}
	if p.enqueue {
		if _, err := c.exec(sqlEnqueue, key, w.c.Enqueue.ID, w.turn); err != nil {
			return err
		}
	}
	if w.c.Dequeue != "" {
		if _, err := c.exec(sqlDequeue, key, w.c.Dequeue); err != nil {
			return err
		}
	}
	return w.writeCache(c, key)
}

func (w *write) insertMessages(c *conn, after *record, first int) error {
	for i, data := range w.messages {
		if data == "" {
			m := w.c.Messages[i]
			m.CreatedAt = after.session.UpdatedAt
			var err error
			if data, err = compose.MessageText(&m); err != nil {
				return err
			}
		}
		if _, err := c.exec(sqlInsertMessage, after.key, first+i, data); err != nil {
			return err
		}
	}
	return nil
}

// happened reports whether a commit whose guard failed had been applied before.
func (w *write) happened(c *conn, key int64) (yes bool, err error) {
	var run, step string
	if w.c.StartRun != nil {
		run = w.c.StartRun.ID
	}
	if w.c.Checkpoint != nil {
		step = w.c.Checkpoint.StepID
	}
	if run == "" && step == "" {
		return false, nil
	}
	_, err = c.row(sqlHappened, func(cols *columns) { yes = cols.int64() != 0 }, key, run, step)
	return yes, err
}

// repeated answers a commit that would have written a run, step or checkpoint a second time: it had no guard that
// could fail.
func (w *write) repeated(ctx context.Context, cause error) (row *cairn.Session, err error) {
	err = w.s.readers.view(ctx, func(c *conn) error {
		r, err := find(c, w.id)
		if err != nil {
			return err
		}
		happened, err := w.happened(c, r.key)
		if err == nil && !happened {
			err = cairn.Errorf(cairn.CodeInvalid, "session %q has a run or checkpoint of that id: %w", w.id, cause)
		}
		row = r.session
		return err
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

// initialState returns an initial state as it is stored.
func initialState(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}
