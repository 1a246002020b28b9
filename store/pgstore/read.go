package pgstore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// Read implements driver.Store. It is one round trip.
func (s *Store) Read(ctx context.Context, id string, want driver.Want) (snap *driver.Contents, err error) {
	err = s.try(ctx, "read", reads, func(ctx context.Context, c *conn) error {
		if want == (driver.Want{}) {
			r, err := c.find(ctx, id)
			if err == nil {
				s.remember(r)
				snap = &driver.Contents{Session: r.session}
				err = r.stopInto(snap)
			}
			return err
		}
		snap, err = c.read(ctx, id, &want)
		return err
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// read reads a session's row and what else want selects.
func (c *conn) read(ctx context.Context, id string, want *driver.Want) (*driver.Contents, error) {
	snap := &driver.Contents{}
	var r *storedRow
	var states chain
	list := []reading{{sqlSession, []any{id}, func(rows pgx.Rows) error {
		r = &storedRow{}
		return r.read(rows, &r.over)
	}}}
	list = append(list, pastReadings(id, want, snap, &states)...)
	list = append(list, otherReadings(id, want, snap)...)
	err := c.view(ctx, list...)
	if err == nil {
		err = c.checkUsable(ctx, id, r)
	}
	switch {
	case err != nil:
		return nil, err
	case want.Checkpoint != "" && snap.Checkpoint == nil:
		return nil, driver.UnknownCheckpoint(id, want.Checkpoint)
	case want.Run != "" && snap.Run == nil:
		return nil, driver.UnknownRun(id, want.Run)
	}
	c.db.remember(r)
	snap.Session = r.session
	if want.State {
		snap.State, err = states.fold()
	}
	return snap, errors.Join(err, r.stopInto(snap))
}

// stopInto reads the stop request for the run that holds the session.
func (r *storedRow) stopInto(snap *driver.Contents) error {
	stop, err := r.stop.decode()
	snap.Stop = backend.StopOf(r.session.RunID, stop)
	return err
}

// pastReadings returns the readings of a session's history that want selects.
func pastReadings(id string, want *driver.Want, snap *driver.Contents, states *chain) (list []reading) {
	if want.Checkpoint != "" {
		list = append(list, reading{sqlCheckpoint, []any{id, keyOf(want.Checkpoint)}, func(rows pgx.Rows) error {
			cp, err := readCheckpoint(rows, id)
			snap.Checkpoint = &cp
			return err
		}})
	}
	if want.Run != "" {
		list = append(list, reading{sqlRun, []any{id, want.Run}, func(rows pgx.Rows) error {
			run, err := readRun(rows, id)
			snap.Run = &run
			return err
		}})
	}
	switch {
	case want.State && want.Checkpoint != "":
		list = append(list, reading{sqlStateAtCheckpoint, []any{id, keyOf(want.Checkpoint)}, states.read})
	case want.State:
		list = append(list, reading{sqlState, []any{id}, states.read})
	}
	if want.Messages {
		text := sqlMessages
		if want.Recent {
			text = sqlRecentMessages
		}
		list = append(list, reading{text, []any{id, max(want.From, 0), want.Size()}, into(&snap.Messages, readMessage)})
	}
	return list
}

// otherReadings returns the other readings that want selects.
func otherReadings(id string, want *driver.Want, snap *driver.Contents) (list []reading) {
	switch {
	case want.Staged && want.StagedStep != "":
		list = append(list, reading{sqlStagedOfStep, []any{id, want.StagedStep}, into(&snap.Staged, readPiece)})
	case want.Staged:
		list = append(list, reading{sqlStaged, []any{id}, into(&snap.Staged, readPiece)})
	}
	if want.Calls {
		list = append(list, reading{sqlCallsOfStep, []any{id}, into(&snap.Calls, readCall)})
	}
	if want.Cache {
		list = append(list, reading{sqlCache, []any{id}, into(&snap.Cache, readEntry)})
	}
	if want.Queue {
		list = append(list, reading{sqlQueue, []any{id}, into(&snap.Queue, readTurn)})
	}
	return list
}

// into returns a function that appends the rows of a reading to a list.
func into[T any](list *[]T, read func(pgx.Rows) (T, error)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		item, err := read(rows)
		if err == nil {
			*list = append(*list, item)
		}
		return err
	}
}
