package pgstore

import (
	"context"
	"math"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

const (
	// By the key of messages.
	sqlMessages = `
		SELECT m.created_at, m.data
		FROM {schema}.sessions s JOIN {schema}.messages m ON m.session = s.key
		WHERE s.id = $1 AND m.number >= $2
		ORDER BY m.number
		LIMIT $3`

	// A session and everything it owns, if its lease is not good. What somebody is writing meanwhile is waited for, since
	// it holds the head's lock; see sqlLockSession.
	sqlDelete = `
		WITH messages AS (DELETE FROM {schema}.messages WHERE session = $1),
			state AS (DELETE FROM {schema}.state WHERE session = $1),
			runs AS (DELETE FROM {schema}.runs WHERE session = $1),
			checkpoints AS (DELETE FROM {schema}.checkpoints WHERE session = $1),
			staged AS (DELETE FROM {schema}.staged WHERE session = $1),
			calls AS (DELETE FROM {schema}.calls WHERE session = $1 RETURNING root_id, id),
			assignments AS (
				DELETE FROM {schema}.assignments a USING calls c WHERE a.root_id = c.root_id AND a.id = c.id),
			queue AS (DELETE FROM {schema}.queue WHERE session = $1),
			cache AS (DELETE FROM {schema}.cache WHERE session = $1),
			heads AS (DELETE FROM {schema}.heads WHERE session = $1)
		DELETE FROM {schema}.sessions WHERE key = $1`
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, id string) (*cairn.Session, error) {
	var r *record
	err := s.try(ctx, "load", reads, func(ctx context.Context, c *conn) (err error) {
		r, err = c.find(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.session, nil
}

// Snapshot implements store.Store. It is one round trip.
func (s *Store) Snapshot(ctx context.Context, id string, from int) (*store.Snapshot, error) {
	var snap *store.Snapshot
	err := s.try(ctx, "load", reads, func(ctx context.Context, c *conn) error {
		snap = &store.Snapshot{}
		over := false
		var ch chain
		err := c.view(ctx,
			reading{sqlSession, []any{id}, func(rows pgx.Rows) error {
				r := &record{}
				err := r.read(rows, &r.over)
				snap.Session, over = r.session, r.over && !r.session.Running(r.session.AsOf)
				return err
			}},
			reading{sqlState, []any{id}, ch.read},
			reading{sqlMessages, []any{id, max(from, 0), int64(math.MaxInt64)}, func(rows pgx.Rows) error {
				m, err := readMessage(rows)
				snap.Messages = append(snap.Messages, m)
				return err
			}},
			reading{sqlStaged, []any{id}, func(rows pgx.Rows) error {
				p, err := readPiece(rows)
				snap.Staged = append(snap.Staged, p)
				return err
			}},
			reading{sqlCallsOfStep, []any{id}, func(rows pgx.Rows) error {
				call, err := readCall(rows)
				snap.Calls = append(snap.Calls, call)
				return err
			}},
			reading{sqlCache, []any{id}, func(rows pgx.Rows) error {
				e, err := readEntry(rows)
				snap.Cache = append(snap.Cache, e)
				return err
			}})
		switch {
		case err != nil:
			return err
		case snap.Session == nil:
			return c.gone(ctx, id)
		case over:
			return &overdue{[]string{snap.Session.RootID}}
		}
		snap.State, err = ch.fold()
		return err
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// Messages implements store.Store.
func (s *Store) Messages(ctx context.Context, id string, from, limit int) ([]cairn.Message, error) {
	return readOwned(ctx, s, "read messages", id, sqlMessages, readMessage, max(from, 0), store.PageSize(limit))
}

func readMessage(rows pgx.Rows) (cairn.Message, error) {
	var m cairn.Message
	var created time.Time
	err := readJSON(rows, "message", &m, &created)
	if m.CreatedAt.IsZero() {
		m.CreatedAt = created.UTC()
	}
	return m, err
}

// Delete implements store.Store. Its event log is left to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.try(ctx, "delete", once, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			r, err := c.findBy(ctx, sqlLockSession, id)
			if err != nil {
				return err
			}
			if r.session.Running(r.session.AsOf) {
				return store.Conflict(cairn.CodeRunning, r.session, "session %q is running", id)
			}
			s.known.drop(id)
			_, err = c.exec(ctx, sqlDelete, r.key)
			return err
		})
	})
}
