package sqlitestore

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlRenew = `
		UPDATE heads SET lease_until = ?3, lease_ttl = ?4
		WHERE session = (SELECT key FROM sessions WHERE id = ?1) AND lease_token = ?2 AND lease_token > 0 AND lease_owner <> ''
		RETURNING run_id, stop`

	sqlSetStop = `UPDATE heads SET stop = ?2 WHERE session = ?1`

	sqlStops = `
		SELECT s.id, h.stop
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.stop <> ''`
)

// Renew implements driver.Store. A lease need not survive a loss of power, so renewing one does not wait for the disk.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	var stop *cairn.Stop
	err := s.writer.write(ctx, false, func(c *conn) error {
		var runID, text string
		until := micros(stored(s.clock().Add(ttl)))
		held, err := c.row(sqlRenew, func(cols *columns) { runID, text = cols.text(), cols.text() }, id, token, until, ttl.Microseconds())
		if err != nil {
			return err
		}
		if !held {
			r, err := find(c, id)
			if err != nil {
				return err
			}
			return plan.Released(r.session, token)
		}
		c.wrote = true
		stop, err = decodeStop(text)
		stop = backend.StopOf(runID, stop)
		return err
	})
	if err != nil {
		return nil, fault("renew the lease", err)
	}
	return stop, nil
}

// RequestStop implements driver.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	err := s.looking(ctx, func() error {
		return s.writer.do(&job{ctx: ctx, durable: true, after: s.stops.Raise, run: func(c *conn) error {
			r, err := find(c, id)
			if err != nil {
				return err
			}
			earlier, err := decodeStop(r.stop)
			if err != nil {
				return err
			}
			stands, write, err := plan.Stopped(r.session, earlier, stop)
			if err != nil || !write {
				return err
			}
			stands.At = s.clock()
			text, err := backend.EncodeJSON("stop request", stands)
			if err != nil {
				return err
			}
			_, err = c.exec(sqlSetStop, r.key, text)
			return err
		}})
	})
	return fault("request a stop", err)
}

// WatchStops implements driver.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		s.poller.join()
		defer s.poller.leave()
		backend.WatchStops(ctx, &s.stops, s.outstanding)(yield)
	}
}

// outstanding returns the stop requests of all sessions.
func (s *Store) outstanding(ctx context.Context) (map[string]cairn.Stop, error) {
	stops := map[string]cairn.Stop{}
	err := s.readers.read(ctx, func(c *conn) error {
		return c.query(ctx, sqlStops, func(cols *columns) bool {
			var stop cairn.Stop
			id := cols.text()
			cols.json("stop request", &stop)
			stops[id] = stop
			return true
		})
	})
	return stops, err
}
