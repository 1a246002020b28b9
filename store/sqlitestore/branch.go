package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlCopyMessages = `
		INSERT INTO messages (place, created_at, run_length, data)
		SELECT (?3 << 31) + ` + placeNumber + `, created_at, run_length, data FROM messages WHERE ` + lessNumber + ` ORDER BY place`

	// The state of the latest checkpoint with at most ?2 messages, or else the oldest state; and the messages of the
	// oldest checkpoint if it was not the first.
	sqlPositionBefore = `
		SELECT coalesce(at, (SELECT min(place) & 0x7fffffff FROM state WHERE ` + ofOwner + `)), at IS NULL,
			coalesce((SELECT CASE parent_id WHEN '' THEN 0 ELSE message_count END FROM checkpoints
				WHERE session = ?1 ORDER BY number LIMIT 1), 0)
		FROM (SELECT (SELECT state_position FROM checkpoints
			WHERE session = ?1 AND message_count <= ?2 ORDER BY number DESC LIMIT 1) AS at)`
)

// Branch implements driver.Store.
func (s *Store) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(to.ID); err != nil {
		return nil, err
	}
	if err := at.Commit(to).ValidateFor(s.abilities()); err != nil {
		return nil, err
	}
	texts, err := messageTexts(at.Tail)
	if err != nil {
		return nil, err
	}
	w := &write{s: s, id: to.ID, texts: texts}
	run := func(c *conn) error {
		source, err := find(c, from)
		if err != nil {
			return err
		}
		there, err := find(c, to.ID)
		if err == nil {
			return driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", to.ID)
		}
		if _, known := err.(*cairn.Error); !known {
			return err
		}
		count, position, err := source.resolve(c, at)
		if err != nil {
			return err
		}
		state, err := stateAt(ctx, c, source.key, position)
		if err != nil {
			return err
		}
		w.told = nil
		d := plan.Branch(to, &at, at.StateOr(state), count, source.session)
		if _, err := w.apply(c, d, nil, s.clock()); err != nil {
			return err
		}
		_, err = c.exec(sqlCopyMessages, source.key, d.FirstMessage, w.after.key)
		return err
	}
	err = s.looking(ctx, func() error {
		return s.writer.do(&job{ctx: ctx, durable: true, run: run, after: w.settled})
	})
	if err != nil {
		return nil, fault("branch", err)
	}
	return w.result, nil
}

// resolve returns how many messages a branch takes and its state's position.
func (r *storedRow) resolve(c *conn, at driver.BranchPoint) (count int, position int64, err error) {
	count, position = r.session.MessageCount, r.session.State.Position
	switch {
	case at.CheckpointID != "":
		cp, err := findCheckpoint(c, r, at.CheckpointID)
		if err != nil {
			return 0, 0, err
		}
		return cp.MessageCount, cp.StatePosition, nil
	case at.Messages == nil || *at.Messages == count:
		return count, position, nil
	case *at.Messages < 0 || *at.Messages > count:
		return 0, 0, cairn.Invalid("messages", "%d: session %q has only %d", *at.Messages, r.session.ID, count)
	}
	count = *at.Messages
	var none, pruned int64
	_, err = c.row(sqlPositionBefore, func(cols *columns) { position, none, pruned = cols.int64(), cols.int64(), cols.int64() }, r.key, count)
	if err == nil && none == 1 && pruned > 0 {
		err = driver.Pruned(r.session.ID, count, int(pruned))
	}
	return count, position, err
}
