package server

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/cairn-agents/cairn"
)

// excerpt is the part of a session that a principal may read.
type excerpt struct {
	row *cairn.Session
	// upTo is the index behind the last message of the part.
	upTo int
	// calls are the open calls up to which the session is read; nil for the whole session.
	calls []cairn.PendingCall
}

func (x *excerpt) whole() bool { return x.calls == nil }

// openExcerpt opens a session for reading. A principal who may not read the whole session gets what precedes the open
// calls that the policy shows it in their context: [ActionContext].
func (c *request) openExcerpt(id string) (*excerpt, error) {
	row, err := c.open(id, ActionRead)
	if err == nil {
		return &excerpt{row: row, upTo: math.MaxInt}, nil
	}
	if row == nil || row.Removal != "" || !errors.Is(err, cairn.ErrNotFound) {
		return nil, err
	}
	denied := err
	row, root, err := c.load(id)
	if err != nil {
		return nil, hidden(err, id)
	}
	calls, err := c.openCalls(row)
	if err != nil {
		return nil, err
	}
	x := &excerpt{row: row}
	for i := range calls {
		switch err := c.allow(Access{Action: ActionContext, Session: root, Call: &calls[i]}, id); {
		case errors.Is(err, cairn.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		}
		at, err := c.indexOf(x.row, &calls[i])
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			x.upTo, x.calls = max(x.upTo, at+1), append(x.calls, calls[i])
		}
	}
	if x.whole() {
		return nil, denied
	}
	return x, nil
}

// indexOf returns the index of the message with which a session began to wait for a pending call of its own or of a
// session below it; -1 if it does not wait for that.
func (c *request) indexOf(row *cairn.Session, call *cairn.PendingCall) (int, error) {
	toolCall, err := c.waitingCall(row, call)
	if err != nil || toolCall == "" {
		return -1, err
	}
	for to := row.MessageCount; to > 0; {
		from := max(0, to-maxPage)
		list, err := c.h.eng.Messages(c.ctx, row.ID, from, to-from)
		if err != nil {
			return -1, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if slices.ContainsFunc(list[i].ToolUses(), func(u *cairn.ToolUse) bool { return u.CallID == toolCall }) {
				return from + i, nil
			}
		}
		to = from
	}
	return -1, nil
}

// waitingCall returns the id of the tool call in a session that waits for a pending call: the call itself, or the one
// that consults the agent whose session waits. It is empty if there is none.
func (c *request) waitingCall(row *cairn.Session, call *cairn.PendingCall) (string, error) {
	if call.SessionID == row.ID {
		return cmp.Or(call.ToolCallID, call.ID), nil
	}
	if row.RunID == "" {
		return "", nil
	}
	child, err := c.h.eng.Session(c.ctx, call.SessionID)
	for err == nil && child.ParentID != "" && child.ParentID != row.ID {
		child, err = c.h.eng.Session(c.ctx, child.ParentID)
	}
	if err != nil || child.ParentID == "" {
		return "", err
	}
	run, err := c.h.eng.Run(c.ctx, row.ID, row.RunID)
	if err != nil {
		return "", err
	}
	record, err := run.Record(c.ctx)
	if err != nil || record.Suspended == nil {
		return "", err
	}
	for _, ref := range record.Suspended.Children {
		if ref.SessionID == child.ID {
			return ref.CallID, nil
		}
	}
	return "", nil
}
