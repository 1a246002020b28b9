package sqlitestore

import (
	"context"
	"math"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const sqlMessages = `
	SELECT m.data
	FROM sessions s JOIN messages m ON m.session = s.key
	WHERE s.id = ?1 AND m.number >= ?2
	ORDER BY m.number LIMIT ?3`

// sqlDelete removes a session and everything it owns.
var sqlDelete = []string{
	`DELETE FROM messages WHERE session = ?1`,
	`DELETE FROM state WHERE session = ?1`,
	`DELETE FROM runs WHERE session = ?1`,
	`DELETE FROM checkpoints WHERE session = ?1`,
	sqlDropStaged,
	`DELETE FROM assignments WHERE call IN (SELECT key FROM calls WHERE session = ?1)`,
	`DELETE FROM calls WHERE session = ?1`,
	`DELETE FROM queue WHERE session = ?1`,
	`DELETE FROM cache WHERE session = ?1`,
	`DELETE FROM heads WHERE session = ?1`,
	`DELETE FROM sessions WHERE key = ?1`,
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, id string) (*cairn.Session, error) {
	var r *record
	err := s.readers.read(ctx, func(c *conn) (err error) {
		r, err = find(c, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.session, nil
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, id string, from int) (*store.Snapshot, error) {
	snap := &store.Snapshot{}
	err := s.readers.view(ctx, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		snap.Session = r.session
		if snap.State, err = stateAt(ctx, c, r.key, r.session.State.Position); err != nil {
			return err
		}
		if snap.Messages, err = readMessages(ctx, c, id, from, math.MaxInt); err != nil {
			return err
		}
		if snap.Staged, err = readStaged(ctx, c, r.key, ""); err != nil {
			return err
		}
		if step := r.session.SuspendedStep; step != "" {
			if snap.Calls, err = readCalls(ctx, c, sqlCallsOfStep, r.key, step); err != nil {
				return err
			}
		}
		snap.Cache, err = readCache(ctx, c, r.key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// Messages implements store.Store.
func (s *Store) Messages(ctx context.Context, id string, from, limit int) (list []cairn.Message, err error) {
	err = s.readers.view(ctx, func(c *conn) error {
		if _, err := findKey(c, id); err != nil {
			return err
		}
		list, err = readMessages(ctx, c, id, from, store.PageSize(limit))
		return err
	})
	return list, err
}

func readMessages(ctx context.Context, c *conn, id string, from, limit int) (list []cairn.Message, err error) {
	err = c.query(ctx, sqlMessages, func(cols *columns) bool {
		var m cairn.Message
		cols.json("message", &m)
		list = append(list, m)
		return true
	}, id, max(from, 0), limit)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Delete implements store.Store. Its event log is left to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	err := s.writer.write(ctx, true, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		if r.session.Running(s.clock()) {
			return store.Conflict(cairn.CodeRunning, r.session, "session %q is running", id)
		}
		for _, text := range sqlDelete {
			if _, err := c.exec(text, r.key); err != nil {
				return err
			}
		}
		return nil
	})
	return fault("delete", err)
}
