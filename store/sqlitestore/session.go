package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// sqlDelete removes a session and everything it owns.
var sqlDelete = []string{
	`DELETE FROM messages WHERE ` + ofOwner,
	`DELETE FROM state WHERE ` + ofOwner,
	`DELETE FROM runs WHERE ` + ofOwner,
	`DELETE FROM checkpoints WHERE session = ?1`,
	sqlDropStaged,
	`DELETE FROM assignments WHERE call IN (SELECT key FROM calls WHERE session = ?1)`,
	`DELETE FROM calls WHERE session = ?1`,
	`DELETE FROM queue WHERE ` + ofOwner,
	`DELETE FROM cache WHERE session = ?1`,
	`DELETE FROM heads WHERE session = ?1`,
	`DELETE FROM sessions WHERE key = ?1`,
}

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, id string, want driver.Want) (snap *driver.Contents, err error) {
	read := s.readers.view
	if want == (driver.Want{}) { // one statement is a consistent view by itself
		read = s.readers.read
	}
	err = read(ctx, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		snap = &driver.Contents{Session: r.session}
		stop, err := decodeStop(r.stop)
		if err != nil {
			return err
		}
		snap.Stop = backend.StopOf(r.session.RunID, stop)
		if err := r.past(ctx, c, &want, snap); err != nil {
			return err
		}
		return r.others(ctx, c, &want, snap)
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// past reads what is wanted of a session's history.
func (r *storedRow) past(ctx context.Context, c *conn, want *driver.Want, snap *driver.Contents) (err error) {
	position := r.session.State.Position
	if want.Checkpoint != "" {
		if snap.Checkpoint, err = findCheckpoint(c, r, want.Checkpoint); err != nil {
			return err
		}
		position = snap.Checkpoint.StatePosition
	}
	if want.Run != "" {
		if snap.Run, err = findRun(c, r, want.Run); err != nil {
			return err
		}
	}
	if want.State {
		if snap.State, err = stateAt(ctx, c, r.key, position); err != nil {
			return err
		}
	}
	if want.Messages {
		snap.Messages, err = readMessages(ctx, c, r.key, want.First(r.session), want.Size())
	}
	return err
}

// others reads what else is wanted.
func (r *storedRow) others(ctx context.Context, c *conn, want *driver.Want, snap *driver.Contents) (err error) {
	if want.Staged {
		if snap.Staged, err = readStaged(ctx, c, r.key, want.StagedStep); err != nil {
			return err
		}
	}
	if step := r.session.SuspendedStep; want.Calls && step != "" {
		if snap.Calls, err = readCalls(ctx, c, sqlCallsOfStep, r.key, step); err != nil {
			return err
		}
	}
	if want.Cache {
		if snap.Cache, err = readCache(ctx, c, r.key); err != nil {
			return err
		}
	}
	if want.Queue {
		snap.Queue, err = readQueue(ctx, c, r.key)
	}
	return err
}

// Delete implements driver.Store. It leaves the event log to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	err := s.writer.write(ctx, true, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		if r.session.Running(s.clock()) {
			return driver.Conflict(cairn.ErrAlreadyRunning, r.session, "session %q is running", id)
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
