package pgstore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlCopyMessages = `
		INSERT INTO {schema}.messages (session, created_at, number, run, data)
		SELECT b.key, m.created_at, m.number, coalesce(m.run, r.id), m.data
		FROM {schema}.sessions b, {schema}.messages m LEFT JOIN {schema}.runs r ON r.session = m.session AND r.turn = m.turn
		WHERE b.id = $1 AND m.session = $2 AND m.number < $3::bigint
		ORDER BY m.number`

	// sqlPositionBefore reads the state position of the latest checkpoint with at most $2 messages, or the oldest
	// position that is left, and the number of messages of the oldest checkpoint if that was not the first one ever.
	sqlPositionBefore = `
		SELECT coalesce(b.at, (SELECT min(position) FROM {schema}.state WHERE session = $1)), b.at IS NULL,
			coalesce((SELECT CASE WHEN parent IS NULL THEN 0 ELSE message_count END FROM {schema}.checkpoints
				WHERE session = $1 ORDER BY number LIMIT 1), 0)
		FROM (SELECT (SELECT state_position FROM {schema}.checkpoints
			WHERE session = $1 AND message_count <= $2::bigint ORDER BY number DESC LIMIT 1) AS at) b`
)

// Branch implements driver.Store. It locks the source session for its duration.
func (s *Store) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(to.ID); err != nil {
		return nil, err
	}
	var w *write
	err := s.try(ctx, "branch", once, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			source, err := c.lock(ctx, from)
			if err != nil {
				return err
			}
			w, err = c.branch(ctx, source, at, to)
			return err
		})
	})
	if w != nil {
		s.publish(w, err)
	}
	if err != nil {
		return nil, err
	}
	return w.result, nil
}

func (c *conn) branch(ctx context.Context, source *storedRow, at driver.BranchPoint, to *cairn.Session) (*write, error) {
	there, err := c.find(ctx, to.ID)
	if err == nil {
		return nil, driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", to.ID)
	}
	if !errors.Is(err, cairn.ErrNotFound) || driver.IsGone(err) {
		return nil, err
	}
	count, position, err := c.resolve(ctx, source, at)
	if err != nil {
		return nil, err
	}
	var ch chain
	if err := c.query(ctx, sqlStateAt, ch.read, source.key, position); err != nil {
		return nil, err
	}
	state, err := ch.fold()
	if err != nil {
		return nil, err
	}
	at.State = at.StateOr(state)
	w, err := c.db.prepare(to.ID, at.Commit(to))
	if err != nil {
		return nil, err
	}
	w.d = plan.Branch(to, &at, at.State, count, source.session)
	if err := w.encodeDelta(); err != nil {
		return nil, err
	}
	if err := w.apply(ctx, c); err != nil {
		return nil, err
	}
	if w.result == nil { // another writer created the session after this statement began
		return c.branch(ctx, source, at, to)
	}
	if n := w.d.FirstMessage; n > 0 {
		if _, err := c.exec(ctx, sqlCopyMessages, to.ID, source.key, n); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// resolve returns how many messages a branch takes and the position of its state.
func (c *conn) resolve(ctx context.Context, r *storedRow, at driver.BranchPoint) (count int, position int64, err error) {
	count, position = r.session.MessageCount, r.session.State.Position
	switch {
	case at.CheckpointID != "":
		cp, err := c.findCheckpoint(ctx, r.session.ID, at.CheckpointID)
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
	var none bool
	var pruned int
	_, err = c.row(ctx, sqlPositionBefore, []any{&position, &none, &pruned}, r.key, count)
	if err == nil && none && pruned > 0 {
		err = driver.Pruned(r.session.ID, count, pruned)
	}
	return count, position, err
}
