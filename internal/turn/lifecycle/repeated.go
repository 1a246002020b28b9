package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// RepeatedError means that a turn was not begun because the session has its message, see [Turn.Once].
type RepeatedError struct {
	SessionID string
	// RunID is the last run of the turn that has the message, or the queued turn.
	RunID string
}

// Error names the session and the run.
func (e *RepeatedError) Error() string {
	return fmt.Sprintf("session %q: the message was given before, to the turn of run %q", e.SessionID, e.RunID)
}

// held is a session's row with what the caller has of its contents. The rest is read where it decides.
type held struct {
	row *cairn.Session
	// messages are those from index first to the end of the transcript.
	first    int
	messages []cairn.Message
	run      *cairn.Run // the last run, or nil
	cached   bool       // the store may have more; an error is then not the last word
}

// CheckNext returns the error of a turn that its caller has given before, or that does not follow what its caller has
// seen, by a row that was just read.
func (r *Runs) CheckNext(ctx context.Context, row *cairn.Session, in *Turn) error {
	return r.checkNext(ctx, &held{row: row, first: row.MessageCount}, in)
}

func (r *Runs) checkNext(ctx context.Context, h *held, in *Turn) error {
	if in.Once != "" {
		run, err := r.has(ctx, h, in.Once)
		if err != nil {
			return err
		}
		if run != "" {
			return &RepeatedError{h.row.ID, run}
		}
	}
	if in.Seen == "" {
		return nil
	}
	stands, err := r.stands(ctx, h, in.Seen)
	if err == nil && !stands {
		err = &cairn.Error{Code: cairn.ErrOutdated, Message: fmt.Sprintf("session %q: the messages of run %q are gone from it", h.row.ID, in.Seen)}
	}
	return err
}

// has returns the last run of the session's last turn if that has the user's message with an id, or the queued turn that
// has it; empty if none has.
func (r *Runs) has(ctx context.Context, h *held, message string) (run string, err error) {
	said := func(m cairn.Message) bool { return m.ID == message && m.Role == cairn.RoleUser && !m.Hidden }
	at, from := h.first+len(h.messages)-1, h.first
	if h.run != nil && h.run.ID == h.row.RunID && h.run.PreviousRunID == "" {
		from = max(from, h.run.FirstMessage) // the turn is as long as it is, and a session may be much longer
	}
	for at >= from && !said(h.messages[at-h.first]) {
		at--
	}
	if at < from {
		at = -1
	}
	if row := h.row; row.RunID != "" && (at >= 0 || h.first > 0) {
		from, err := r.turnBegan(ctx, h)
		if err != nil {
			return "", err
		}
		for at < 0 && from < h.first {
			page, err := driver.Messages(ctx, r.Store, row.ID, from, h.first-from)
			if err != nil || len(page) == 0 {
				return "", err
			}
			if slices.ContainsFunc(page, said) {
				return row.RunID, nil
			}
			from += len(page)
		}
		if at >= from {
			return row.RunID, nil
		}
	}
	if h.row.Queued == 0 {
		return "", nil
	}
	queue, err := driver.Queue(ctx, r.Store, h.row.ID)
	for i := range queue {
		if slices.ContainsFunc(queue[i].Messages, said) {
			return queue[i].ID, nil
		}
	}
	return "", err
}

// turnBegan returns the index of the first message of the session's last turn.
func (r *Runs) turnBegan(ctx context.Context, h *held) (int, error) {
	run := h.run
	for id := h.row.RunID; ; id = run.PreviousRunID {
		if run == nil || run.ID != id {
			var err error
			if run, err = driver.FindRun(ctx, r.Store, h.row.ID, id); err != nil {
				return 0, err
			}
		}
		if run.PreviousRunID == "" {
			return run.FirstMessage, nil
		}
	}
}

// stands reports whether the messages of a run are part of the transcript. Those of a run that the session never had
// count as if they were: the caller may have seen it in another session of the thread. What is not in a cached session is
// left for the store to say, which mostly has more.
func (r *Runs) stands(ctx context.Context, h *held, run string) (bool, error) {
	for i := range slices.Backward(h.messages) { // mostly the last one
		if h.messages[i].RunID == run {
			return true, nil
		}
	}
	if h.cached {
		return false, nil
	}
	record, err := driver.FindRun(ctx, r.Store, h.row.ID, run)
	switch {
	case errors.Is(err, cairn.ErrNotFound) && !driver.IsGone(err):
		return true, nil
	case err != nil || record.FirstMessage >= h.first:
		return false, err
	}
	first, err := driver.Messages(ctx, r.Store, h.row.ID, record.FirstMessage, 1)
	return len(first) > 0 && first[0].RunID == run, err
}
