package remotestop

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/retry"

	"github.com/cairn-agents/cairn/store/driver"
)

// deliver delivers a stop that is owed, once the end of its run is committed. What does not succeed at once is
// attempted again without the caller, as long as the engine is open, and then by any worker that has the agent.
func (s *Stops) deliver(ctx context.Context, o *Stop) {
	stopper, _ := s.stopper(o)
	if stopper == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := s.attempt(ctx, stopper, o)
	if err == nil {
		s.delivered(ctx, o, driver.AnyVersion)
		return
	}
	s.Logger.Warn("remote stop not delivered; retrying", "session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
	s.Behind(func(ctx context.Context) { s.repeat(ctx, o) })
}

// attempt makes one attempt to deliver a stop.
func (s *Stops) attempt(ctx context.Context, stopper cairn.Stopper, o *Stop) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	return stopper.StopTurn(ctx, o.Session, o.Runs)
}

// delivered deletes the record of a stop, of the version that was seen, and reports whether this process did.
func (s *Stops) delivered(ctx context.Context, o *Stop, seen int64) bool {
	if s.Records == nil {
		return true
	}
	err := s.Records.Delete(ctx, driver.StopRecords, o.key(), seen)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) {
		s.Logger.Warn("record of a delivered remote stop not deleted; it will be delivered again", "session", o.Session, "run", o.Run, "error", err)
	}
	return err == nil
}

// repeat attempts to deliver a stop that could not be delivered at once, until ctx is done.
func (s *Stops) repeat(ctx context.Context, o *Stop) {
	begun := s.Now()
	for n := 0; retry.Sleep(ctx, retry.Backoff(firstPause, longestPause, n)) == nil; n++ {
		if s.Records == nil {
			if stopper, _ := s.stopper(o); stopper == nil || s.attempt(ctx, stopper, o) == nil || s.Now().Sub(begun) >= deliverFor {
				return
			}
			continue
		}
		rec, err := s.Records.Get(ctx, driver.StopRecords, o.key())
		if errors.Is(err, cairn.ErrNotFound) || err == nil && s.redeliver(ctx, rec, o) == nil {
			return
		}
	}
}

// outcome is what became of a run that a stop is owed for.
type outcome int

const (
	undecided outcome = iota // its end is not committed, or never will be
	ended                    // it has ended, and its turn with it
	continued                // the turn was continued, or has come to its end
)

// outcome returns what became of the run that a stop is owed for.
func (s *Stops) outcome(ctx context.Context, o *Stop) (outcome, error) {
	row, err := driver.Load(ctx, s.Store, o.Session)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return ended, nil
	case err != nil:
		return undecided, err
	case row.RunID != o.Run:
		return s.continuation(ctx, row, o.Run)
	}
	switch row.Status {
	case cairn.SessionFailed, cairn.SessionInterrupted:
		return ended, nil
	case cairn.SessionCompleted:
		return continued, nil
	}
	return undecided, nil
}

// continuation reports whether a session's last run continues the turn of an earlier one.
func (s *Stops) continuation(ctx context.Context, row *cairn.Session, run string) (outcome, error) {
	for id := row.RunID; id != ""; {
		if id == run {
			return continued, nil
		}
		at, err := driver.FindRun(ctx, s.Store, row.ID, id)
		if errors.Is(err, cairn.ErrNotFound) {
			break
		}
		if err != nil {
			return undecided, err
		}
		id = at.PreviousRunID
	}
	return ended, nil
}

// errUndecided says that it is not known yet whether a stop is owed.
var errUndecided = errors.New("the run's end is not committed")

// redeliver delivers a stop that is recorded, if it is owed. The error says that it is to be attempted again.
func (s *Stops) redeliver(ctx context.Context, rec *driver.Record, o *Stop) error {
	stopper, known := s.stopper(o)
	if !known {
		return nil // it is for a process that has the agent
	}
	late := rec.AsOf.Sub(rec.CreatedAt) >= deliverFor
	became, err := s.outcome(ctx, o)
	switch {
	case err != nil:
		return err
	case stopper == nil, became == continued, became == undecided && late:
		s.delivered(ctx, o, rec.Version)
		return nil
	case became == undecided:
		return errUndecided
	}
	if err = s.attempt(ctx, stopper, o); err == nil {
		s.delivered(ctx, o, rec.Version)
		s.Logger.Info("remote stop delivered late", "session", o.Session, "run", o.Run, "agent", o.Agent, "after", rec.AsOf.Sub(rec.CreatedAt))
		return nil
	}
	if late && ctx.Err() == nil {
		if s.delivered(ctx, o, rec.Version) { // one process says so
			s.Logger.Error("giving up on remote stop after a day; the remote agent may still be running",
				"session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
		}
		return nil
	}
	return err
}

// Pauses returns what a worker remembers between calls of [Stops.DeliverRecorded].
func Pauses() *retry.Pauses { return &retry.Pauses{First: firstPause, Longest: longestPause} }

// DeliverRecorded delivers the stops that are recorded for agents of this process. The error says that the records
// could not be read.
func (s *Stops) DeliverRecorded(ctx context.Context, pauses *retry.Pauses) error {
	for rec, err := range driver.All(func(cursor string) (driver.Page[driver.Record], error) {
		return s.Records.List(ctx, driver.RecordQuery{Namespace: driver.StopRecords, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		o := new(Stop)
		if err := json.Unmarshal(rec.Value, o); err != nil || o.key() != rec.Key {
			continue // of a version to come; it expires
		}
		agent, now := "agent "+o.Agent, s.Now()
		if alone, away := pauses.Has(rec.Key, now), pauses.Has(agent, now); alone || away {
			continue
		}
		err := s.redeliver(ctx, rec, o)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, cairn.ErrUnavailable): // nor can it be for the others
			pauses.Add(agent, now)
		case err != nil:
			pauses.Add(rec.Key, now)
		default:
			pauses.End(agent)
		}
	}
	pauses.Tidy()
	return nil
}
