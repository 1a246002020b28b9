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
	return fmt.Sprintf("session %q: message was already sent to the turn of run %q", e.SessionID, e.RunID)
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
		err = &cairn.Error{Code: cairn.ErrOutdated, Message: fmt.Sprintf("session %q: the messages of run %q were removed", h.row.ID, in.Seen)}
	}
	return err
}

// has returns the last run of the session's last turn if that has the user's message with an id, or the queued turn that
// has it; empty if none has.
func (r *Runs) has(ctx context.Context, h *held, message string) (run string, err error) {
	said := func(m cairn.Message) bool { return m.ID == message && m.Role == cairn.RoleUser && !m.Hidden }
	inTurn, err := r.inLastTurn(ctx, h, said)
	switch {
	case err != nil:
		return "", err
	case inTurn:
		return h.row.RunID, nil
	}
	return r.inQueue(ctx, h.row, said)
}

// inLastTurn reports whether a message of the session's last turn is as said reports. It looks at the messages at hand
// first. Only if one is not known to be of the turn, or if there are others, it reads the runs of the turn.
func (r *Runs) inLastTurn(ctx context.Context, h *held, said func(cairn.Message) bool) (bool, error) {
	at := h.last(said)
	if h.row.RunID == "" || at < 0 && h.first == 0 {
		return false, nil
	}
	began, err := r.turnBegan(ctx, h)
	if err != nil {
		return false, err
	}
	if at >= 0 {
		return at >= began, nil
	}
	return r.between(ctx, h.row.ID, began, h.first, said)
}

// last returns the index in the transcript of the last message at hand that is as said reports, -1 if there is none. If
// the run at hand is the last turn, it looks at no message before that: the session may have many.
func (h *held) last(said func(cairn.Message) bool) int {
	from := h.first
	if h.run != nil && h.run.ID == h.row.RunID && h.run.PreviousRunID == "" {
		from = max(from, h.run.FirstMessage)
	}
	for at := h.first + len(h.messages) - 1; at >= from; at-- {
		if said(h.messages[at-h.first]) {
			return at
		}
	}
	return -1
}

// between reports whether a message of a session, from one index to before another, is as said reports.
func (r *Runs) between(ctx context.Context, sessionID string, from, to int, said func(cairn.Message) bool) (bool, error) {
	for from < to {
		page, err := driver.Messages(ctx, r.Store, sessionID, from, to-from)
		if err != nil || len(page) == 0 {
			return false, err
		}
		if slices.ContainsFunc(page, said) {
			return true, nil
		}
		from += len(page)
	}
	return false, nil
}

// inQueue returns the queued turn of a session with a message that is as said reports; empty if there is none.
func (r *Runs) inQueue(ctx context.Context, row *cairn.Session, said func(cairn.Message) bool) (id string, err error) {
	if row.Queued == 0 {
		return "", nil
	}
	queue, err := driver.Queue(ctx, r.Store, row.ID)
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
