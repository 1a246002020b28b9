package pgstore

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By sessions_id and the key of heads.
	sqlRenew = `
		UPDATE {schema}.heads h
		SET lease_until = statement_timestamp() + $3::interval, lease_ttl = $3::interval
		FROM {schema}.sessions s
		WHERE s.id = $1 AND h.session = s.key AND h.lease_token = $2 AND h.lease_token > 0 AND h.data::json ->> 'lease_owner' <> ''
		RETURNING CASE h.stop_run WHEN h.run_id THEN h.stop_run ELSE '' END, h.stop`

	// A second request for the same run replaces the first only if the second is an abort and the first is not.
	sqlRequestStop = `
		UPDATE {schema}.heads h
		SET stop_run = $2, stop = ($3::jsonb || jsonb_build_object('at', to_char(statement_timestamp() AT TIME ZONE 'UTC',
			'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text
		FROM {schema}.sessions s
		WHERE s.id = $1 AND h.session = s.key AND h.status = 'active' AND h.run_id = $2
			AND CASE
				WHEN h.stop_run <> $2 THEN TRUE
				WHEN $4::boolean THEN h.stop::jsonb ->> 'kind' <> 'abort'
				ELSE FALSE
			END`

	// By heads_stopped.
	sqlStops = `
		SELECT s.id, h.stop_run, h.stop
		FROM {schema}.heads h JOIN {schema}.sessions s ON s.key = h.session
		WHERE h.stop_run <> ''`
)

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (asked *cairn.Stop, err error) {
	err = s.try(ctx, "renew the lease", again, func(ctx context.Context, c *conn) error {
		var request stop
		held, err := c.row(ctx, sqlRenew, []any{&request.run, &request.data}, id, token, ttl)
		if err != nil {
			return err
		}
		if !held {
			return c.fenced(ctx, id, token)
		}
		asked, err = request.decode()
		return err
	})
	if err != nil {
		return nil, err
	}
	return asked, nil
}

// RequestStop implements driver.Store.
func (s *Store) RequestStop(ctx context.Context, id string, request cairn.Stop) error {
	if err := request.Validate(); err != nil {
		return err
	}
	request.At = time.Time{} // the store's clock sets it
	text, err := backend.EncodeJSON("stop request", request)
	if err != nil {
		return err
	}
	err = s.try(ctx, "request a stop", again, func(ctx context.Context, c *conn) error {
		asked, err := c.exec(ctx, sqlRequestStop, id, request.RunID, text, request.Kind == cairn.StopAbort)
		if err != nil || asked > 0 {
			return err
		}
		r, err := c.find(ctx, id)
		if err != nil {
			return err
		}
		if r.session.Status != cairn.SessionActive || r.session.RunID != request.RunID {
			return driver.Conflict(cairn.ErrNotRunning, r.session, "session %q: run %q is not running", id, request.RunID)
		}
		return nil // the earlier request stands
	})
	if err == nil {
		s.listener.stops.Raise()
		s.notifier.stopped()
	}
	return err
}

// WatchStops implements driver.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		s.listener.join()
		defer s.listener.leave()
		backend.WatchStops(ctx, &s.listener.stops, s.outstanding)(yield)
	}
}

// outstanding returns the stop requests of all sessions.
func (s *Store) outstanding(ctx context.Context) (map[string]cairn.Stop, error) {
	stops := map[string]cairn.Stop{}
	err := s.try(ctx, "look for stop requests", reads, func(ctx context.Context, c *conn) error {
		clear(stops)
		return c.query(ctx, sqlStops, func(rows pgx.Rows) error {
			var id string
			var request stop
			if err := rows.Scan(&id, &request.run, &request.data); err != nil {
				return err
			}
			asked, err := request.decode()
			if asked != nil {
				stops[id] = *asked
			}
			return err
		})
	})
	return stops, err
}
