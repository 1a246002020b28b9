package pgstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// By the keys of messages and runs.
	sqlMessages = `
		SELECT m.created_at, coalesce(m.run, r.id, ''), m.data
		FROM {schema}.sessions s JOIN {schema}.messages m ON m.session = s.key
			LEFT JOIN {schema}.runs r ON r.session = m.session AND r.turn = m.turn
		WHERE s.id = $1 AND m.number >= $2::bigint
		ORDER BY m.number
		LIMIT $3`

	// sqlRecentMessages reads the messages from the latest summary on. The summary's place is looked up first: in a
	// join, the server would compare it with each message once it knows that the session has most of the table. No
	// message has the number beyond. With both ends unknown the server expects few rows and reads them by their key. By
	// the keys of messages, heads and runs.
	sqlRecentMessages = `
		WITH latest AS MATERIALIZED (
			SELECT s.key AS session, greatest($2::bigint, (h.data::json #>> '{summary,from}')::bigint) AS number, 1::bigint << 62 AS beyond
			FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
			WHERE s.id = $1)
		SELECT m.created_at,
			coalesce(m.run, (SELECT r.id FROM {schema}.runs r WHERE r.session = m.session AND r.turn = m.turn), ''), m.data
		FROM {schema}.messages m
		WHERE m.session = (SELECT session FROM latest)
			AND m.number >= (SELECT number FROM latest) AND m.number < (SELECT beyond FROM latest)
		ORDER BY m.number
		LIMIT $3`

	// sqlDelete removes a session and everything it owns. The caller has locked the head, see sqlLockSession, and
	// checked the lease.
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

// Delete implements driver.Store. The event log is left to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.try(ctx, "delete", once, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			r, err := c.lock(ctx, id)
			if err != nil {
				return err
			}
			if r.session.Running(r.session.AsOf) {
				return driver.Conflict(cairn.ErrAlreadyRunning, r.session, "session %q is running", id)
			}
			s.known.Drop(id)
			_, err = c.exec(ctx, sqlDelete, r.key)
			return err
		})
	})
}
