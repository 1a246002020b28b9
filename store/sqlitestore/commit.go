package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
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

	result *cairn.Session
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
	w := &write{s: s, id: id, c: c}
	if c.Create != nil {
		if err := cairn.CheckSessionID(id); err != nil {
			return nil, err
		}
		initial, err := checkState(c.InitialState)
		if err != nil {
			return nil, err
		}
		w.initial = initial
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
		if w.messages[i], err = encode("message", &c.Messages[i]); err != nil {
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
	case errors.Is(err, cairn.ErrNotFound) && w.c.Create != nil:
		before = &record{session: w.c.NewRow(w.id, now)}
		before.session.State.KeyframeBytes = int64(len(w.initial))
	case err != nil:
		return err
	default:
		if conflict := w.c.Guard.Check(before.session, now); conflict != nil {
			if errors.Is(conflict, cairn.ErrFenced) {
				return conflict
			}
			happened, err := w.happened(c, before.key)
			switch {
			case err != nil:
				return err
			case !happened:
				return conflict
			}
			w.result = before.session
			return nil
		}
	}

	at := *before
	if w.c.Rewind != "" {
		if err := at.rewind(c, w.c.Rewind); err != nil {
			return err
		}
	}
	row, fx := w.c.Advance(at.session, now, w.change.size(), at.checkpoints)
	after := record{key: at.key, session: row, checkpoints: at.checkpoints, stop: at.stop}
	after.normalize()
	if err := w.apply(c, before, &after, fx); err != nil {
		return err
	}
	w.result = row
	return nil
}

// apply writes the rows of a commit.
func (w *write) apply(c *conn, before, after *record, fx store.Effect) error {
	if fx.EndRun != nil {
		if err := after.endRun(c, fx.EndRun); err != nil {
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
	} else if err := after.update(c, before, w.c.Context != nil); err != nil {
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
	return nil
}

func (w *write) insertMessages(c *conn, after *record, first int) error {
	for i, data := range w.messages {
		if data == "" {
			m := w.c.Messages[i]
			m.CreatedAt = after.session.UpdatedAt
			var err error
			if data, err = encode("message", &m); err != nil {
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

// checkState returns an initial state as it is stored.
func checkState(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "{}", nil
	}
	if !json.Valid(raw) {
		return "", cairn.Invalid("initial_state", "is not valid JSON")
	}
	return string(raw), nil
}
