package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// maxScores is the maximum number of scores of a session.
const maxScores = 1000

// Score keeps a score of a session, a run or a message. A later one by the same judge, of the same thing and name,
// replaces it. Scores are kept beside the session: they change no version and wait for no run. They go when the session
// is purged or erased.
//
// It returns the score as it is kept. The error is ErrNotFound for an unknown session, run or message, ErrTooLarge for
// more than 1,000 scores of a session, and ErrInvalid for a store that keeps no records.
func (e *Engine) Score(ctx context.Context, s cairn.Score) (*cairn.Score, error) {
	s.Name = cmp.Or(s.Name, cairn.DefaultScore)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if e.records == nil {
		return nil, cairn.Invalid("store", "%T keeps no scores: it is not a store.RecordProvider", e.store)
	}
	row, err := e.Session(ctx, s.SessionID)
	if err != nil {
		return nil, err
	}
	if err := e.findScored(ctx, &s); err != nil {
		return nil, err
	}
	list, err := e.Scores(ctx, s.SessionID)
	if err != nil {
		return nil, err
	}
	if len(list) >= maxScores && !slices.ContainsFunc(list, func(other cairn.Score) bool { return scoreKey(row, &other) == scoreKey(row, &s) }) {
		return nil, cairn.Errorf(cairn.ErrTooLarge, "session %q has %d scores (max %d)", row.ID, len(list), maxScores)
	}
	value, err := json.Marshal(&s)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	kept, err := e.records.Put(ctx, store.RecordWrite{Namespace: driver.ScoreRecords, Key: scoreKey(row, &s), Value: value, Seen: store.AnyVersion})
	if err != nil {
		return nil, err
	}
	s.At = kept.UpdatedAt
	// An erasure may have dropped the session's scores before this one was written: nothing would remove it.
	now, err := e.Session(ctx, s.SessionID)
	if err == nil && now.Incarnation == row.Incarnation {
		return &s, nil
	}
	if err == nil {
		err = driver.NotFound(s.SessionID)
	}
	if errors.Is(err, cairn.ErrNotFound) {
		err = errors.Join(err, e.records.Delete(ctx, driver.ScoreRecords, kept.Key, kept.Version))
	}
	return nil, err
}

// findScored checks that the run and the message of a score exist, and fills in the message's run.
func (e *Engine) findScored(ctx context.Context, s *cairn.Score) error {
	if s.MessageID != "" {
		for from := 0; ; {
			list, err := e.Messages(ctx, s.SessionID, from, 1000)
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(list, func(m cairn.Message) bool { return m.ID == s.MessageID }); i >= 0 {
				if run := list[i].RunID; s.RunID != "" && s.RunID != run {
					return cairn.Invalid("run_id", "message %q is of run %q", s.MessageID, run)
				}
				s.RunID = list[i].RunID
				return nil
			}
			if from += len(list); len(list) == 0 {
				return &cairn.Error{Code: cairn.ErrNotFound, Field: "message_id", Message: "message " + s.MessageID + " not found"}
			}
		}
	}
	if s.RunID == "" {
		return nil
	}
	_, err := driver.FindRun(ctx, e.store, s.SessionID, s.RunID)
	if errors.Is(err, cairn.ErrNotFound) {
		err = &cairn.Error{Code: cairn.ErrNotFound, Field: "run_id", Message: "run " + s.RunID + " not found"}
	}
	return err
}

// Scores returns the scores of a session, oldest first.
func (e *Engine) Scores(ctx context.Context, session string) ([]cairn.Score, error) {
	row, err := e.Session(ctx, session)
	if err != nil || e.records == nil {
		return nil, err
	}
	var list []cairn.Score
	for r, err := range e.upkeep.scores(ctx, scoresOf(row.Log(), session)) {
		if err != nil {
			return nil, err
		}
		var s cairn.Score
		if err := json.Unmarshal(r.Value, &s); err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "stored score %q: %w", r.Key, err)
		}
		s.At = r.UpdatedAt
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b cairn.Score) int { return a.At.Compare(b.At) })
	return list, nil
}

// scoresOf returns what the keys of a session's scores begin with, in a tree with a log: a digest, so that any id has a
// key.
func scoresOf(log, session string) string {
	return scoresIn(log) + ids.Derive("session", session) + "/"
}

func scoreKey(row *cairn.Session, s *cairn.Score) string {
	return scoresOf(row.Log(), s.SessionID) + ids.Derive("score", s.RunID, s.MessageID, s.Name, s.By)
}
